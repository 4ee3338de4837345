package purge

import (
	"context"
	"fmt"
)

// archive writes a month's rows that go and verifies what was written. limit 0: all of them.
func (w *worker) archive(ctx context.Context, m *month, sel Selection, limit int64) (*Archive, error) {
	if w.budget != nil && limit == 0 {
		return nil, &stopError{ended: EndedMaxRows}
	}
	m.phase = PhaseArchive
	w.progress(m, "")
	opts := *w.opts.Archive
	opts.Run, opts.Prefix, opts.Month = w.opts.Run, w.plan.Prefix, m.plan.Table.Month
	opts.Server, opts.LedgerID = w.server.Name(), w.horizon.ledgerID()
	a, err := WriteArchive(ctx, w.db, sel, opts, limit)
	if err != nil {
		return nil, fmt.Errorf("nothing of %s is deleted: %w", m.name, err)
	}
	m.report.Archive, m.report.ArchiveRows = a.Path(), a.Manifest().Rows
	w.step(StepArchived, m.name, a.Manifest().Rows)
	m.phase = PhaseRows
	return a, nil
}
