package ledger_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/ledger/ledgertest"
	"github.com/idemctl/idemctl/pkg/partition"
)

// legacy is a ledger made by someone else.
type legacy struct {
	*ledgertest.Workbench

	table  string // the first of its tables
	insert string // a row of order_id and create_time
}

// layouts are what others have made. %s is the first table's name.
func layouts() map[string]struct {
	prefix, suffix, create, insert string
	columns                        partition.Columns
} {
	type layout = struct {
		prefix, suffix, create, insert string
		columns                        partition.Columns
	}
	return map[string]layout{
		"one bare table": {
			prefix:  "t_legacy",
			create:  "(order_no VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL, created_at DATETIME, KEY (order_no))",
			insert:  "(order_no, created_at) VALUES (?, ?)",
			columns: partition.Columns{OrderID: "order_no", CreateTime: "created_at"},
		},
		"months of two columns": {
			prefix: "t_months", suffix: "_month",
			create:  "(order_id VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci NOT NULL PRIMARY KEY, create_time DATETIME NOT NULL)",
			insert:  "(order_id, create_time) VALUES (?, ?)",
			columns: partition.Columns{OrderID: "order_id", CreateTime: "create_time"},
		},
		"all four, by other names": {
			prefix: "t_four", suffix: "_month",
			create: "(`order` VARCHAR(64) CHARACTER SET latin1 COLLATE latin1_swedish_ci NOT NULL, kind VARCHAR(20) NOT NULL," +
				" at TIMESTAMP NULL, until_ DATETIME NULL, PRIMARY KEY (`order`, kind))",
			insert:  "(`order`, kind, at) VALUES (?, 'COUPON', ?)",
			columns: partition.Columns{OrderID: "order", BizType: "kind", CreateTime: "at", ExpireAt: "until_"},
		},
	}
}

// eachLegacy runs a test on every layout and every server.
func eachLegacy(t *testing.T, test func(t *testing.T, l legacy)) {
	t.Helper()
	for _, db := range testenv.Databases(t) {
		for name, layout := range layouts() {
			t.Run(db.Name+"/"+name, func(t *testing.T) {
				t.Parallel()
				w := ledgertest.NewEmpty(t, db.Schema(t), testenv.Redis(t))
				w.Scheme = legacyScheme(t, layout.prefix, layout.columns)
				l := legacy{Workbench: w, table: layout.prefix}
				if layout.suffix != "" {
					l.table = w.Scheme.Table(w.Month)
					w.SQL("CREATE TABLE " + w.Scheme.Table(w.Month-1) + " " + layout.create)
				}
				w.SQL("CREATE TABLE " + l.table + " " + layout.create)
				l.insert = layout.insert
				test(t, l)
			})
		}
	}
}

