package purge_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idemctl/idemctl/pkg/partition"
	"github.com/idemctl/idemctl/pkg/purge"
)

// onLegacy gives a ledger made by someone else: no catalog, columns by a map.
func onLegacy(t *testing.T, c partition.Columns, fn func(b *bench)) {
	t.Helper()
	onEmpty(t, func(b *bench) {
		var err error
		b.scheme, err = b.scheme.WithColumns(c)
		b.must(err)
		fn(b)
	})
}

// insertLegacy writes rows of a key and an age each, the key quoted by doubling.
func (b *bench) insertLegacy(table, columns string, ages map[string]time.Duration) {
	b.Helper()
	for id, age := range ages {
		b.sql(fmt.Sprintf("INSERT INTO %s (%s) VALUES ('%s', %s)", table, columns, strings.ReplaceAll(id, "'", "''"), b.now.Add(-age).UTC().Format("'2006-01-02 15:04:05.000000'")))
	}
}

func (b *bench) legacyIDs(table, column string) []string {
	b.Helper()
	rows, err := b.DB.QueryContext(b.Context(), "SELECT "+column+" FROM "+table)
	b.must(err)
	defer rows.Close()
	ids := []string{}
	for rows.Next() {
		var id string
		b.must(rows.Scan(&id))
		ids = append(ids, id)
	}
	b.must(rows.Err())
	slices.Sort(ids)
	return ids
}

// The tables that services in other languages make: bare or by month, with and without an index on the time, keyed by the
// order or by a number, with keys that a collation would merge. What is older than the retention goes, by rows only.
func TestConformanceLegacy(t *testing.T) {
	t.Parallel()
	for name, ddl := range map[string]string{
		"index":        "(order_no VARCHAR(64) NOT NULL PRIMARY KEY, at DATETIME NOT NULL, KEY (at))",
		"no index":     "(order_no VARCHAR(64) NOT NULL PRIMARY KEY, at DATETIME NOT NULL)",
		"microseconds": "(order_no VARCHAR(64) NOT NULL PRIMARY KEY, at DATETIME(6) NOT NULL, KEY (at))",
		"by number":    "(id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, order_no VARCHAR(64) NOT NULL, at TIMESTAMP(3) NOT NULL, UNIQUE (order_no), KEY (at))",
		"number, none": "(id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, order_no VARCHAR(64) NOT NULL, at DATETIME(3) NOT NULL, UNIQUE (order_no))",
		"binary":       "(order_no VARBINARY(64) NOT NULL PRIMARY KEY, at DATETIME(3) NOT NULL, KEY (at))",
		"no primary":   "(order_no VARCHAR(64) NOT NULL, at DATETIME(3) NOT NULL, UNIQUE (order_no), KEY (at))",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onLegacy(t, partition.Columns{OrderID: "order_no", CreateTime: "at"}, func(b *bench) {
				ages := map[string]time.Duration{"O'Brien": 31 * day, "ä ö": 32 * day, "\x01ctl": 33 * day, "young": 29 * day, "年": 5000 * day}
				want := []string{"young"}
				for i := range 150 { // many of one time
					ages[fmt.Sprintf("same-%03d", i)] = 45*day + 123456*time.Microsecond
				}
				for _, table := range []string{prefix, b.table(-1)} {
					b.sql("CREATE TABLE " + table + " " + ddl + " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci")
					b.insertLegacy(table, "order_no, at", ages)
				}
				p := b.plan(purge.PlanOptions{Retention: 30 * day})
				if !p.Legacy || p.Rows != 2*154 || len(p.Months) != 2 || p.Months[1].Table.Name != prefix || len(p.Horizon) != 1 {
					b.Errorf("plan: %+v", p)
				}
				for _, m := range p.Months {
					if m.Action != purge.ActionRows || m.Rows != 154 || m.Kept != 1 {
						b.Errorf("plan: %+v", m)
					}
				}
				opts := quick()
				opts.Batch = 40
				rep := b.run(p, opts)
				if rep.Ended != purge.EndedDone || rep.Deleted != 2*154 || rep.Skipped != 0 {
					b.Errorf("report: %+v", rep)
				}
				b.same("left", b.legacyIDs(prefix, "order_no"), want)
				b.same("left", b.legacyIDs(b.table(-1), "order_no"), want)
			})
		})
	}
}

