package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/idemctl/idemctl/pkg/ledger"
)

// settlePage is how many suspects are read again at a time.
const settlePage = 500

// lookAgain reads both sides of every suspect again, once the last of them is Options.Settle old. What has stayed as it was
// is a finding (hazard C3). left is how many it did not get to.
func (s *scan) lookAgain(ctx context.Context, f *Findings, t *tally) (left int64, err error) {
	left = s.suspects.n
	if left == 0 {
		return 0, nil
	}
	if s.opts.betweenLooks != nil {
		s.opts.betweenLooks()
	}
	if err := s.pause(ctx); err != nil {
		return left, err
	}
	err = s.suspects.pages(settlePage, func(page []suspect) error {
		if err := s.take(ctx, len(page)); err != nil {
			return err
		}
		if err := s.settlePage(ctx, page, f, t); err != nil {
			return err
		}
		left -= int64(len(page))
		s.report("settle", s.suspects.n-left, s.suspects.n)
		return nil
	})
	if err == nil {
		left = 0 // the same key twice counts once
	}
	return left, err
}

func (s *scan) pause(ctx context.Context) error {
	s.mu.Lock()
	wait := s.opts.Settle - s.opts.Now().Sub(s.last)
	s.mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *scan) settlePage(ctx context.Context, page []suspect, f *Findings, t *tally) error {
	looks, err := s.look(ctx, s.books, page, s.clock)
	if err != nil {
		return err
	}
	for i := range looks {
		l := &looks[i]
		if !l.holds {
			f.Passing++
			continue
		}
		x := page[i]
		if !x.Ledger {
			x = newSuspect(l.kind, string(x.Name), &l.marker, s.clock.now())
			x.Idle = l.age
		}
		t.add(l.kind, func() Example { return example(string(x.Name), l.key, &l.marker, l.rows) })
		if l.kind.Fixable() {
			if err := f.found.put(&x); err != nil {
				return err
			}
		}
	}
	return nil
}

// look is what both sides say of a suspect now.
type look struct {
	key    ledger.Key
	marker reading
	rows   []row
	age    time.Duration // of the marker, for certain
	kind   Kind
	// holds says that it still is what it was suspected of.
	holds bool
}

// look reads both sides of suspects: the marker first, so that a row committed before it was written is seen.
func (r *Reconciler) look(ctx context.Context, b *books, page []suspect, c clock) ([]look, error) {
	names := make([]string, len(page))
	keys := make([]ledger.Key, len(page))
	for i := range page {
		names[i] = string(page[i].Name)
		keys[i], _ = r.opts.Template.Parse(names[i]) // of an alien nothing is looked up that could be found
	}
	markers, err := read(ctx, r.opts.Redis, names)
	if err != nil {
		return nil, failed(GapRedis, err)
	}
	rows, err := b.findAll(ctx, keys)
	if err != nil {
		return nil, failed(GapLedger, fmt.Errorf("look again: %w", err))
	}
	rules, now := r.rulesOf(b), c.now()
	looks := make([]look, len(page))
	for i := range page {
		x := &page[i]
		l := look{key: keys[i], marker: markers[i], rows: rows[i], kind: x.Kind}
		before := x.reading()
		switch x.Kind {
		case AlienKey:
			l.holds = l.marker.State != ledger.MarkerNone
		case Twice:
			l.holds = len(l.rows) > 1
		case Cold:
			l.holds = l.marker.State == ledger.MarkerNone && warmRow(rules, l.rows, now)
		default:
			l.age = x.Idle + now.Sub(x.Seen)
			l.kind = rules.judge(l.key, &l.marker, l.rows, l.age, now)
			l.holds = l.kind != "" && persists(&before, &l.marker)
		}
		looks[i] = l
	}
	return looks, nil
}

func warmRow(rules *rules, rows []row, now time.Time) bool {
	for i := range rows {
		if rules.warm(rows[i].created, rows[i].expires, now) {
			return true
		}
	}
	return false
}
