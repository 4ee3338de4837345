package ledgertest

import (
	"bytes"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/partition"
)

// Store puts the store through its suite on one database.
func Store(t *testing.T, db testenv.Database) {
	t.Helper()
	for name, test := range storeTests() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, func(t *testing.T) *Workbench { t.Helper(); return New(t, db.Schema(t), testenv.Redis(t)) })
		})
	}
}

type storeTest func(t *testing.T, mk bench)

func storeTests() map[string]storeTest {
	return map[string]storeTest{
		"unfit sessions are refused": unfitSessions,
		"opened for a guard":         openedConnections,
		"what a row holds":           rowHolds,
		"foreign writers":            foreignWriters,
	}
}

// Invariant 6: a guard's own connections, and no others.
func unfitSessions(t *testing.T, mk bench) {
	w := mk(t)
	w.must(ledger.NewStore(w.Open(true), w.Open(false), w.Scheme).Verify(t.Context()))
	for name, s := range map[string]*ledger.Store{
		"transactions that commit by themselves": ledger.NewStore(w.Open(false), w.Open(false), w.Scheme),
		"look-ups that never commit":             ledger.NewStore(w.Open(true), w.Open(true), w.Scheme),
		"REPEATABLE-READ":                        ledger.NewStore(w.openAs("REPEATABLE-READ"), w.Open(false), w.Scheme),
		"READ-UNCOMMITTED":                       ledger.NewStore(w.openAs("READ-UNCOMMITTED"), w.Open(false), w.Scheme),
		"SERIALIZABLE":                           ledger.NewStore(w.openAs("SERIALIZABLE"), w.Open(false), w.Scheme),
	} {
		if err := s.Verify(t.Context()); !errors.Is(err, ledger.ErrUnsafeSession) {
			t.Errorf("%s: error %v, want ErrUnsafeSession", name, err)
		}
		if _, err := w.OpenGuard(func(o *ledger.GuardOptions) { o.Store = s }); !errors.Is(err, ledger.ErrUnsafeSession) {
			t.Errorf("%s: a guard opens it: %v", name, err)
		}
	}
	// The same by hand is as good as what this project opens.
	w.must(ledger.NewStore(w.openAs("READ-COMMITTED"), w.Open(false), w.Scheme).Verify(t.Context()))
}

// openAs opens a pool as some other program would: no autocommit, and an isolation of its own.
func (w *Workbench) openAs(isolation string) *sql.DB {
	w.T.Helper()
	server, err := mysqlx.Inspect(w.T.Context(), w.Schema.DB)
	w.must(err)
	name := "transaction_isolation"
	if server.MariaDB {
		name = "tx_isolation"
	}
	cfg, err := mysql.ParseDSN(w.Schema.DSN)
	w.must(err)
	cfg.ParseTime = true
	cfg.Params = map[string]string{"autocommit": "0", name: "'" + isolation + "'"}
	connector, err := mysql.NewConnector(cfg)
	w.must(err)
	db := sql.OpenDB(connector)
	w.T.Cleanup(func() { _ = db.Close() })
	return db
}

func openedConnections(t *testing.T, mk bench) {
	w := mk(t)
	tx, read, err := ledger.OpenConnections(w.Schema.DSN)
	w.must(err)
	defer tx.Close()
	defer read.Close()
	g := w.Guard(func(o *ledger.GuardOptions) { o.Store = ledger.NewStore(tx, read, w.Scheme) })
	m := w.NewMessage()
	res, err := g.Do(t.Context(), m, w.Grant(m))
	w.Want(ledger.Executed, res, err)
	w.ExactlyOnce(m)
	// The other pool is fit for whoever makes the months.
	plan, err := partition.NewManager(read, w.Scheme, w.Zone).PlanCreate(t.Context(), partition.CreateRequest{Ahead: 2})
	w.must(err)
	_, err = partition.NewManager(read, w.Scheme, w.Zone).Create(t.Context(), plan)
	w.must(err)
}

