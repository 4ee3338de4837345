package purge

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// A page of victims serves several DELETEs: sorted by key, each of them goes through a part of the table instead of all over
// it, and a page of more than one biz_type still fills them.
const (
	pageDeletes = 16
	pageLeast   = 1000
	pageRows    = 16_000 // some MB in memory, whatever the batch
)

// source hands out victims page by page, io.EOF at the end.
type source func(ctx context.Context, n int) ([]Victim, error)

// rows deletes what has expired of a month, window by window.
func (w *worker) rows(ctx context.Context, m *month) error {
	m.phase = PhaseRows
	if err := w.gate(ctx, m); err != nil {
		return err
	}
	s, err := readShape(ctx, w.db, w.plan.scheme, m.name)
	if err != nil {
		return err
	}
	sel := w.plan.selection(m.name)
	next, done, err := w.victims(ctx, m, s, sel)
	if err != nil {
		return err
	}
	pages, stop := readAhead(ctx, next, min(pageRows, max(pageDeletes*w.opts.Batch, pageLeast)))
	err = w.deletePages(ctx, m, s, sel, pages)
	stop()
	if err := errors.Join(err, done()); err != nil {
		return err
	}
	m.report.Outcome = OutcomePurged
	return nil
}

// victims says where the rows come from that go: from the table, or, where they are archived, from the archive that has just
// been written and verified, so that nothing else goes than what it holds (hazard P8).
func (w *worker) victims(ctx context.Context, m *month, s shape, sel Selection) (source, func() error, error) {
	none := func() error { return nil }
	if w.opts.Archive == nil {
		c := &cursor{q: w.db, shape: s, sel: sel}
		return c.Next, none, nil
	}
	a, err := w.archive(ctx, m, sel, w.rowsLeft())
	if err != nil {
		return nil, none, err
	}
	rows, err := a.Rows(context.WithoutCancel(ctx)) // each Next is short, and asked for in between
	if err != nil {
		return nil, none, err
	}
	return func(_ context.Context, n int) ([]Victim, error) { return rows.Next(n) }, rows.Close, nil
}

// page is a page of victims or why there is none.
type page struct {
	victims []Victim
	err     error
}

