package doctor

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// sampleRows is how many of a table's newest rows are looked at: enough to see what its writers do, and quick on any size.
const sampleRows = 1000

// row is what the checks look at of an entry.
type row struct {
	OrderID []byte
	BizType string
	Create  time.Time // zero: the server holds no date
	Claimed bool      // a guard wrote it
}

// newest reads the newest rows of a table, in the order of the index that it is purged by. A table without that index is
// not sorted for it: some rows come then.
func (f *Facts) newest(ctx context.Context, s *shape) ([]row, error) {
	m := f.rows[s.Name]
	if m == nil {
		m = &memo[[]row]{}
		f.rows[s.Name] = m
	}
	return m.get(func() ([]row, error) { return f.readNewest(ctx, s) })
}

func (f *Facts) readNewest(ctx context.Context, s *shape) ([]row, error) {
	c := f.Scheme.Columns()
	biz, claimed, order := "''", "1", ""
	if _, has := s.column(c.BizType); has && c.BizType != "" {
		biz = mysqlx.Quote(c.BizType)
	}
	if _, has := s.column(claimColumn); has && !f.Scheme.Legacy() {
		claimed = claimColumn + " IS NOT NULL"
	}
	for _, by := range []string{c.ExpireAt, c.CreateTime} {
		if order == "" && s.indexOn(by) {
			order = " ORDER BY " + mysqlx.Quote(by) + " DESC"
		}
	}
	text := fmt.Sprintf("SELECT %s, %s, %s, %s FROM %s%s LIMIT %d",
		mysqlx.Quote(c.OrderID), biz, mysqlx.Quote(c.CreateTime), claimed, mysqlx.Quote(s.Name), order, sampleRows)
	var (
		found  []row
		id     sql.RawBytes
		bizRaw sql.RawBytes
		create sql.NullTime
		own    bool
	)
	err := query(ctx, f.DB, text, nil, []any{&id, &bizRaw, &create, &own}, func() {
		found = append(found, row{OrderID: bytes.Clone(id), BizType: string(bizRaw), Create: create.Time, Claimed: own})
	})
	if err != nil {
		return nil, fmt.Errorf("look at the newest rows of %s: %w", s.Name, err)
	}
	return found, nil
}

// claimColumn tells a guard's rows from those of other writers.
const claimColumn = "claim_id"