// With a biz_type and an expiry of its own; and keys that its collation takes for one go together only where both expired.
func TestConformanceLegacyColumns(t *testing.T) {
	t.Parallel()
	c := partition.Columns{OrderID: "k", BizType: "kind", CreateTime: "made", ExpireAt: "until_at"}
	onLegacy(t, c, func(b *bench) {
		b.sql("CREATE TABLE " + prefix + " (k VARCHAR(64) NOT NULL, kind VARCHAR(20) NOT NULL, made DATETIME NOT NULL, until_at DATETIME NOT NULL, PRIMARY KEY (kind, k), KEY (until_at), KEY (k)) DEFAULT CHARSET=utf8mb4")
		b.sql("INSERT INTO " + prefix + " VALUES ('a', 'X', '2020-01-01', '2020-02-01'), ('a', 'Y', '2020-01-01', '2090-02-01'), ('b', 'Y', '2020-01-03', '2020-02-01'), ('c', 'Y', '2090-01-03', '2020-02-01')")
		p := b.plan(purge.PlanOptions{})
		if p.Rows != 2 || p.Months[0].Odd != 1 || p.Months[0].Kept != 2 {
			b.Errorf("plan: %+v", p)
		}
		if rep := b.run(p, quick()); rep.Deleted != 2 {
			b.Errorf("report: %+v", rep)
		}
		b.same("left", b.legacyIDs(prefix, "CONCAT(k, kind)"), []string{"aY", "cY"})
	})
}

// A legacy ledger that has a catalog row keeps its horizon there.
func TestConformanceLegacyHorizon(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		var err error
		b.scheme, err = b.scheme.WithColumns(partition.OwnColumns())
		b.must(err)
		b.insert(b.table(-2), expired("a", 5)...)
		rep := b.run(b.plan(purge.PlanOptions{}), quick())
		if h := b.catalog().Biz["COUPON"].Purged; rep.Deleted != 5 || !h.Equal(b.now.Add(-40*day-time.Second)) {
			b.Errorf("purged until %s; %+v", h, rep)
		}
		b.same("never dropped", b.ids(b.table(-2)), []string{})
	})
}

func TestConformanceLegacyRefused(t *testing.T) {
	t.Parallel()
	for ddl, want := range map[string]error{
		"(order_id VARCHAR(64) NOT NULL, create_time DATETIME NOT NULL, KEY (create_time))":           purge.ErrNoIndex,
		"(order_id VARCHAR(64) NOT NULL PRIMARY KEY, create_time BIGINT NOT NULL, KEY (create_time))": purge.ErrOptions,
		"(order_id VARCHAR(64) NOT NULL PRIMARY KEY, made DATETIME NOT NULL, KEY (made))":             purge.ErrOptions,
	} {
		onLegacy(t, partition.Columns{OrderID: "order_id", CreateTime: "create_time"}, func(b *bench) {
			b.sql("CREATE TABLE " + prefix + " " + ddl)
			_, err := purge.PlanPurge(b.Context(), b.DB, b.scheme, b.zone, purge.PlanOptions{Retention: day})
			if !errors.Is(err, want) || !strings.Contains(err.Error(), prefix) {
				b.Errorf("%s: %v, want %v", ddl, err, want)
			}
			if _, err := purge.PlanPurge(b.Context(), b.DB, b.scheme, b.zone, purge.PlanOptions{}); !errors.Is(err, purge.ErrOptions) {
				b.Errorf("no retention: %v", err)
			}
		})
	}
}
