package partition_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/partition"
)

// bench is a schema of one test's own, with a manager of a ledger that may not be there yet.
type bench struct {
	*testing.T

	DB      *sql.DB
	schema  string
	dsn     string
	scheme  partition.Scheme
	manager *partition.Manager
	zone    *time.Location
	now     time.Time // the database's, when the bench was made
	month   partition.Month
}

// onEach runs a test on every database.
func onEach(t *testing.T, test func(b *bench)) {
	t.Helper()
	for _, db := range testenv.Databases(t) {
		t.Run(db.Name, func(t *testing.T) {
			t.Parallel()
			test(newBench(t, db.Schema(t), time.UTC))
		})
	}
}

func newBench(t *testing.T, schema *testenv.Schema, zone *time.Location) *bench {
	t.Helper()
	b := &bench{T: t, DB: schema.DB, schema: schema.Name, dsn: schema.DSN, scheme: scheme(t, prefix), zone: zone}
	b.manager = partition.NewManager(schema.DB, b.scheme, zone)
	var err error
	b.now, err = mysqlx.Now(t.Context(), schema.DB)
	b.must(err)
	b.month = partition.MonthOf(b.now, zone)
	return b
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) plan(req partition.CreateRequest) partition.CreatePlan {
	b.Helper()
	p, err := b.manager.PlanCreate(b.Context(), req)
	b.must(err)
	return p
}

func (b *bench) create(req partition.CreateRequest) partition.CreateReport {
	b.Helper()
	rep, err := b.manager.Create(b.Context(), b.plan(req))
	b.must(err)
	return rep
}

func (b *bench) catalog() partition.Catalog {
	b.Helper()
	c, err := partition.LoadCatalog(b.Context(), b.DB, b.scheme)
	b.must(err)
	return c
}

func (b *bench) change(f func(*partition.Catalog)) {
	b.Helper()
	_, err := partition.UpdateCatalog(b.Context(), b.DB, b.scheme, func(c *partition.Catalog) (bool, error) {
		f(c)
		return true, nil
	})
	b.must(err)
}

func (b *bench) sql(query string, args ...any) {
	b.Helper()
	if _, err := b.DB.ExecContext(b.Context(), query, args...); err != nil {
		b.Fatalf("%s: %v", query, err)
	}
}

func (b *bench) count(query string, args ...any) int {
	b.Helper()
	var n int
	if err := b.DB.QueryRowContext(b.Context(), query, args...).Scan(&n); err != nil {
		b.Fatalf("%s: %v", query, err)
	}
	return n
}

// exists asks whether a table is there.
func (b *bench) exists(table string) bool {
	b.Helper()
	return b.count("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?", table) == 1
}

// table is the name of the month that lies n months from now.
func (b *bench) table(n int) string { return b.scheme.Table(b.month + partition.Month(n)) }

// entry puts a row into a month's table.
func (b *bench) entry(table, orderID string, created, expires time.Time) {
	b.Helper()
	b.sql("INSERT INTO "+table+" (order_id, biz_type, create_time, expire_at) VALUES (?, 'COUPON', ?, ?)", []byte(orderID), created, expires)
}

// wantSteps compares a plan with "action table" lines.
func (b *bench) wantSteps(p partition.CreatePlan, want ...string) {
	b.Helper()
	var got []string
	for _, s := range p.Steps {
		got = append(got, s.Action+" "+s.Table)
	}
	b.same(got, want)
}

func (b *bench) same(got, want []string) {
	b.Helper()
	if len(got) != len(want) {
		b.Fatalf("got %q, want %q", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			b.Fatalf("got %q, want %q", got, want)
		}
	}
}
