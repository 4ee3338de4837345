package partition_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/idemctl/idemctl/pkg/partition"
)

func TestConformanceList(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		b.create(partition.CreateRequest{From: b.month - 5, Ahead: 1, MemorySince: b.now.AddDate(-1, 0, 0)})
		created := func(n int) time.Time {
			return (b.month + partition.Month(n)).Start(b.zone).Add(time.Hour + 5*time.Millisecond)
		}
		yesterday, tomorrow := b.now.AddDate(0, 0, -1), b.now.AddDate(0, 0, 1)
		for i := range 3 {
			b.entry(b.table(-5), fmt.Sprint("old-", i), created(-5).Add(time.Duration(i)*time.Minute), yesterday.Add(time.Duration(i)*time.Minute))
		}
		b.entry(b.table(-4), "expired", created(-4), yesterday) // one of two: the month is still needed
		b.entry(b.table(-4), "not yet", created(-4).Add(time.Hour), tomorrow)
		b.entry(b.table(0), "expired, but the month goes on", created(0), yesterday)

		b.sql("RENAME TABLE " + b.table(-3) + " TO held_copy")
		b.sql("RENAME TABLE " + b.table(-2) + " TO moved_copy")
		b.sql("DROP TABLE " + b.table(-1))
		b.sql("CREATE TABLE " + b.table(3) + " LIKE " + b.table(0))
		b.change(func(c *partition.Catalog) {
			c.Tables[2] = partition.Table{Month: b.month - 3, Name: "held_copy", State: partition.Held}
			c.Tables[3].State, c.Tables[3].Also = partition.Moving, "moved_copy"
		})
		l, err := b.manager.List(b.Context(), partition.ListRequest{Exact: true})
		b.must(err)
		if l.Catalog.LedgerID != b.catalog().LedgerID || l.Now.Before(b.now) {
			b.Errorf("the listing is of %s, catalog %+v", l.Now, l.Catalog)
		}
		want := []struct {
			n           int
			table       string
			state       string
			rows        int64
			oldest, end time.Time // first create_time, last expire_at
		}{
			{-5, b.table(-5), "expired", 3, created(-5), yesterday.Add(2 * time.Minute)},
			{-4, b.table(-4), "live", 2, created(-4), tomorrow},
			{-3, "held_copy", "held", 0, time.Time{}, time.Time{}},
			{-2, "moved_copy", "moving", 0, time.Time{}, time.Time{}},
			{-1, b.table(-1), "missing", 0, time.Time{}, time.Time{}},
			{0, b.table(0), "current", 1, created(0), yesterday},
			{1, b.table(1), "future", 0, time.Time{}, time.Time{}},
			{3, b.table(3), "unlisted", 0, time.Time{}, time.Time{}},
		}
		if len(l.Tables) != len(want) {
			b.Fatalf("%d tables, want %d: %+v", len(l.Tables), len(want), l.Tables)
		}
		for i, w := range want {
			got := l.Tables[i]
			if got.Month != b.month+partition.Month(w.n) || got.Table != w.table || got.State != w.state || got.Rows != w.rows || !got.Exact {
				b.Errorf("%+v; want %s %s with %d rows", got, w.table, w.state, w.rows)
			}
			if !got.OldestCreate.Equal(w.oldest) || !got.NewestExpire.Equal(w.end) {
				b.Errorf("%s: from %s to %s; want %s and %s", w.table, got.OldestCreate, got.NewestExpire, w.oldest, w.end)
			}
			if got.State != "missing" && got.Bytes == 0 {
				b.Errorf("%s has no size", w.table)
			}
		}
		if n := l.Tables[0]; !n.NewestCreate.Equal(created(-5).Add(2*time.Minute)) || !n.OldestExpire.Equal(yesterday) {
			b.Errorf("the other ends of %s: %s, %s", n.Table, n.NewestCreate, n.OldestExpire)
		}
		// The listing is not the catalog: a table shown as unlisted is not thereby listed.
		if _, ok := l.Catalog.Home(b.month + 3); ok || len(b.catalog().Tables) != 7 {
			b.Error("an unlisted table has become one of the ledger's")
		}
		estimate, err := b.manager.List(b.Context(), partition.ListRequest{})
		b.must(err)
		if len(estimate.Tables) != len(want) || estimate.Tables[0].Exact {
			b.Errorf("without counting: %+v", estimate.Tables)
		}
	})
}