func legacyScheme(t *testing.T, prefix string, columns partition.Columns) partition.Scheme {
	t.Helper()
	s, err := partition.NewScheme(prefix)
	if err == nil {
		s, err = s.WithColumns(columns)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// has puts the row of a key into a table.
func (l legacy) has(table, orderID string, at time.Time) {
	l.T.Helper()
	l.SQL("INSERT INTO "+table+" "+l.insert, orderID, at)
}

// guard opens a guard that looks into the ledger.
func (l legacy) guard(since time.Time) *ledger.Guard {
	l.T.Helper()
	return l.Guard(func(o *ledger.GuardOptions) { o.MemorySince, o.AlwaysLook = since, true })
}

// wantOutcomes asks what would become of messages with these keys.
func (l legacy) wantOutcomes(g *ledger.Guard, want map[string]ledger.Outcome) {
	l.T.Helper()
	var messages []ledger.Message
	for id := range want {
		messages = append(messages, l.Message(id))
	}
	results, err := g.Classify(l.T.Context(), messages)
	if err != nil {
		l.T.Fatal(err)
	}
	for i, m := range messages {
		if results[i].Outcome != want[m.Key.OrderID] {
			l.T.Errorf("%q: %s (%s), want %s", m.Key.OrderID, results[i].Outcome, results[i].Reason, want[m.Key.OrderID])
		}
	}
}

// Keys are told apart byte by byte, whatever the collation of their column says (hazard G6), and a key without a row is not
// taken for new unless the operator vouches for it.
func TestLegacyIsVerified(t *testing.T) {
	t.Parallel()
	eachLegacy(t, func(t *testing.T, l legacy) {
		l.has(l.table, "ORD-1", l.Now)
		l.has(l.table, "ÖRD-2", l.Now)
		l.has(l.table, "it's", l.Now)
		absent := []string{"ord-1", "ORD-1 ", "ÖRD-1", "ORD-2", "örd-2", "0", "ORD-\xff", "ORD-1\x00", "漢字", "😀", strings.Repeat("k", ledger.MaxOrderID)}
		want := map[string]ledger.Outcome{"ORD-1": ledger.AbsorbedLedger, "ÖRD-2": ledger.AbsorbedLedger, "it's": ledger.AbsorbedLedger}
		for _, id := range absent {
			want[id] = ledger.OutsideHorizon
		}
		l.wantOutcomes(l.guard(time.Time{}), want)
		for _, id := range absent {
			want[id] = ledger.Executed
		}
		g := l.guard(l.Now.AddDate(0, -3, 0))
		l.wantOutcomes(g, want)

		loaded, err := g.Preload(t.Context(), 20_000)
		if err != nil || !loaded {
			t.Fatalf("read the keys: %v, %v", loaded, err)
		}
		l.wantOutcomes(g, want)
		if err := g.Forget(); err != nil {
			t.Fatal(err)
		}

		res, err := g.Classify(t.Context(), []ledger.Message{l.Message("ORD-1")})
		if err != nil {
			t.Fatal(err)
		}
		e := res[0].Entry
		if e == nil || e.Table != l.table || e.CreateTime.Sub(l.Now).Abs() > time.Second || e.ClaimID != nil || e.Source != nil || e.Fingerprint != nil {
			t.Errorf("entry %+v", e)
		}
	})
}

// Nothing of a ledger made by someone else is written, nor any effect run beside it.
func TestLegacyIsNotWritten(t *testing.T) {
	t.Parallel()
	eachLegacy(t, func(t *testing.T, l legacy) {
		g := l.guard(l.Now.AddDate(0, -3, 0))
		m := l.Message("ORD-1")
		for name, do := range map[string]func(context.Context, ledger.Message, ledger.Effect) (ledger.Result, error){"do": g.Do, "rehearse": g.Rehearse} {
			if res, err := do(t.Context(), m, l.Grant(m)); !errors.Is(err, ledger.ErrLegacy) || res.Outcome != ledger.Failed {
				t.Errorf("%s: %s, %v; want ErrLegacy", name, res.Outcome, err)
			}
		}
		batch := []ledger.Message{m, l.Message("ORD-2")}
		for _, res := range append(g.DoBatch(t.Context(), batch, l.GrantAll(batch)), g.RehearseBatch(t.Context(), batch, l.GrantAll(batch))...) {
			if !errors.Is(res.Err, ledger.ErrLegacy) {
				t.Errorf("batch: %s, %v; want ErrLegacy", res.Outcome, res.Err)
			}
		}
		if _, err := l.Store().ForeignWriters(t.Context(), ledgertest.Biz); !errors.Is(err, ledger.ErrLegacy) {
			t.Errorf("other writers: %v, want ErrLegacy", err)
		}
		var rows int
		query := "SELECT (SELECT COUNT(*) FROM coupon) + (SELECT COUNT(*) FROM " + l.table + ")"
		if err := l.Schema.DB.QueryRowContext(t.Context(), query).Scan(&rows); err != nil || rows != 0 {
			t.Errorf("%d rows were written (%v)", rows, err)
		}
		if l.Marker(m) != "" {
			t.Errorf("marker %q", l.Marker(m))
		}
	})
}

// Rows of another biz_type do not count, except where nothing says whose they are.
func TestLegacyBizType(t *testing.T) {
	t.Parallel()
	eachLegacy(t, func(t *testing.T, l legacy) {
		want := ledger.AbsorbedLedger
		if l.Scheme.Columns().BizType != "" {
			want = ledger.OutsideHorizon
			l.SQL("INSERT INTO " + l.table + " (`order`, kind) VALUES ('ORD-1', 'SHIPMENT'), ('ORD-2', 'coupon')")
		} else {
			l.has(l.table, "ORD-1", l.Now)
			l.has(l.table, "ORD-2", l.Now)
		}
		g := l.guard(time.Time{})
		l.wantOutcomes(g, map[string]ledger.Outcome{"ORD-1": want, "ORD-2": want})
		if _, err := g.Preload(t.Context(), 20_000); err != nil {
			t.Fatal(err)
		}
		defer g.Forget()
		l.wantOutcomes(g, map[string]ledger.Outcome{"ORD-1": want, "ORD-2": want})
	})
}

// A catalog row of the prefix says how far the memory reaches; months that it does not list are looked into all the same,
// and what it still lists as held and has been dropped is not missed.
func TestLegacyCatalog(t *testing.T) {
	t.Parallel()
	for _, db := range testenv.Databases(t) {
		t.Run(db.Name, func(t *testing.T) {
			t.Parallel()
			w := ledgertest.NewEmpty(t, db.Schema(t), testenv.Redis(t))
			w.CreateMonths(partition.CreateRequest{MemorySince: w.Now.AddDate(0, -3, 0)})
			w.Scheme = legacyScheme(t, ledgertest.Prefix, partition.Columns{OrderID: "order_id", CreateTime: "create_time"})
			unlisted := w.Scheme.Table(w.Month - 1)
			w.SQL("CREATE TABLE " + unlisted + " (order_id VARCHAR(64) NOT NULL, create_time DATETIME NOT NULL)")
			l := legacy{Workbench: w, table: unlisted, insert: "(order_id, create_time) VALUES (?, ?)"}
			l.has(unlisted, "ORD-1", w.Now)
			g := l.guard(time.Time{})
			l.wantOutcomes(g, map[string]ledger.Outcome{"ORD-1": ledger.AbsorbedLedger, "ORD-2": ledger.Executed})

			w.Catalog(func(c *partition.Catalog) {
				c.Biz[""] = partition.Memory{Purged: w.Now}
				c.Tables = append(c.Tables, partition.Table{Month: w.Month - 2, Name: "t_gone_held", State: partition.Held})
			})
			l.wantOutcomes(g, map[string]ledger.Outcome{"ORD-1": ledger.AbsorbedLedger, "ORD-2": ledger.OutsideHorizon})
			l.wantOutcomes(l.guard(time.Time{}), map[string]ledger.Outcome{"ORD-1": ledger.AbsorbedLedger, "ORD-2": ledger.OutsideHorizon})
		})
	}
}

// A bare COMPLETED, as the ledger's own services write it, does not stand in for the row, and a month that its owner drops
// under the guard's eyes is not missed.
func TestLegacyMonthsComeAndGo(t *testing.T) {
	t.Parallel()
	eachLegacy(t, func(_ *testing.T, l legacy) {
		l.has(l.table, "ORD-1", l.Now)
		done, phantom := l.Message("ORD-1"), l.Message("ORD-2")
		l.SetMarker(done, "COMPLETED", 0)
		l.SetMarker(phantom, "COMPLETED", 0)
		g := l.guard(l.Now.AddDate(0, -3, 0))
		l.wantOutcomes(g, map[string]ledger.Outcome{"ORD-1": ledger.AbsorbedLedger, "ORD-2": ledger.Phantom})
		if l.table == l.Scheme.Prefix() {
			return
		}
		l.SQL("DROP TABLE " + l.Scheme.Table(l.Month-1))
		l.wantOutcomes(g, map[string]ledger.Outcome{"ORD-1": ledger.AbsorbedLedger, "ORD-2": ledger.Phantom})
	})
}

func TestLegacyRefusals(t *testing.T) {
	t.Parallel()
	for _, db := range testenv.Databases(t) {
		t.Run(db.Name, func(t *testing.T) {
			t.Parallel()
			w := ledgertest.NewEmpty(t, db.Schema(t), testenv.Redis(t))
			w.SQL("CREATE TABLE t_legacy (order_no VARCHAR(64), created_at DATETIME)")
			w.Scheme = legacyScheme(t, "t_legacy", partition.Columns{OrderID: "order_no", CreateTime: "paid_at"})
			if _, err := w.OpenGuard(); !errors.Is(err, ledger.ErrColumnMap) || !strings.Contains(err.Error(), "paid_at") {
				t.Errorf("a column that is not there: %v", err)
			}
			w.Scheme = legacyScheme(t, "t_other", partition.Columns{OrderID: "order_no", CreateTime: "created_at"})
			if _, err := w.OpenGuard(); !errors.Is(err, ledger.ErrMonthMissing) || !strings.Contains(err.Error(), "t_other_YYYYMM") {
				t.Errorf("no table at all: %v", err)
			}
		})
	}
}
