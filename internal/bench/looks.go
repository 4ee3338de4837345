package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/idemctl/idemctl/pkg/ledger"
)

// looksAlone asks Redis and the ledger about every record, as a replay must, and does nothing else: no Kafka, no JSON, no
// account. As many goroutines as there are partitions each take one partition's records in order, in pages of the size
// that a replay has: MGET, then the rows of the same keys with the columns that a replay reads.
func (b *bench) looksAlone(ctx context.Context) (float64, error) {
	s := b.shop
	each := len(s.messages) / partitions
	g, ctx := errgroup.WithContext(ctx)
	began := time.Now()
	for p := range partitions {
		g.Go(func() error {
			for first := 0; first < each; first += ledger.LookPage {
				ids := make([]string, 0, ledger.LookPage)
				for offset := first; offset < min(each, first+ledger.LookPage); offset++ {
					ids = append(ids, s.messages[offset*partitions+p].Key.OrderID)
				}
				if err := s.lookUp(ctx, ids); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return 0, err
	}
	return float64(each*partitions) / time.Since(began).Seconds(), nil
}

// lookUp reads a page of markers and a page of rows, all of which must be there.
func (s *shop) lookUp(ctx context.Context, ids []string) error {
	names := make([]string, len(ids))
	args := make([]any, len(ids), len(ids)+1)
	for i, id := range ids {
		names[i] = s.template.Name(ledger.Key{BizType: bizType, OrderID: id})
		args[i] = []byte(id)
	}
	markers, err := s.redis.MGet(ctx, names...).Result()
	if err != nil {
		return fmt.Errorf("MGET of %d keys: %w", len(ids), err)
	}
	found := 0
	for _, m := range markers {
		if m != nil {
			found++
		}
	}
	n, err := s.countRows(ctx, "SELECT order_id, biz_type, create_time, expire_at, claim_id, fingerprint, src_topic, src_partition, src_offset FROM "+
		s.table+" WHERE order_id IN (?"+strings.Repeat(", ?", len(ids)-1)+") AND biz_type = ?", append(args, []byte(bizType))...)
	switch {
	case err != nil:
		return fmt.Errorf("look up %d rows: %w", len(ids), err)
	case n != len(ids) || found != len(ids):
		return fmt.Errorf("%d of %d rows and %d markers: %w", n, len(ids), found, errNotAsSaid)
	}
	return nil
}

func (s *shop) countRows(ctx context.Context, query string, args ...any) (n int, err error) {
	rows, err := s.db.QueryContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		n++
	}
	return n, rows.Err()
}