// A row says when, until when, by which claim and from which record, whatever the server's zone and rounding.
func rowHolds(t *testing.T, mk bench) {
	w := mk(t)
	g := w.Guard()
	read := func(m ledger.Message) *ledger.Entry {
		t.Helper()
		w.Forget(m)
		res, err := g.Do(t.Context(), m, w.Grant(m))
		w.Want(ledger.AbsorbedLedger, res, err)
		if res.Entry == nil {
			t.Fatal("absorbed by a row that is not shown")
		}
		return res.Entry
	}
	claims := map[ledger.ClaimID]bool{}
	ahead := w.Now.Add(time.Hour).Truncate(time.Second).Add(999*time.Millisecond + 999*time.Microsecond)
	past := w.Now.Add(-time.Minute)
	for name, at := range map[string]time.Time{"of the past": past, "ahead of the server's clock": ahead} {
		m := w.NewMessage()
		m.Time = at.In(time.FixedZone("east", 8*3600))
		m.Fingerprint = bytes.Repeat([]byte{7}, 16)
		if at.Equal(ahead) && partition.MonthOf(at, w.Zone) > w.Month+1 {
			t.Fatal("the test's month is not there")
		}
		res, err := g.Do(t.Context(), m, w.Grant(m))
		w.Want(ledger.Executed, res, err)
		after, err := mysqlx.Now(t.Context(), w.Schema.DB)
		w.must(err)
		e := read(m)
		if at.Equal(ahead) {
			// Cut to milliseconds here; MySQL would have rounded it up to the next second.
			if want := ahead.Truncate(time.Millisecond); !e.CreateTime.Equal(want) {
				t.Errorf("%s: create_time %s, want %s", name, e.CreateTime, want)
			}
		} else if e.CreateTime.Before(w.Now) || e.CreateTime.After(after) {
			t.Errorf("%s: create_time %s, want the server's clock, %s to %s", name, e.CreateTime, w.Now, after)
		}
		if got := e.ExpireAt.Sub(e.CreateTime); got != 30*24*time.Hour {
			t.Errorf("%s: kept for %v", name, got)
		}
		if e.Key != m.Key || *e.Source != *m.Source || !bytes.Equal(e.Fingerprint, m.Fingerprint) || e.ClaimID == nil || e.Table != w.Scheme.Table(partition.MonthOf(at, w.Zone)) {
			t.Errorf("%s: %+v", name, e)
			continue
		}
		claims[*e.ClaimID] = true
	}
	if len(claims) != 2 {
		t.Errorf("two claims have %d ids", len(claims))
	}
	bare := w.NewMessage()
	bare.Source = nil
	res, err := g.Do(t.Context(), bare, w.Grant(bare))
	w.Want(ledger.Executed, res, err)
	if e := read(bare); e.Source != nil || e.Fingerprint != nil {
		t.Errorf("a row without source and fingerprint: %+v", e)
	}
}

// hazard G26: rows of a writer that does not look into other months.
func foreignWriters(t *testing.T, mk bench) {
	w := mk(t)
	s := ledger.NewStore(w.Open(true), w.Open(false), w.Scheme)
	want := func(what, table string) {
		t.Helper()
		if got, err := s.ForeignWriters(t.Context(), Biz); err != nil || got != table {
			t.Errorf("%s: %q, %v; want %q", what, got, err, table)
		}
	}
	foreign := func(table, orderID, biz string) {
		t.Helper()
		w.SQL("INSERT INTO "+table+" (order_id, biz_type, create_time, expire_at) VALUES (?, ?, ?, ?)",
			[]byte(orderID), []byte(biz), w.Now, w.Now.AddDate(0, 1, 0))
	}
	current, next := w.Scheme.Table(w.Month), w.Scheme.Table(w.Month+1)
	want("an empty ledger", "")
	m := w.NewMessage()
	res, err := w.Guard().Do(t.Context(), m, w.Grant(m))
	w.Want(ledger.Executed, res, err)
	want("a guard's own row", "")
	foreign(current, "theirs", "SHIPMENT")
	want("another biz_type's", "")
	foreign(next, "theirs", Biz)
	want("in another month", next)
	w.SQL("DELETE FROM " + next)
	want("gone", "")
	foreign(current, "theirs", Biz)
	want("in the current month", current)

	// A month that goes away is no one's home, so nobody writes into it any more.
	w.Catalog(func(c *partition.Catalog) {
		for i := range c.Tables {
			if c.Tables[i].Month == w.Month {
				c.Tables[i].State = partition.Held
			}
		}
	})
	want("in a held month", "")
	w.SQL("DELETE FROM " + partition.ControlTable)
	if _, err := s.ForeignWriters(t.Context(), Biz); !errors.Is(err, partition.ErrNoCatalog) || !strings.Contains(err.Error(), Prefix) {
		t.Errorf("without a catalog: %v, want ErrNoCatalog", err)
	}
}