// readAhead reads one page while another is being deleted. stop ends it and waits for that.
func readAhead(ctx context.Context, next source, n int) (pages <-chan page, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ch := make(chan page)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(ch)
		for {
			victims, err := next(ctx, n)
			if errors.Is(err, io.EOF) {
				return
			}
			select {
			case ch <- page{victims: victims, err: err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	})
	return ch, func() {
		cancel()
		wg.Wait()
	}
}

func (w *worker) deletePages(ctx context.Context, m *month, s shape, sel Selection, pages <-chan page) error {
	entered := map[int]bool{}
	for p := range pages {
		if p.err != nil {
			if err := w.interrupted(ctx); err != nil {
				return err
			}
			return p.err
		}
		for len(p.victims) > 0 {
			win := w.windowAt(m, &p.victims[0])
			n, most := 1, w.mostOf(len(p.victims))
			for n < most && w.windowAt(m, &p.victims[n]) == win {
				n++
			}
			if !entered[win] {
				entered[win] = true
				if err := w.enter(ctx, m, win); err != nil {
					return err
				}
			}
			if err := w.deleteWindow(ctx, m, s, sel, win, p.victims[:n]); err != nil {
				return err
			}
			p.victims = p.victims[n:]
		}
	}
	return w.interrupted(ctx) // a reader that was cancelled ends without a word
}

// enter commits the horizon of all of a window before its first delete.
func (w *worker) enter(ctx context.Context, m *month, win int) error {
	if win >= len(m.plan.Windows) {
		return nil // of rows that came after the plan: each deletion raises it by what it holds
	}
	if err := w.gate(ctx, m); err != nil {
		return err
	}
	return w.raiseHorizon(ctx, m, maxCreate(m.plan.Windows[win].Biz))
}

// deleteWindow deletes victims of one window, by biz_type. Their horizon is committed before the first of them goes.
func (w *worker) deleteWindow(ctx context.Context, m *month, s shape, sel Selection, win int, victims []Victim) error {
	byBiz := map[string][]Victim{}
	one := victims[0].BizType
	if !slices.ContainsFunc(victims, func(v Victim) bool { return v.BizType != one }) {
		byBiz[one] = victims
	} else {
		for _, v := range victims {
			byBiz[v.BizType] = append(byBiz[v.BizType], v)
		}
	}
	q := &queue{}
	purged := map[string]time.Time{}
	for _, biz := range slices.Sorted(maps.Keys(byBiz)) {
		d := deletion{biz: biz, victims: byBiz[biz]}
		slices.SortFunc(d.victims, func(a, b Victim) int { return strings.Compare(a.OrderID, b.OrderID) })
		q.rest = append(q.rest, d)
		purged[biz] = d.latest()
	}
	if err := w.gate(ctx, m); err != nil {
		return err
	}
	if err := w.raiseHorizon(ctx, m, purged); err != nil {
		return err
	}
	return w.empty(q, func(h *worker, d deletion) error {
		for len(d.victims) > 0 {
			n, err := h.deleteSome(ctx, m, s, sel, win, d)
			if err != nil {
				return err
			}
			d.victims = d.victims[n:]
		}
		return nil
	})
}

// deleteSome deletes one batch, or less of it where the run's limit is near, and returns how many rows it has dealt with.
func (w *worker) deleteSome(ctx context.Context, m *month, s shape, sel Selection, win int, d deletion) (int, error) {
	if err := w.gate(ctx, m); err != nil {
		return 0, err
	}
	n := w.claim(len(d.victims))
	if n == 0 {
		return 0, &stopError{ended: EndedMaxRows}
	}
	d.victims = d.victims[:n]
	w.step(StepSelected, m.name, int64(n))
	query, args := s.statement(sel, d)
	began := time.Now()
	deleted, err := w.exec(ctx, query, args)
	if err != nil {
		w.unclaim(n)
		return 0, w.putOff(ctx, "delete from "+m.name, err)
	}
	w.adapt(n, time.Since(began))
	skipped := max(int64(n)-deleted, 0)
	w.unclaim(int(skipped))
	w.account(m, win, deleted, skipped)
	w.step(StepDeleted, m.name, deleted)
	w.progress(m, "")
	return n, w.pause(ctx, m)
}

// The time that a DELETE is to take: long ones keep others waiting for its locks, and replicas behind.
const (
	tooLong  = 300 * time.Millisecond
	tooShort = 150 * time.Millisecond
	minBatch = 50
)

// adapt fits the size of the next DELETE to how long this one took: halved at once, raised slowly, never above the limit.
func (w *worker) adapt(rows int, took time.Duration) {
	switch {
	case took > tooLong:
		w.size = max(rows/2, min(minBatch, w.opts.Batch))
	case took < tooShort && rows >= w.size:
		w.size = min(w.size+w.size/4+1, w.opts.Batch)
	}
}

// claim takes up to n rows of what is left of the run's limit.
func (r *runner) claim(n int) int {
	if r.budget == nil {
		return n
	}
	for {
		left := r.budget.Load()
		take := min(left, int64(n))
		if r.budget.CompareAndSwap(left, left-take) {
			return int(take)
		}
	}
}

// mostOf is how many of n victims may be taken up together: no more than the limit leaves, so that the oldest go.
func (r *runner) mostOf(n int) int {
	if r.budget == nil {
		return n
	}
	return int(min(int64(n), max(r.budget.Load(), 1)))
}

// unclaim gives back what was claimed and not deleted.
func (r *runner) unclaim(n int) {
	if r.budget != nil {
		r.budget.Add(int64(n))
	}
}

// rowsLeft is what is left of the run's limit; 0: there is no limit.
func (r *runner) rowsLeft() int64 {
	if r.budget == nil {
		return 0
	}
	return r.budget.Load()
}
