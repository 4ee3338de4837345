package mysqlx

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Queryer is what *sql.DB, *sql.Conn and *sql.Tx share for reading.
type Queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Execer is what they share for writing.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// ExecQueryer reads and writes.
type ExecQueryer interface {
	Queryer
	Execer
}

// WithTx runs fn in a transaction: committed when fn returns nil, rolled back otherwise, also when ctx has ended or fn
// panics. An error of COMMIT is returned as a *CommitError, since what it did is not known.
//
// A connection whose transaction has not come to a known end is closed, not pooled: the next BEGIN on it would commit what
// is still open.
func WithTx(ctx context.Context, db *sql.DB, fn func(*sql.Tx) error) (err error) {
	conn, err := db.Conn(ctx) // waiting for a connection may be cancelled
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	ended := false
	defer func() {
		if ended {
			_ = conn.Close() // back into the pool
		} else {
			_ = discard(conn) // what is reported is why it did not end
		}
	}()
	// The transaction itself must outlive a cancelled caller: database/sql would roll back by itself, in the background,
	// and race with fn and with COMMIT.
	tx, err := conn.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	committing := false
	defer func() {
		if committing {
			return
		}
		rerr := rollback(tx)
		ended = rerr == nil
		err = errors.Join(err, rerr)
	}()
	if err := fn(tx); err != nil {
		return err
	}
	committing = true
	if err := tx.Commit(); err != nil {
		return &CommitError{Err: err}
	}
	ended = true
	return nil
}

// rollback ends the transaction. A connection that is gone has ended it too: the server rolls back by itself.
func rollback(tx *sql.Tx) error {
	err := tx.Rollback()
	if err == nil || errors.Is(err, sql.ErrTxDone) || IsConnLost(err) {
		return nil
	}
	return fmt.Errorf("rollback: %w", err)
}

// CommitError is a COMMIT that was not answered with success: the transaction may have been committed.
type CommitError struct{ Err error }

func (e *CommitError) Error() string { return "commit: " + e.Err.Error() }

// Unwrap returns the driver's error.
func (e *CommitError) Unwrap() error { return e.Err }
