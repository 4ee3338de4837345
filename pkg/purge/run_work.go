package purge

import (
	"context"
	"errors"
	"sync"
)

// work gives each table its turn, oldest first. Where more is to be done at once than there are months that lose rows, each
// of them is deleted from over several connections.
func (r *runner) work(ctx context.Context) error {
	var turns, rows, whole []*month
	for i := range r.plan.Months {
		m := &month{plan: &r.plan.Months[i], report: &r.report.Months[i], name: r.plan.Months[i].Table.Name}
		switch m.plan.Action {
		case ActionKeep:
			continue
		case ActionRows:
			rows = append(rows, m)
		default:
			whole = append(whole, m)
		}
		turns = append(turns, m)
	}
	if r.opts.Parallel == 1 || len(rows) < 2 {
		return r.main.each(ctx, turns, r.opts.Parallel)
	}
	return r.parallel(ctx, rows, whole)
}

// each works months one after the other on the run's own connection.
func (w *worker) each(ctx context.Context, turns []*month, hands int) error {
	for _, m := range turns {
		if err := w.turn(ctx, m, hands); err != nil {
			return err
		}
	}
	return nil
}

// turn takes one month, works it and lets go of it.
func (w *worker) turn(ctx context.Context, m *month, hands int) error {
	release, err := w.takeMonth(ctx, m, hands)
	if err != nil {
		return m.putOff(err)
	}
	defer release()
	return w.do(ctx, m)
}

// parallel works months that lose rows at once, each on a connection of its own. Months that are renamed or dropped stay
// with the run's own connection, one at a time (hazard P10), beside the others.
func (r *runner) parallel(ctx context.Context, rows, whole []*month) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	turns := make(chan *month, len(rows))
	for _, m := range rows {
		turns <- m
	}
	close(turns)
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
	workers := min(r.opts.Parallel, len(rows))
	for range workers {
		wg.Go(func() {
			for m := range turns {
				if err := r.apart(ctx, m, r.opts.Parallel/workers); err != nil {
					fail(err)
					return
				}
			}
		})
	}
	fail(r.main.each(ctx, whole, 1))
	wg.Wait()
	return first
}

// apart works one month on connections of its own.
func (r *runner) apart(ctx context.Context, m *month, hands int) error {
	w, err := r.hand(ctx, m, lanes) // a lane that nobody deletes by: the connection, and who looks after it
	if err != nil {
		return m.putOff(err)
	}
	defer w.lock.Release(ctx) //nolint:errcheck // the connection is closed either way, and what was done is reported
	return w.turn(ctx, m, hands)
}

// putOff notes a deferral; other errors are returned.
func (m *month) putOff(err error) error {
	off, ok := errors.AsType[*deferral](err)
	if !ok {
		return err
	}
	m.report.Outcome, m.report.Reason = OutcomeDeferred, off.Error()
	return nil
}
