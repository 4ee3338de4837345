package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// Effect is the business write. It runs in the ledger's own transaction, after the ledger row was inserted, and at most
// once to its end per key. It may run more than once up to a rollback, so it must do nothing that a rollback does not undo.
type Effect func(ctx context.Context, tx Tx) error

// alone is the effect for a batch of one.
func (e Effect) alone() BatchEffect {
	return func(ctx context.Context, tx Tx, _ []int) error { return e(ctx, tx) }
}

// Tx is the ledger's transaction as an effect sees it: it can neither commit nor roll back.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// EffectError is an error of the effect itself: the message may be parked after bounded retries. Every other error of a
// guard is of a server or of the set-up, and never parks anything.
type EffectError struct{ Err error }

func (e *EffectError) Error() string { return "effect: " + e.Err.Error() }

// Unwrap returns what the effect returned.
func (e *EffectError) Unwrap() error { return e.Err }

// ErrEffectEndedTransaction says that an effect committed the ledger's transaction (DDL, TRUNCATE, COMMIT, a CALL that does
// either). Its writes stay without the guard's word on them: the handler must be stopped and mended.
var ErrEffectEndedTransaction = errors.New("the effect ended the ledger's transaction (DDL, COMMIT or a CALL in it)")

// errTransactionGone says that the server has undone the transaction while the effect went on.
var errTransactionGone = errors.New("the server has rolled the transaction back under the effect")

// savepoint tells after an effect whether the transaction is still the same one (invariant 6).
const savepoint = "idemctl_effect"

// runEffect runs the effect between a savepoint and its release.
func runEffect(ctx context.Context, tx *sql.Tx, effect Effect) error {
	if _, err := tx.ExecContext(ctx, "SAVEPOINT "+savepoint); err != nil {
		return fmt.Errorf("savepoint: %w", err)
	}
	watched := &watchedTx{Tx: tx}
	err := effect(ctx, watched)
	switch {
	case watched.undone != nil:
		// A 1213, 1205 or 1020, or no answer at all: what the effect wrote before may be gone, whatever it says itself.
		return watched.undone
	case mysqlx.IsServerTrouble(err):
		return fmt.Errorf("effect: %w", err) // not the message's fault: it must not be parked for it
	case err != nil:
		return &EffectError{Err: err}
	}
	_, err = tx.ExecContext(ctx, "RELEASE SAVEPOINT "+savepoint)
	switch {
	case mysqlx.Number(err) == mysqlx.ErrSPDoesNotExist:
		return errTransactionGone
	case err != nil:
		return fmt.Errorf("release savepoint: %w", err)
	}
	return nil
}

// watchedTx remembers an error after which the transaction cannot be trusted, even if the effect swallows it.
type watchedTx struct {
	*sql.Tx
	undone error
}

// ExecContext implements Tx.
func (w *watchedTx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	res, err := w.Tx.ExecContext(ctx, query, args...)
	w.note(err)
	return res, err
}

// QueryContext implements Tx.
func (w *watchedTx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	rows, err := w.Tx.QueryContext(ctx, query, args...)
	w.note(err)
	return rows, err
}

// QueryRowContext implements Tx.
func (w *watchedTx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	row := w.Tx.QueryRowContext(ctx, query, args...)
	w.note(row.Err())
	return row
}

func (w *watchedTx) note(err error) {
	if mysqlx.IsRetryable(err) || mysqlx.IsConnLost(err) {
		w.undone = err
	}
}
