package reconcile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
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

// known is the keys whose row needs no look-up: it was met by a walk, with this fingerprint, and lasts longer than any marker
// that was written as it should be.
type known struct {
	set *ledger.KeySet
	// until is up to when a marker may last for that to hold.
	until time.Time
}

// knownName is a key and its fingerprint as a set has them.
func knownName(name string, fingerprint []byte) string {
	if len(fingerprint) == 0 {
		return "0" + name
	}
	return "1" + string(fingerprint) + name
}

// has reports whether a marker is as it should be by what the walk has met.
func (k *known) has(name string, m *reading, rules *rules, now time.Time) (bool, error) {
	if k == nil || m.State != ledger.MarkerCompleted || !rules.own(m) || m.TTL < 0 || now.Add(m.TTL).After(k.until) {
		return false, nil
	}
	return k.set.Has(knownName(name, m.Fingerprint))
}

// close lets go of the set.
func (k *known) close() error {
	if k == nil {
		return nil
	}
	return k.set.Close()
}

// errTooManyRows ends a walk that costs more than the look-ups it would save: the server's estimate was wrong.
var errTooManyRows = errors.New("more rows than expected")

// preload walks through the ledger ahead of the scan, where that is cheaper than to look up each key by itself. Nil:
// it is not cheaper. A key in two tables is left to the look-up.
func (s *scan) preload(ctx context.Context) (k *known, err error) {
	if s.keysExpected < preloadLeast || s.opts.Directions != Both {
		return nil, nil //nolint:nilnil // nothing is known
	}
	most := s.keysExpected * preloadShare
	rows, err := s.books.estimate(ctx)
	if err != nil {
		return nil, failed(GapLedger, err)
	}
	if rows > most {
		return nil, nil //nolint:nilnil // as above
	}
	b := ledger.NewKeySetBuilder(rows)
	now := s.clock.now()
	k = &known{until: now.Add(s.opts.CompletedTTL + s.opts.Slack)}
	var read int64
	count := func(ctx context.Context, n int) error {
		if read += int64(n); read > most {
			return errTooManyRows
		}
		s.report("preload", read, rows)
		return s.take(ctx, n)
	}
	err = s.books.walk(ctx, count, func(w walked) error {
		if w.tables > 1 || !w.expires.After(k.until) || len(s.opts.BizTypes) > 0 && !slices.Contains(s.opts.BizTypes, w.key.BizType) {
			return nil
		}
		return b.Add(knownName(s.opts.Template.Name(w.key), w.fingerprint))
	})
	switch {
	case errors.Is(err, errTooManyRows):
		return nil, b.Close()
	case err != nil:
		return nil, errors.Join(failed(GapLedger, err), b.Close())
	}
	if k.set, err = b.Finish(); err != nil {
		return nil, err
	}
	return k, nil
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
