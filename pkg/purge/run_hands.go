package purge

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// A month's lock has as many lanes as connections that may delete from it at once. Whoever works a month holds all of them:
// each connection that deletes holds one, and the first also those that no other one has. So a connection of a run that is
// no longer the ledger's, but does not know it yet, keeps the next run off that month by the one lane that it still holds
// (hazard P20).
const lanes = MaxParallel

func (r *runner) laneLock(m *month, lane int) string {
	purpose := "month:" + m.plan.Table.Month.Digits()
	if lane > 0 {
		purpose += ":" + strconv.Itoa(lane)
	}
	return mysqlx.LockName(purpose, r.schema, r.plan.Prefix)
}

// busy says that another run has not let go of a month.
func busy() *deferral {
	return &deferral{reason: "another run is still working on it", err: mysqlx.ErrLockHeld}
}

// takeMonth makes w the first hand of a month and opens the others, hands in all, each on a connection of its own. release
// lets go of everything.
func (w *worker) takeMonth(ctx context.Context, m *month, hands int) (release func(), err error) {
	names := []string{w.laneLock(m, 0)}
	for lane := hands; lane < lanes; lane++ {
		names = append(names, w.laneLock(m, lane))
	}
	if err := w.takeLanes(ctx, names); err != nil {
		return nil, err
	}
	w.hands = []*worker{w}
	release = func() {
		for _, h := range w.hands[1:] {
			_ = h.lock.Release(ctx) // the connection is closed either way
		}
		w.hands = nil
		// A connection that cannot say so has given the locks up by ending.
		_, _ = w.conn.ExecContext(w.detached(ctx), "DO "+strings.Repeat("RELEASE_LOCK(?), ", len(names)-1)+"RELEASE_LOCK(?)", anys(names)...)
	}
	for lane := 1; lane < hands; lane++ {
		h, err := w.hand(ctx, m, lane)
		if err != nil {
			release()
			return nil, err
		}
		w.hands = append(w.hands, h)
	}
	return release, nil
}

// takeLanes takes lanes on the worker's own connection, all or none.
func (w *worker) takeLanes(ctx context.Context, names []string) error {
	got := make([]sql.NullInt64, len(names))
	into := make([]any, len(names))
	for i := range got {
		into[i] = &got[i]
	}
	query := "SELECT " + strings.Repeat("GET_LOCK(?, 0), ", len(names)-1) + "GET_LOCK(?, 0)"
	if err := w.conn.QueryRowContext(w.detached(ctx), query, anys(names)...).Scan(into...); err != nil {
		return fmt.Errorf("lock a month: %w: %w", mysqlx.ErrLockLost, err)
	}
	all := true
	for _, g := range got {
		all = all && g.Int64 == 1
	}
	if all {
		return nil
	}
	for i, g := range got {
		if g.Int64 == 1 {
			_, _ = w.conn.ExecContext(w.detached(ctx), "DO RELEASE_LOCK(?)", names[i]) // or it goes with the connection
		}
	}
	return busy()
}

// hand opens a connection that holds one lane. Before each step it looks whether it still does, and whether the run's own
// connection still holds the ledger's lock.
func (r *runner) hand(ctx context.Context, m *month, lane int) (*worker, error) {
	name, ledger := r.laneLock(m, lane), r.plan.scheme.LockName(r.schema)
	lock, err := mysqlx.Acquire(ctx, r.db, name, 0)
	if errors.Is(err, mysqlx.ErrLockHeld) {
		return nil, busy()
	}
	if err != nil {
		return nil, err
	}
	if err := r.setSession(ctx, lock.Conn()); err != nil {
		return nil, errors.Join(err, lock.Release(ctx))
	}
	h := &worker{runner: r, conn: lock.Conn(), lock: lock, size: r.opts.Batch}
	h.check = func(ctx context.Context) error {
		var held sql.NullBool
		err := h.conn.QueryRowContext(ctx, "SELECT IS_USED_LOCK(?) = CONNECTION_ID() AND IS_USED_LOCK(?) = ?", name, ledger, r.mainID).Scan(&held)
		if err != nil {
			return fmt.Errorf("lock %s: %w: %w", ledger, mysqlx.ErrLockLost, err)
		}
		if !held.Bool {
			return fmt.Errorf("lock %s: %w", ledger, mysqlx.ErrLockLost)
		}
		return nil
	}
	return h, nil
}

func anys(names []string) []any {
	out := make([]any, len(names))
	for i, n := range names {
		out[i] = n
	}
	return out
}

// queue hands out parts of what is to be deleted of one window.
type queue struct {
	mu   sync.Mutex
	rest []deletion
	err  error // why no more is handed out
}

// next takes up to n victims of one biz_type; false: there are no more, or another hand has failed.
func (q *queue) next(n int) (deletion, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil || len(q.rest) == 0 {
		return deletion{}, false
	}
	d := q.rest[0]
	if n = min(n, len(d.victims)); n == len(d.victims) {
		q.rest = q.rest[1:]
	} else {
		q.rest[0].victims = d.victims[n:]
	}
	d.victims = d.victims[:n]
	return d, true
}

// fail ends the queue; the first reason holds.
func (q *queue) fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.err = err
	}
}

// empty works the queue off with all hands.
func (w *worker) empty(q *queue, deleteOne func(h *worker, d deletion) error) error {
	work := func(h *worker) {
		for {
			d, ok := q.next(h.size)
			if !ok {
				return
			}
			if err := deleteOne(h, d); err != nil {
				q.fail(err)
				return
			}
		}
	}
	var others sync.WaitGroup
	for _, h := range w.hands[1:] {
		others.Go(func() { work(h) })
	}
	work(w)
	others.Wait()
	return q.err
}
