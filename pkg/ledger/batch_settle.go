package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// settle finds out what became of a COMMIT that was not answered, or of a transaction that an effect lost on the way: it
// reads the keys' rows again, on another connection, and judges each key by itself by its claim id: on a sharded ledger
// part of a batch may be in (hazard G23). The read locks, so it waits for a transaction whose end the server has not seen
// yet. A key without a row stays undecided: nothing of it was committed, it runs again.
func (b *batch) settle(ctx context.Context, set []*claim, cause error) {
	// The answer matters even if the caller has given up meanwhile: effects may be in.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.guard.opts.SettleTimeout)
	defer cancel()
	for try := 1; ; try++ {
		err := b.readBack(ctx, set)
		if err == nil {
			break
		}
		if perr := pause(ctx, try+4); perr != nil {
			failAll(undecided(set), fmt.Errorf("%w: %w", ErrCommitUnknown, errors.Join(cause, err)))
			return
		}
	}
	if !errors.Is(cause, errTransactionGone) {
		return
	}
	for _, c := range set {
		if c.decided && c.result.Outcome == Executed {
			c.decide(Result{Entry: c.result.Entry, Err: ErrEffectEndedTransaction})
		}
	}
}

func (b *batch) readBack(ctx context.Context, set []*claim) error {
	err := mysqlx.WithTx(ctx, b.guard.opts.Store.tx, func(tx *sql.Tx) error {
		t := &transaction{batch: b, snap: b.guard.current(), tx: tx}
		for _, table := range t.snap.Tables {
			// A table that was dropped since is no place for a row of ours: the next transaction reloads the catalog.
			if _, err := t.probe(ctx, table, undecided(set)); err != nil && mysqlx.Number(err) != mysqlx.ErrNoSuchTable {
				return err
			}
		}
		return errDecided
	})
	if errors.Is(err, errDecided) {
		return nil
	}
	return err
}
