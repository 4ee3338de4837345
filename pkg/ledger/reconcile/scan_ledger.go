package reconcile

import (
	"context"
	"errors"
	"slices"

	"github.com/idemctl/idemctl/pkg/ledger"
)

// ledgerToFilter walks through the ledger: a key in two tables is suspect, and so is a young row without a marker. Keys whose
// marker the other direction has met are not asked for again.
func (s *scan) ledgerToFilter(ctx context.Context) (err error) {
	w := &ledgerWalk{scan: s, rules: s.rules()}
	if s.seen != nil {
		builder := s.seen
		s.seen = nil
		if w.seen, err = builder.Finish(); err != nil {
			return errors.Join(err, builder.Close())
		}
		defer func() { err = errors.Join(err, w.seen.Close()) }()
	}
	err = s.books.walk(ctx, s.walkedOn, func(row walked) error { return w.key(ctx, row) })
	if err == nil {
		err = w.ask(ctx)
	}
	if err != nil {
		side, ok := errors.AsType[*sideError](err)
		if ok {
			return side
		}
		return failed(GapLedger, err)
	}
	return nil
}

// walkedOn counts the rows that were read, and waits until more may be.
func (s *scan) walkedOn(ctx context.Context, n int) error {
	s.report("ledger", s.walked.Add(int64(n)), 0)
	return s.take(ctx, n)
}

// ledgerWalk is the state of one walk.
type ledgerWalk struct {
	*scan

	rules *rules
	seen  *ledger.KeySet // nil: ask for every key

	names []string // to ask for
	rows  []walked // theirs
}

func (w *ledgerWalk) key(ctx context.Context, row walked) error {
	if len(w.opts.BizTypes) > 0 && !slices.Contains(w.opts.BizTypes, row.key.BizType) {
		return nil
	}
	name := w.opts.Template.Name(row.key)
	if !w.sampled(name) {
		return nil
	}
	now := w.clock.now()
	if row.tables > 1 && !row.created.Before(w.opts.Since) {
		if err := w.suspect(suspect{Kind: Twice, Ledger: true, Name: Bytes(name), Seen: now}); err != nil {
			return err
		}
	}
	if row.created.Before(w.opts.Since) || !w.rules.warm(row.created, row.expires, now) {
		return nil
	}
	if w.seen != nil {
		met, err := w.seen.Has(name)
		if err != nil || met {
			return err
		}
	}
	w.names, w.rows = append(w.names, name), append(w.rows, row)
	if len(w.names) < scanPage {
		return nil
	}
	return w.ask(ctx)
}

// ask reads the markers of the rows in hand.
func (w *ledgerWalk) ask(ctx context.Context) error {
	if len(w.names) == 0 {
		return nil
	}
	markers, err := read(ctx, w.opts.Redis, w.names)
	if err != nil {
		return failed(GapRedis, err)
	}
	now := w.clock.now()
	for i := range markers {
		m := &markers[i]
		x := suspect{Kind: Cold, Ledger: true, Name: Bytes(w.names[i]), Seen: now}
		if m.State != ledger.MarkerNone {
			if w.opts.Directions&FilterToLedger != 0 {
				continue // written since the scan passed by
			}
			w.checked.Add(1)
			k := w.rules.judge(w.rows[i].key, m, []row{{created: w.rows[i].created, expires: w.rows[i].expires}}, 0, now)
			if k == "" {
				continue
			}
			x = newSuspect(k, w.names[i], m, now)
		}
		if err := w.suspect(x); err != nil {
			return err
		}
	}
	w.names, w.rows = w.names[:0], w.rows[:0]
	return nil
}
