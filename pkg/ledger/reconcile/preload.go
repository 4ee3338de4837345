package reconcile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/idemctl/idemctl/pkg/ledger"
)

const (
	// preloadLeast is from how many keys in Redis on a walk through the ledger ahead of the scan pays.
	preloadLeast = 20_000
	// preloadShare is how many rows a key may cost: to walk over a row costs the ledger's server about an eighth of a look-up,
	// and this program about as much.
	preloadShare = 3
)

// errTooManyRows ends a walk that costs more than the look-ups it would save: the server's estimate was wrong.
var errTooManyRows = errors.New("more rows than expected")

// preload walks through the ledger ahead of the scan, where that is cheaper than to look up each key by itself, and keeps
// what it meets in s.pairs. The scan then puts its markers beside it (hazard C5: each read by itself all the same), and the
// ledger need not be walked through again. Where it is not cheaper s.pairs stays nil.
//
// The rows of a ledger made by someone else always come first: its tables have no order in which those of one key meet.
func (s *scan) preload(ctx context.Context) error {
	most, err := s.preloadMost(ctx)
	if err != nil || most == 0 {
		return err
	}
	return s.walkAhead(ctx, most)
}

// walkAhead reads the rows of a preload, unless there are more than so many.
func (s *scan) walkAhead(ctx context.Context, most int64) error {
	s.pairs = &pairs{seed: maphash.MakeSeed()}
	s.until = s.clock.now().Add(s.opts.CompletedTTL + s.opts.Slack)
	w := &ledgerWalk{scan: s, rules: s.rules(), every: s.opts.Scheme.Legacy() && len(s.books.current().Tables) > 1}
	err := w.walk(ctx, func(ctx context.Context, n int) error {
		if s.walked.Load()+int64(n) > most {
			return errTooManyRows
		}
		return s.walkedOn(ctx, n)
	}, w.keep)
	if errors.Is(err, errTooManyRows) {
		err = s.pairs.close()
		s.pairs = nil
		s.walked.Store(0)
	}
	return err
}

// anyNumber is no bound.
const anyNumber = 1 << 62

// preloadMost is how many rows a walk ahead may come to; 0: there is to be none.
func (s *scan) preloadMost(ctx context.Context) (int64, error) {
	switch {
	case s.opts.Directions&LedgerToFilter == 0:
		return 0, nil
	case s.opts.Scheme.Legacy():
		if s.books.told() {
			return anyNumber, nil
		}
		return 0, nil
	case s.keysExpected < preloadLeast || s.opts.Directions != Both:
		return 0, nil
	}
	rows, err := s.books.estimate(ctx)
	if err != nil {
		return 0, failed(GapLedger, err)
	}
	most := s.keysExpected * preloadShare
	if rows > most {
		return 0, nil
	}
	return most, nil
}

// keep writes down a row that a marker may go with.
func (w *ledgerWalk) keep(row *walked) error {
	name, wanted := w.wanted(row)
	if !wanted {
		return nil
	}
	now := w.clock.now()
	if err := w.twice(name, row, now); err != nil {
		return err
	}
	var bits byte
	if row.tables == 1 && row.expires.After(w.until) {
		bits |= rowSafe
	}
	if w.young(row, now) {
		bits |= rowYoung
	}
	if bits == 0 && !w.every {
		return nil
	}
	return w.pairs.addRow(name, bits, row)
}

// match brings rows and markers together, and looks at what has no counterpart: a marker by its row, a young row by its
// marker. A scan that was cut short says nothing of the rows.
func (s *scan) match(ctx context.Context, whole bool) error {
	w := &ledgerWalk{scan: s, rules: s.rules()}
	var names []string
	recheck := func() error {
		if len(names) == 0 {
			return nil
		}
		page := names
		names = names[:0]
		if err := s.take(ctx, len(page)); err != nil {
			return err
		}
		return s.recheck(ctx, page)
	}
	err := s.pairs.match(unpaired{
		marker: func(name string) error {
			if names = append(names, name); len(names) < scanPage {
				return nil
			}
			return recheck()
		},
		row: func(name string, created, expires time.Time) error {
			key, _ := s.opts.Template.Parse(name)
			if !whole {
				return nil
			}
			return w.look(ctx, name, walked{key: key, created: created, expires: expires, tables: 1})
		},
		twice: func(name string, created time.Time) error {
			return w.twice(name, &walked{created: created, tables: 2}, s.clock.now()) //nolint:mnd // more than one
		},
	})
	if err == nil {
		err = recheck()
	}
	if err == nil {
		err = w.ask(ctx)
	}
	return err
}

// recheck looks up the keys whose row was not met ahead of the scan.
func (s *scan) recheck(ctx context.Context, names []string) error {
	keys := make([]ledger.Key, len(names))
	for i, n := range names {
		keys[i], _ = s.opts.Template.Parse(n)
	}
	markers, err := read(ctx, s.opts.Redis, names)
	if err != nil {
		return failed(GapRedis, err)
	}
	at := make([]int, 0, len(names))
	for i := range markers {
		if markers[i].State != ledger.MarkerNone {
			at = append(at, i)
		}
	}
	return s.compare(ctx, names, keys, markers, at)
}

// estimate is the server's guess of how many rows there are.
func (b *books) estimate(ctx context.Context) (int64, error) {
	var total int64
	for _, t := range b.current().Tables {
		var rows sql.NullInt64
		if err := b.db.QueryRowContext(ctx, "SELECT SUM(table_rows) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?", t.Name).Scan(&rows); err != nil {
			return 0, fmt.Errorf("estimate the rows of %s: %w", t.Name, err)
		}
		total += rows.Int64
	}
	return total, nil
}
