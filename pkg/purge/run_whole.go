package purge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/partition"
)

// putBackTimeout bounds the way back of a month whose drop is interrupted.
const putBackTimeout = 30 * time.Second

// whole drops a month of which every row has expired: rename, wait, check again, archive, compare, drop (hazard P7).
func (w *worker) whole(ctx context.Context, m *month, t partition.Table) error {
	if left := w.rowsLeft(); w.budget != nil && m.plan.Rows > left {
		return w.rows(ctx, m) // more than the run may take: what it may goes by rows
	}
	m.phase = PhaseHold
	if err := w.gate(ctx, m); err != nil {
		return err
	}
	w.progress(m, "")
	held, err := w.mover.Hold(w.detached(ctx), t, w.opts.Run)
	if err != nil {
		return w.putOff(ctx, "rename "+m.name, err)
	}
	m.name, m.report.HeldAs = held.Name, held.Name
	w.step(StepHeld, held.Name, 0)
	return w.held(ctx, m, held)
}

// settle takes up what a run that broke off has left renamed.
func (w *worker) settle(ctx context.Context, m *month) error {
	m.phase = PhaseHold
	if err := w.gate(ctx, m); err != nil {
		return err
	}
	t, there, err := w.mover.Settle(w.detached(ctx), m.plan.Table)
	if err != nil {
		return w.putOff(ctx, "settle "+m.name, err)
	}
	if !there {
		m.report.Outcome = OutcomeGone
		return w.reread(ctx)
	}
	m.name = t.Name
	if t.State == partition.Live {
		if m.plan.PutBack {
			return w.rows(ctx, m)
		}
		return w.whole(ctx, m, t)
	}
	m.report.HeldAs = t.Name
	if left := w.rowsLeft(); m.plan.PutBack || (w.budget != nil && m.plan.Rows > left) {
		if err := w.putBack(ctx, m, t); err != nil {
			return err
		}
		return w.rows(ctx, m)
	}
	return w.held(ctx, m, t)
}

// held waits for late rows, looks once more and drops. Whatever ends it before the drop puts the month back, as long as the
// lock is ours.
func (w *worker) held(ctx context.Context, m *month, t partition.Table) error {
	rows, purged, err := w.prove(ctx, m, t)
	if err == nil {
		m.phase = PhaseDrop
		err = w.gate(ctx, m)
	}
	switch {
	case err == nil:
		return w.drop(ctx, m, t, dropped{rows: rows, purged: purged, outcome: OutcomeDropped})
	case errors.Is(err, mysqlx.ErrLockLost):
		return err // it stays held, for the next run
	case mysqlx.Number(err) == mysqlx.ErrNoSuchTable: // gone meanwhile, or by a run before: what is left is its listing
		return w.drop(ctx, m, t, dropped{purged: maxCreate(mergeBiz(m.plan.Windows)), outcome: OutcomeGone})
	}
	perr := w.putBack(ctx, m, t)
	if perr == nil {
		return err
	}
	if _, ok := errors.AsType[*deferral](perr); !ok {
		return errors.Join(err, perr)
	}
	if _, ok := errors.AsType[*deferral](err); ok {
		return &deferral{reason: err.Error(), err: perr}
	}
	m.report.Reason = perr.Error()
	return err
}

// prove waits, counts again and archives: what it returns is what the table holds, and all of that goes.
func (w *worker) prove(ctx context.Context, m *month, t partition.Table) (int64, map[string]time.Time, error) {
	if w.opts.Hold > 0 {
		if err := w.wait(ctx, m, w.opts.Hold, "late rows of "+t.Name); err != nil {
			return 0, nil, err
		}
	}
	m.phase = PhaseCheck
	w.progress(m, "")
	if err := w.interrupted(ctx); err != nil {
		return 0, nil, err
	}
	biz, err := w.recount(ctx, m, t)
	if err != nil {
		return 0, nil, err
	}
	var rows int64
	for _, b := range biz {
		rows += b.Rows
	}
	w.step(StepChecked, t.Name, rows)
	if w.opts.Archive != nil && rows > 0 {
		if err := w.archiveWhole(ctx, m, t, rows); err != nil {
			return 0, nil, err
		}
	}
	return rows, maxCreate(biz), nil
}

