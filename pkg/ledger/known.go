package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/maphash"

	"golang.org/x/sync/errgroup"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// Limits of Preload: below minKnown messages it does not pay, and above maxKnown rows it would take too much memory (about
// 32 bytes a row).
const (
	minKnown = 20_000
	maxKnown = 8_000_000
)

// knownKeys are the keys that the ledger had when it was read through, by 128-bit hash. A key in it had its row; of any
// other nothing is said. It is never changed once it is in use.
type knownKeys struct {
	generation int64
	tables     []*keySet
	entry      Entry // stands for every row: only that it is there is known
}

func (k *knownKeys) has(orderID string) bool {
	for _, t := range k.tables {
		if t.has(orderID) {
			return true
		}
	}
	return false
}

// Preload reads the keys of the whole ledger in one pass, in the order in which they lie on disk, so that Classify need not
// look each of so many messages up by itself. It does so only where that is cheaper: it reports whether it did. Which
// record executed a key Classify cannot say then.
func (g *Guard) Preload(ctx context.Context, messages int64) (bool, error) {
	snap := g.current()
	var names []string
	for _, t := range snap.Tables {
		names = append(names, t.Name)
	}
	rows, err := g.opts.Store.estimate(ctx, names)
	if err != nil {
		return false, err
	}
	if messages < minKnown || rows > maxKnown/2 || rows > 2*messages {
		return false, nil
	}
	known := &knownKeys{generation: snap.Generation, tables: make([]*keySet, len(names))}
	work, ctx := errgroup.WithContext(ctx)
	for i, name := range names {
		work.Go(func() error {
			known.tables[i] = newKeySet()
			err := g.opts.Store.keys(ctx, name, g.opts.BizType, known.tables[i].add)
			if mysqlx.Number(err) == mysqlx.ErrNoSuchTable {
				return nil // it is being moved: its keys are looked up
			}
			return err
		})
	}
	switch err := work.Wait(); {
	case errors.Is(err, errTooManyKeys): // the estimate was far off
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read the keys of the ledger: %w", err)
	}
	g.known.Store(known)
	return true, nil
}

// keySet is a set of 128-bit hashes, open addressing. The seeds are random, so that nobody can choose keys that collide.
type keySet struct {
	seeds [2]maphash.Seed
	slots [][2]uint64
	count int
}

func newKeySet() *keySet {
	return &keySet{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, slots: make([][2]uint64, 1<<10)}
}

func (s *keySet) hash(key []byte) [2]uint64 {
	return [2]uint64{maphash.Bytes(s.seeds[0], key) | 1, maphash.Bytes(s.seeds[1], key)} // never the empty slot
}

// find returns the slot of a hash: its own, or the empty one where it belongs.
func (s *keySet) find(h [2]uint64) int {
	mask := len(s.slots) - 1
	for i := int(h[1]) & mask; ; i = (i + 1) & mask { //nolint:gosec // masked
		if s.slots[i] == h || s.slots[i][0] == 0 {
			return i
		}
	}
}

func (s *keySet) has(key string) bool {
	h := [2]uint64{maphash.String(s.seeds[0], key) | 1, maphash.String(s.seeds[1], key)}
	return s.slots[s.find(h)][0] != 0
}

var errTooManyKeys = fmt.Errorf("more than %d keys", maxKnown)

func (s *keySet) add(key []byte) error {
	h := s.hash(key)
	i := s.find(h)
	if s.slots[i][0] != 0 {
		return nil
	}
	s.slots[i] = h
	s.count++
	if s.count > maxKnown {
		return errTooManyKeys
	}
	if s.count*2 > len(s.slots) {
		old := s.slots
		s.slots = make([][2]uint64, 2*len(old))
		for _, h := range old {
			if h[0] != 0 {
				s.slots[s.find(h)] = h
			}
		}
	}
	return nil
}

// estimate is the server's guess of how many rows tables have together.
func (s *Store) estimate(ctx context.Context, tables []string) (int64, error) {
	var total int64
	for _, t := range tables {
		var rows sql.NullInt64
		err := s.read.QueryRowContext(ctx, "SELECT SUM(table_rows) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?", t).Scan(&rows)
		if err != nil {
			return 0, fmt.Errorf("estimate the rows of %s: %w", t, err)
		}
		total += rows.Int64
	}
	return total, nil
}

// keys calls add with every order_id of a biz_type, in order.
func (s *Store) keys(ctx context.Context, table, biz string, add func(orderID []byte) error) (err error) {
	rows, err := s.read.QueryContext(ctx, "SELECT order_id FROM "+quote(table)+" WHERE biz_type = ?", []byte(biz))
	if err != nil {
		return err
	}
	defer rows.Close()
	var id sql.RawBytes
	for rows.Next() {
		if err := rows.Scan(&id); err != nil {
			return err
		}
		if err := add(id); err != nil {
			return err
		}
	}
	return rows.Err()
}
