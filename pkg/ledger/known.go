package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/maphash"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/partition"
)

// minKnown is from how many messages on Preload pays.
const minKnown = 20_000

// knownKeys are the keys that the ledger had when it was read through, by hash. A key in it had its row; of any other
// nothing is said. It is never changed once it is in use.
type knownKeys struct {
	generation int64
	seed       maphash.Seed // random, so that nobody can choose keys that collide
	hashes     *hashList
	entry      Entry // stands for every row: only that it is there is known
}

// has reports whether a key had a row. Two keys have the same 64-bit hash once in some 10^19: a missing key would be taken
// for one of a million that are there once in 10^13.
func (k *knownKeys) has(orderID string) (bool, error) {
	return k.hashes.has(maphash.String(k.seed, orderID))
}

// Preload reads the keys of the whole ledger in one pass, in the order in which they lie on disk, so that Classify need not
// look each of so many messages up by itself. It does so only where that is cheaper: it reports whether it did. Which
// record executed a key Classify cannot say then. Memory stays bounded: beyond a million keys they go to a temp file. The
// caller calls Forget when it is done.
func (g *Guard) Preload(ctx context.Context, messages int64) (bool, error) {
	snap := g.current()
	rows, err := g.opts.Store.estimate(ctx, snap.Tables)
	if err != nil {
		return false, err
	}
	if messages < minKnown || rows > 2*messages {
		return false, nil
	}
	known := &knownKeys{generation: snap.Generation, seed: maphash.MakeSeed()}
	b := newHashBuilder(rows + rows/4)
	for _, t := range snap.Tables {
		err := g.opts.Store.keys(ctx, t.Name, g.opts.BizType, func(orderID []byte) error { return b.add(maphash.Bytes(known.seed, orderID)) })
		if err != nil && mysqlx.Number(err) != mysqlx.ErrNoSuchTable { // being moved: its keys are looked up
			return false, errors.Join(fmt.Errorf("read the keys of %s: %w", t.Name, err), b.close())
		}
	}
	if known.hashes, err = b.finish(); err != nil {
		return false, err
	}
	g.known.Store(known)
	return true, nil
}

// Forget lets go of what Preload has read.
func (g *Guard) Forget() error {
	if known := g.known.Swap(nil); known != nil {
		return known.hashes.close()
	}
	return nil
}

// estimate is the server's guess of how many rows tables have together.
func (s *Store) estimate(ctx context.Context, tables []partition.Table) (int64, error) {
	var total int64
	for _, t := range tables {
		var rows sql.NullInt64
		err := s.read.QueryRowContext(ctx, "SELECT SUM(table_rows) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?", t.Name).Scan(&rows)
		if err != nil {
			return 0, fmt.Errorf("estimate the rows of %s: %w", t.Name, err)
		}
		total += rows.Int64
	}
	return total, nil
}

// keys calls add with every order_id of a biz_type, in order.
func (s *Store) keys(ctx context.Context, table, biz string, add func(orderID []byte) error) (err error) {
	if s.Legacy() {
		return s.legacyKeys(ctx, table, biz, add)
	}
	query := "SELECT order_id FROM " + mysqlx.Quote(table) + " WHERE biz_type = ?" //nolint:gosec // a quoted identifier of the catalog
	rows, err := s.read.QueryContext(ctx, query, []byte(biz))
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
