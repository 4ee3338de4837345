package purge

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// worker works one month at a time, over a connection that holds a lock.
type worker struct {
	*runner

	conn *sql.Conn
	// check returns mysqlx.ErrLockLost unless conn holds its lock, and the run its own.
	check func(context.Context) error
	size  int // rows of the next DELETE at most

	lock  *mysqlx.Lock // of a connection that takeMonth opened
	hands []*worker    // those that delete from the month, this one first
}

// stopError ends a run as it was asked to.
type stopError struct{ ended Ended }

func (e *stopError) Error() string { return "stopped: " + string(e.ended) }

// interrupted reports that the run is to end.
func (r *runner) interrupted(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case r.opts.RunTime > 0 && r.opts.now().Sub(r.started) >= r.opts.RunTime:
		return &stopError{ended: EndedRunTime}
	case r.opts.Stop():
		return &stopError{ended: EndedStopFile}
	}
	return nil
}

// gate stands before each step that changes something: may the run go on, is the replica near enough, is the lock still
// ours.
func (w *worker) gate(ctx context.Context, m *month) error {
	if err := w.interrupted(ctx); err != nil {
		return err
	}
	if err := w.awaitReplica(ctx, m); err != nil {
		return err
	}
	return w.check(w.detached(ctx))
}

// detached is the context of statements on a connection that holds a lock: cut off in the middle, the driver would close
// the connection and with it give up the lock. They are short; whether to go on is asked between them.
func (w *worker) detached(ctx context.Context) context.Context { return context.WithoutCancel(ctx) }

// How often a wait looks whether it is to end, and whether the lock is still there.
const (
	waitLook  = 250 * time.Millisecond
	waitCheck = 5 * time.Second
)

// wait waits; it ends early with whatever ends the run, and when the lock is lost.
func (w *worker) wait(ctx context.Context, m *month, d time.Duration, what string) error {
	end := time.NewTimer(d)
	defer end.Stop()
	look := time.NewTicker(waitLook)
	defer look.Stop()
	checked := time.Now()
	for {
		if err := w.interrupted(ctx); err != nil {
			return err
		}
		if time.Since(checked) >= waitCheck {
			if err := w.check(w.detached(ctx)); err != nil {
				return err
			}
			checked = time.Now()
		}
		select {
		case <-end.C:
			return w.interrupted(ctx)
		case <-ctx.Done():
		case <-look.C:
			w.progress(m, what)
			w.step(StepWaiting, m.name, 0)
		}
	}
}

// pause lets others have the server for a moment, not all runs at the same ones.
func (w *worker) pause(ctx context.Context, m *month) error {
	if w.opts.Pause == 0 {
		return nil
	}
	return w.wait(ctx, m, w.opts.Pause*3/4+rand.N(w.opts.Pause/2+1), "pause")
}

// awaitReplica waits while the replica is too far behind, or does not say how far (hazard P12).
func (w *worker) awaitReplica(ctx context.Context, m *month) error {
	if w.opts.Lag == nil {
		return nil
	}
	var since time.Time
	for {
		behind, why, err := w.replicaBehind(ctx)
		if err != nil {
			return err
		}
		if !behind {
			break
		}
		if since.IsZero() {
			since = w.opts.now()
			w.addLagWait(1, 0)
		}
		err = w.wait(ctx, m, w.opts.LagPoll, why)
		now := w.opts.now()
		w.addLagWait(0, now.Sub(since))
		since = now
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) addLagWait(n int64, d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.LagWaits += n
	r.report.LagWaited += d
}

// replicaBehind asks for the lag, unless that was done a moment ago. Only an interruption is an error: a lag that cannot be
// asked for is not known.
func (r *runner) replicaBehind(ctx context.Context) (behind bool, why string, err error) {
	r.mu.Lock()
	now := r.opts.now()
	fresh := !r.lagAsked.IsZero() && now.Sub(r.lagAsked) < r.opts.LagPoll && !r.lagging
	r.mu.Unlock()
	if fresh {
		return false, "", nil
	}
	lag, known, lerr := r.opts.Lag(ctx)
	if ctx.Err() != nil {
		return false, "", context.Cause(ctx)
	}
	switch {
	case lerr != nil:
		behind, why = true, "replica: its lag is not known: "+lerr.Error()
	case !known:
		behind, why = true, "replica: its lag is not known"
	case lag > r.opts.MaxLag:
		behind, why = true, fmt.Sprintf("replica: %s behind, at most %s", lag.Round(time.Millisecond), r.opts.MaxLag)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lagAsked, r.lagging = now, behind
	return behind, why, nil
}

// attempts bounds how often a statement that met another's lock is tried.
const attempts = 6

// exec runs a statement on the lock's connection. A deadlock or a lock wait that ran out is tried again, after a pause that
// differs between rivals; the lock is looked at before each time.
func (w *worker) exec(ctx context.Context, query string, args []any) (n int64, err error) {
	for try := 1; ; try++ {
		res, err := w.conn.ExecContext(w.detached(ctx), query, args...)
		if err == nil {
			return res.RowsAffected()
		}
		if err := w.lost(ctx, err); err != nil {
			return 0, err
		}
		if !mysqlx.IsRetryable(err) || try == attempts {
			return 0, err
		}
		if err := w.interrupted(ctx); err != nil {
			return 0, err
		}
		backoff := time.Duration(try) * 20 * time.Millisecond
		select {
		case <-ctx.Done():
		case <-time.After(backoff/2 + rand.N(backoff)):
		}
		if err := w.check(w.detached(ctx)); err != nil {
			return 0, err
		}
	}
}

// lost turns an error of the lock's connection into ErrLockLost when that is what it means; else it returns nil.
func (w *worker) lost(ctx context.Context, err error) error {
	if errors.Is(err, mysqlx.ErrLockLost) {
		return err
	}
	if mysqlx.IsConnLost(err) {
		return fmt.Errorf("%w: %w", mysqlx.ErrLockLost, err)
	}
	if !mysqlx.IsServerTrouble(err) {
		return nil
	}
	if cerr := w.check(w.detached(ctx)); cerr != nil { // killed: the server has said so in words first
		return errors.Join(cerr, err)
	}
	return nil
}

func (r *runner) step(name StepName, table string, rows int64) {
	r.opts.OnStep(Step{Name: name, Table: table, Rows: rows})
}

func (r *runner) progress(m *month, waiting string) {
	if r.opts.Progress == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opts.Progress(Progress{
		Table: m.name, Phase: m.phase, Waiting: waiting,
		Done: r.report.Deleted + r.report.DroppedRows, Rows: r.plan.Rows,
	})
}
