package reconcile

import (
	"context"
	"errors"
	"slices"
	"time"

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
	if err := w.walk(ctx, s.walkedOn, func(row *walked) error { return w.key(ctx, row) }); err != nil {
		return err
	}
	return w.ask(ctx)
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
	every bool           // keep also rows that no marker goes with: another table may have the same key

	names []string // to ask for
	rows  []walked // theirs
}

// walk goes through the ledger. An error of fn is its own, any other is the ledger's.
func (w *ledgerWalk) walk(ctx context.Context, rows func(context.Context, int) error, fn func(*walked) error) error {
	var own error
	err := w.books.walk(ctx, rows, func(row walked) error {
		own = fn(&row)
		return own
	})
	if own != nil {
		return own
	}
	return failed(GapLedger, err)
}

// wanted is the name of a row's marker, and whether the row is to be looked at.
func (w *ledgerWalk) wanted(row *walked) (name string, ok bool) {
	if len(w.opts.BizTypes) > 0 && !slices.Contains(w.opts.BizTypes, row.key.BizType) {
		return "", false
	}
	name = w.opts.Template.Name(row.key)
	return name, w.sampled(name)
}

// twice writes down a key that has several rows.
func (w *ledgerWalk) twice(name string, row *walked, now time.Time) error {
	if row.tables < 2 || row.created.Before(w.opts.Since) { //nolint:mnd // more than one
		return nil
	}
	return w.suspect(suspect{Kind: Twice, Ledger: true, Name: Bytes(name), Seen: now})
}

// young reports a row that should have a marker.
func (w *ledgerWalk) young(row *walked, now time.Time) bool {
	return !row.created.Before(w.opts.Since) && w.rules.warm(row.created, row.expires, now)
}

func (w *ledgerWalk) key(ctx context.Context, row *walked) error {
	name, wanted := w.wanted(row)
	if !wanted {
		return nil
	}
	now := w.clock.now()
	if err := w.twice(name, row, now); err != nil {
		return err
	}
	if !w.young(row, now) {
		return nil
	}
	if w.seen != nil {
		met, err := w.seen.Has(name)
		if err != nil || met {
			return err
		}
	}
	return w.look(ctx, name, *row)
}

// look asks for the marker of a row, with those of others.
func (w *ledgerWalk) look(ctx context.Context, name string, row walked) error {
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
