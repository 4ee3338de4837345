package purge

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/partition"
)

// month is one table's turn.
type month struct {
	plan   *MonthPlan
	report *MonthReport
	name   string // what it is called now
	phase  Phase
	window int // of the victim last looked at, in the report
}

// do works one table and notes in its report what became of it. An error ends the run; what concerns this table alone is
// put off.
func (w *worker) do(ctx context.Context, m *month) error {
	m.report.Outcome = OutcomeUnfinished
	if err := w.interrupted(ctx); err != nil {
		return err
	}
	return m.putOff(w.act(ctx, m))
}

func (w *worker) act(ctx context.Context, m *month) error {
	switch m.plan.Action {
	case ActionDrop:
		return w.whole(ctx, m, m.plan.Table)
	case ActionFinish:
		return w.settle(ctx, m)
	case ActionRows, ActionKeep:
	}
	return w.rows(ctx, m)
}

// deferral puts one table off; the run goes on with the others.
type deferral struct {
	reason string
	err    error // or nil
}

func (d *deferral) Error() string {
	if d.err == nil {
		return d.reason
	}
	return d.reason + ": " + d.err.Error()
}

// Unwrap returns the server's error.
func (d *deferral) Unwrap() error { return d.err }

// putOff makes a deferral of an error that concerns one table: another session in the way, or a privilege that is missing
// for it. Others are returned as they are, a lost lock by its name.
func (w *worker) putOff(ctx context.Context, what string, err error) error {
	if err == nil {
		return nil
	}
	if lost := w.lost(ctx, err); lost != nil {
		return lost
	}
	switch mysqlx.Number(err) {
	case mysqlx.ErrDBAccessDenied, mysqlx.ErrTableAccessDenied, 1143, 1227:
		return &deferral{reason: what + ": a privilege is missing", err: err}
	}
	if errors.Is(err, mysqlx.ErrBlocked) || errors.Is(err, partition.ErrTwoTables) || errors.Is(err, partition.ErrMonthNotOver) || mysqlx.IsRetryable(err) {
		return &deferral{reason: what, err: err}
	}
	return fmt.Errorf("%s: %w", what, err)
}

// newReport is a report in which nothing has been done yet.
func newReport(p *Plan, run string) Report {
	rep := Report{Run: run, Prefix: p.Prefix, Cutoff: p.Cutoff, Horizon: []HorizonChange{}, Months: make([]MonthReport, len(p.Months))}
	for i := range p.Months {
		m := &p.Months[i]
		rep.Months[i] = MonthReport{
			Table: m.Table, Action: m.Action, Outcome: OutcomeUnfinished, Planned: m.Rows, Odd: m.Odd,
			Windows: make([]WindowReport, len(m.Windows)),
		}
		if m.Action == ActionKeep {
			rep.Months[i].Outcome = OutcomeKept
		}
		for j, win := range m.Windows {
			rep.Months[i].Windows[j] = WindowReport{From: win.From, To: win.To, Planned: win.Rows}
		}
	}
	return rep
}

// account adds a deletion to the report.
func (r *runner) account(m *month, win int, deleted, skipped int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Deleted += deleted
	r.report.Skipped += skipped
	m.report.Deleted += deleted
	m.report.Skipped += skipped
	m.report.Windows[win].Deleted += deleted
	m.report.Windows[win].Skipped += skipped
}

// windowAt is the window that a victim falls in: one of the plan's, or a new one for a row that came after the plan.
func (r *runner) windowAt(m *month, v *Victim) int {
	in := func(w WindowReport) bool { return !v.Expiry.Before(w.From) && v.Expiry.Before(w.To) }
	if m.window < len(m.report.Windows) && in(m.report.Windows[m.window]) {
		return m.window // most come in order
	}
	if m.window = slices.IndexFunc(m.report.Windows, in); m.window >= 0 {
		return m.window
	}
	w := r.plan.window(v.Expiry)
	m.report.Windows = append(m.report.Windows, WindowReport{From: w.From, To: w.To})
	m.window = len(m.report.Windows) - 1
	return m.window
}
