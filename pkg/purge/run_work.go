package purge

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// work gives each table its turn, oldest first.
func (r *runner) work(ctx context.Context) error {
	var turns []*month
	for i := range r.plan.Months {
		m := &month{plan: &r.plan.Months[i], report: &r.report.Months[i], name: r.plan.Months[i].Table.Name}
		if m.plan.Action != ActionKeep {
			turns = append(turns, m)
		}
	}
	if r.opts.Parallel == 1 || len(turns) < 2 {
		return r.main.each(ctx, turns)
	}
	return r.parallel(ctx, turns)
}

// each works months one after the other on the run's own connection.
func (w *worker) each(ctx context.Context, turns []*month) error {
	for _, m := range turns {
		if err := w.turn(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

func (w *worker) turn(ctx context.Context, m *month) error {
	release, err := w.lockMonth(ctx, m)
	if off, ok := errors.AsType[*deferral](err); ok {
		m.report.Outcome, m.report.Reason = OutcomeDeferred, off.Error()
		return nil
	}
	if err != nil {
		return err
	}
	defer release()
	return w.do(ctx, m)
}

// parallel works months that lose rows at once, each on a connection of its own. Months that are renamed or dropped stay
// with the run's own connection, one at a time (hazard P10), beside the others.
func (r *runner) parallel(ctx context.Context, turns []*month) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var whole []*month
	rows := make(chan *month, len(turns))
	for _, m := range turns {
		if m.plan.Action == ActionRows {
			rows <- m
		} else {
			whole = append(whole, m)
		}
	}
	close(rows)
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		first error
	)
	fail := func(err error) {
		if err == nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if first == nil {
			first = err
			cancel(err) // the others stop before their next step
		}
	}
	for range r.opts.Parallel {
		wg.Go(func() {
			for m := range rows {
				if err := r.apart(ctx, m); err != nil {
					fail(err)
					return
				}
			}
		})
	}
	fail(r.main.each(ctx, whole))
	wg.Wait()
	return first
}

// apart works one month on a connection of its own, which holds the month's lock. Before each step it looks whether it still
// does, and whether the run's own connection still holds the ledger's lock.
func (r *runner) apart(ctx context.Context, m *month) error {
	lock, err := mysqlx.Acquire(ctx, r.db, r.monthLock(m), 0)
	if errors.Is(err, mysqlx.ErrLockHeld) {
		m.report.Outcome, m.report.Reason = OutcomeDeferred, "another run is still working on it"
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Release(ctx) //nolint:errcheck // the connection is closed either way, and what was done is reported
	if err := r.setSession(ctx, lock.Conn()); err != nil {
		return err
	}
	ledger := mysqlx.LockName(lockPurpose, r.schema, r.plan.Prefix)
	w := &worker{runner: r, conn: lock.Conn(), size: r.opts.Batch}
	w.check = func(ctx context.Context) error {
		var held sql.NullBool
		err := w.conn.QueryRowContext(ctx, "SELECT IS_USED_LOCK(?) = CONNECTION_ID() AND IS_USED_LOCK(?) = ?", r.monthLock(m), ledger, r.mainID).Scan(&held)
		if err != nil {
			return fmt.Errorf("lock %s: %w: %w", ledger, mysqlx.ErrLockLost, err)
		}
		if !held.Bool {
			return fmt.Errorf("lock %s: %w", ledger, mysqlx.ErrLockLost)
		}
		return nil
	}
	return w.do(ctx, m)
}

// lockPurpose is that of the lock which partition.LockMonths takes.
const lockPurpose = "months"