// recount reads the held table and compares it with the plan: a late row, a refreshed one, any other count puts it off.
func (w *worker) recount(ctx context.Context, m *month, t partition.Table) ([]BizWindow, error) {
	s := ownShape(t.Name)
	all, err := s.everything(ctx, w.db, w.plan.selection(t.Name), m.plan.Rows)
	if err != nil {
		return nil, err
	}
	var biz []BizWindow
	switch {
	case all.rows == 0:
	case all.firstBiz == all.lastBiz:
		biz = []BizWindow{{BizType: all.firstBiz, Rows: all.rows, MaxCreate: all.created}}
	default:
		if biz, err = s.byBiz(ctx, w.db, ""); err != nil {
			return nil, err
		}
	}
	switch {
	case all.rows > 0 && !all.expiry.Before(w.plan.Cutoff):
		return nil, &deferral{reason: fmt.Sprintf("a row of it expires only at %s: it came or was refreshed after the plan", stamp(all.expiry))}
	case all.created.After(w.plan.Cutoff):
		return nil, &deferral{reason: fmt.Sprintf("a row of it was created at %s, after the cutoff", stamp(all.created))}
	case !slices.EqualFunc(biz, mergeBiz(m.plan.Windows), sameBiz):
		return nil, &deferral{reason: fmt.Sprintf("it holds %d rows, and not those of the plan (%d)", all.rows, m.plan.Rows)}
	}
	return biz, nil
}

func sameBiz(a, b BizWindow) bool {
	return a.BizType == b.BizType && a.Rows == b.Rows && a.MaxCreate.Equal(b.MaxCreate)
}

// archiveWhole archives a held table and compares it with what was written.
func (w *worker) archiveWhole(ctx context.Context, m *month, t partition.Table, rows int64) error {
	a, err := w.archive(ctx, m, w.plan.selection(t.Name), 0)
	if err != nil {
		return err
	}
	if n := a.Manifest().Rows; n != rows {
		return &deferral{reason: fmt.Sprintf("its archive has %d rows of %d", n, rows)}
	}
	err = a.Compare(ctx, w.db, t.Name)
	if differs, ok := errors.AsType[*MismatchError](err); ok {
		return &deferral{reason: "it is not what was archived", err: differs}
	}
	return err
}

// dropped is what goes with a table.
type dropped struct {
	rows    int64
	purged  map[string]time.Time
	outcome Outcome
}

// drop raises the horizon and drops.
func (w *worker) drop(ctx context.Context, m *month, t partition.Table, d dropped) error {
	w.progress(m, "")
	if err := w.mover.Drop(w.detached(ctx), t, d.purged); err != nil {
		return w.putOff(ctx, "drop "+t.Name+" (it stays held, the next run goes on)", err)
	}
	w.claim(int(d.rows))
	w.mu.Lock()
	w.report.DroppedRows += d.rows
	w.mu.Unlock()
	m.report.Dropped, m.report.HeldAs, m.report.Outcome = d.rows, "", d.outcome
	if d.outcome == OutcomeDropped {
		for i := range m.report.Windows {
			m.report.Windows[i].Deleted = m.report.Windows[i].Planned
		}
	}
	w.step(StepDropped, t.Name, d.rows)
	return w.reread(ctx)
}

// reread learns what the catalog says now of the horizon.
func (w *worker) reread(ctx context.Context) error {
	cat, err := partition.LoadCatalog(w.detached(ctx), w.conn, w.plan.scheme)
	if err != nil {
		return w.putOff(ctx, "read the horizon", err)
	}
	w.horizon.reread(&cat)
	return nil
}

// putBack gives a month its name back, also when the run was interrupted.
func (w *worker) putBack(ctx context.Context, m *month, t partition.Table) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), putBackTimeout)
	defer cancel()
	if err := w.check(ctx); err != nil {
		return err
	}
	live, err := w.mover.PutBack(ctx, t)
	if err != nil {
		return w.putOff(ctx, "put back "+t.Name+" (it stays held, the next run goes on)", err)
	}
	m.name, m.report.HeldAs = live.Name, ""
	w.step(StepPutBack, live.Name, 0)
	return nil
}
