package purge_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/partition"
	"github.com/idemctl/idemctl/pkg/purge"
)

const prefix = "t_flow"

// bench is a ledger of one test's own: the current month, the three before it and the next one, remembered for two years.
type bench struct {
	*testing.T
	*testenv.Schema
	scheme partition.Scheme
	zone   *time.Location
	now    time.Time
	month  partition.Month
}

func onEach(t *testing.T, fn func(b *bench)) {
	t.Helper()
	for _, db := range testenv.Databases(t) {
		t.Run(db.Name, func(t *testing.T) {
			t.Parallel()
			fn(newBench(t, db))
		})
	}
}

// onEmpty is onEach without a ledger.
func onEmpty(t *testing.T, fn func(b *bench)) {
	t.Helper()
	for _, db := range testenv.Databases(t) {
		t.Run(db.Name, func(t *testing.T) {
			t.Parallel()
			fn(emptyBench(t, db.Schema(t)))
		})
	}
}

func newBench(t *testing.T, db testenv.Database) *bench {
	t.Helper()
	b := emptyBench(t, db.Schema(t))
	b.create()
	return b
}

// ownBench is a ledger on a server that belongs to the test.
func ownBench(t *testing.T) *bench {
	t.Helper()
	server := testenv.OwnMySQL(t)
	root, err := mysqlx.Open(mysqlx.Options{DSN: server.DSN("mysql")})
	if err == nil {
		_, err = root.ExecContext(t.Context(), "CREATE DATABASE ledger")
		err = errors.Join(err, root.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	s := &testenv.Schema{DSN: server.DSN("ledger"), Name: "ledger"}
	if s.DB, err = mysqlx.Open(mysqlx.Options{DSN: s.DSN}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.DB.Close() })
	b := emptyBench(t, s)
	b.create()
	return b
}

func (b *bench) create() {
	b.Helper()
	m := partition.NewManager(b.DB, b.scheme, b.zone)
	p, err := m.PlanCreate(b.Context(), partition.CreateRequest{From: b.month - 3, Ahead: 1, MemorySince: b.now.AddDate(-2, 0, 0)})
	b.must(err)
	_, err = m.Create(b.Context(), p)
	b.must(err)
	_, err = partition.Register(b.Context(), b.DB, b.scheme, "COUPON", time.Time{})
	b.must(err)
}

func emptyBench(t *testing.T, s *testenv.Schema) *bench {
	t.Helper()
	b := &bench{T: t, Schema: s, zone: time.UTC}
	var err error
	b.scheme, err = partition.NewScheme(prefix)
	b.must(err)
	b.now, err = mysqlx.Now(t.Context(), b.DB)
	b.must(err)
	b.month = partition.MonthOf(b.now, b.zone)
	return b
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) sql(query string, args ...any) {
	b.Helper()
	if _, err := b.DB.ExecContext(b.Context(), query, args...); err != nil {
		b.Fatalf("%s: %v", query, err)
	}
}

// table is the month n months from now.
func (b *bench) table(n int) string { return b.scheme.Table(b.month + partition.Month(n)) }

// row is one ledger row, its times relative to the bench's now.
type row struct {
	id, biz         string
	created, expire time.Duration
}

const day = 24 * time.Hour

func stamp(t time.Time) string { return t.UTC().Format("'2006-01-02 15:04:05.000'") }

func (b *bench) insert(table string, rows ...row) {
	b.Helper()
	for chunk := range slices.Chunk(rows, 1000) {
		var q strings.Builder
		q.WriteString("INSERT INTO " + table + " (order_id, biz_type, create_time, expire_at) VALUES ")
		for i, r := range chunk {
			if i > 0 {
				q.WriteByte(',')
			}
			if r.biz == "" {
				r.biz = "COUPON"
			}
			fmt.Fprintf(&q, "('%s','%s',%s,%s)", r.id, r.biz, stamp(b.now.Add(r.created)), stamp(b.now.Add(r.expire)))
		}
		b.sql(q.String())
	}
}

// expired are n rows that have expired, the first the longest ago.
func expired(id string, n int) []row {
	rows := make([]row, n)
	for i := range rows {
		ago := time.Duration(n-i) * time.Second
		rows[i] = row{id: fmt.Sprintf("%s-%06d", id, i), created: -40*day - ago, expire: -10*day - ago}
	}
	return rows
}

func live(id string, n int) []row {
	rows := make([]row, n)
	for i := range rows {
		rows[i] = row{id: fmt.Sprintf("%s-%06d", id, i), created: -day, expire: 29*day + time.Duration(i)*time.Second}
	}
	return rows
}

func (b *bench) plan(opts purge.PlanOptions) purge.Plan {
	b.Helper()
	p, err := purge.PlanPurge(b.Context(), b.DB, b.scheme, b.zone, opts)
	b.must(err)
	return p
}

// quick runs without a hold.
func quick() purge.RunOptions { return purge.RunOptions{Hold: -1} }

func (b *bench) run(p purge.Plan, opts purge.RunOptions) purge.Report {
	b.Helper()
	rep, err := purge.Run(b.Context(), b.DB, p, opts)
	b.must(err)
	return rep
}

// ids are the keys of a table in order; nil: there is no table.
func (b *bench) ids(table string) []string {
	b.Helper()
	rows, err := b.DB.QueryContext(context.WithoutCancel(b.Context()), "SELECT order_id FROM "+table+" ORDER BY order_id, biz_type")
	if mysqlx.Number(err) == mysqlx.ErrNoSuchTable {
		return nil
	}
	b.must(err)
	defer rows.Close()
	ids := []string{}
	for rows.Next() {
		var id string
		b.must(rows.Scan(&id))
		ids = append(ids, id)
	}
	b.must(rows.Err())
	return ids
}

func idsOf(rows []row) []string {
	ids := make([]string, len(rows))
	for i, r := range rows {
		ids[i] = r.id
	}
	slices.Sort(ids)
	return ids
}

func (b *bench) catalog() partition.Catalog {
	b.Helper()
	c, err := partition.LoadCatalog(b.Context(), b.DB, b.scheme)
	b.must(err)
	return c
}

// settled fails unless the catalog lists live months only, each of which is there.
func (b *bench) settled() {
	b.Helper()
	for _, t := range b.catalog().Tables {
		if t.State != partition.Live || b.ids(t.Name) == nil {
			b.Errorf("left in the catalog: %+v", t)
		}
	}
}

func monthOf(rep purge.Report, table string) purge.MonthReport {
	for _, m := range rep.Months {
		if m.Table.Name == table {
			return m
		}
	}
	return purge.MonthReport{}
}

func planOf(p purge.Plan, table string) purge.MonthPlan {
	for _, m := range p.Months {
		if m.Table.Name == table {
			return m
		}
	}
	return purge.MonthPlan{}
}

func (b *bench) same(what string, got, want []string) {
	b.Helper()
	if !slices.Equal(got, want) {
		if len(got) > 20 || len(want) > 20 {
			b.Errorf("%s: %d, want %d", what, len(got), len(want))
			return
		}
		b.Errorf("%s: %q, want %q", what, got, want)
	}
}

// change changes the catalog by hand.
func (b *bench) change(fn func(c *partition.Catalog)) {
	b.Helper()
	_, err := partition.UpdateCatalog(b.Context(), b.DB, b.scheme, func(c *partition.Catalog) (bool, error) {
		fn(c)
		return true, nil
	})
	b.must(err)
}

func (b *bench) horizon(biz string) time.Time {
	b.Helper()
	c := b.catalog()
	h, ok := c.Horizon(biz)
	if !ok {
		b.Fatalf("%s is not registered", biz)
	}
	return h
}

// keep puts a live row into past months, which would be dropped as empty beside what a test looks at.
func (b *bench) keep(months ...int) {
	b.Helper()
	for _, n := range months {
		b.insert(b.table(n), live("kept", 1)...)
	}
}
