package reconcile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/ledger/ledgertest"
	"github.com/idemctl/idemctl/pkg/partition"
)

// layout is how someone else has made a ledger.
type layout struct {
	name    string
	create  string
	columns partition.Columns
	months  bool
}

func layouts() []layout {
	return []layout{
		{
			name:    "one bare table",
			create:  "(order_no VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL, at DATETIME NULL, KEY (order_no))",
			columns: partition.Columns{OrderID: "order_no", CreateTime: "at"},
		},
		{
			name: "months, all four by other names", months: true,
			create: "(kind VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL, order_no VARCHAR(64) CHARACTER SET latin1 COLLATE latin1_swedish_ci NOT NULL," +
				" at TIMESTAMP NULL, until_ DATETIME NULL, KEY (kind, order_no))",
			columns: partition.Columns{OrderID: "order_no", BizType: "kind", CreateTime: "at", ExpireAt: "until_"},
		},
	}
}

// legacy is a ledger made by someone else, with markers beside it.
type legacy struct {
	*planted
	layout

	table, other string
}

func eachLegacy(t *testing.T, test func(t *testing.T, l *legacy)) {
	t.Helper()
	for _, db := range testenv.Databases(t) {
		for _, made := range layouts() {
			t.Run(db.Name+"/"+made.name, func(t *testing.T) {
				t.Parallel()
				w := ledgertest.NewEmpty(t, db.Schema(t), testenv.Redis(t))
				scheme, err := partition.NewScheme("t_legacy")
				if err == nil {
					scheme, err = scheme.WithColumns(made.columns)
				}
				if err != nil {
					t.Fatal(err)
				}
				w.Scheme = scheme
				p := &planted{Workbench: w, t: t, client: w.Redis, pipe: w.Redis.Pipeline(), want: map[Kind]int64{}, id: "00112233445566aa"}
				l := &legacy{planted: p, layout: made, table: "t_legacy"}
				if made.months {
					l.table, l.other = scheme.Table(w.Month), scheme.Table(w.Month-1)
					w.SQL("CREATE TABLE " + l.other + " " + made.create)
				}
				w.SQL("CREATE TABLE " + l.table + " " + made.create)
				test(t, l)
			})
		}
	}
}

// has plants a row; lasts 0 leaves its expiry open.
func (l *legacy) has(table, orderID, kind string, age, lasts time.Duration) {
	l.t.Helper()
	names, marks, args := []string{l.columns.OrderID, l.columns.CreateTime}, "?,?", []any{orderID, l.Now.Add(-age)}
	if l.columns.BizType != "" {
		names, marks, args = append(names, l.columns.BizType), marks+",?", append(args, kind)
	}
	if l.columns.ExpireAt != "" && lasts != 0 {
		names, marks, args = append(names, l.columns.ExpireAt), marks+",?", append(args, l.Now.Add(lasts))
	}
	l.SQL("INSERT INTO "+table+" ("+strings.Join(names, ",")+") VALUES ("+marks+")", args...)
}

// reconciler is one whose rows last for a month, of the one biz_type.
func (l *legacy) reconciler(change ...func(*Options)) *Reconciler {
	l.t.Helper()
	return l.planted.reconciler(append([]func(*Options){func(o *Options) {
		o.Retention, o.LedgerBizTypes = month, []string{ledgertest.Biz}
	}}, change...)...)
}

// vouched is the operator's word for a long time.
func (l *legacy) vouched(o *Options) {
	o.MemorySince = map[string]time.Time{ledgertest.Biz: l.Now.AddDate(0, -3, 0)}
}

// faults plants one of each kind that such a ledger can tell, and what only looks like one.
func (l *legacy) faults() {
	const biz = ledgertest.Biz
	for _, id := range []string{"ORD-1", "ÖRD-2", "it's"} {
		l.has(l.table, id, biz, 10*time.Minute, 0)
	}
	l.marker("ORD-1", "COMPLETED:ffffffffffffffff", 50*time.Minute) // whoever has written it
	l.marker("ÖRD-2", "COMPLETED", 50*time.Minute)
	l.marker("it's", "PROCESSING:x", 30*time.Second)
	// What the collation takes for the same, and what its character set cannot hold.
	for _, id := range []string{"ord-1", "ORD-1 ", "ÖRD-1", "ORD-\xff", "漢字"} {
		l.marker(id, "COMPLETED", 50*time.Minute)
	}
	l.marker("stuck", "PROCESSING:x", 0)
	l.marker("live", "PROCESSING:x", 30*time.Second)
	l.marker("bad", "DONE", 0)
	l.has(l.table, "immortal", biz, 10*time.Minute, 0)
	l.marker("immortal", "COMPLETED", 0)
	// Made so long ago that the retention is over in ten minutes; one that says so itself; one of which nothing is known.
	l.has(l.table, "outlives", biz, month-10*time.Minute, 0)
	l.marker("outlives", "COMPLETED", 50*time.Minute)
	l.SQL("INSERT INTO " + l.table + " (" + l.columns.OrderID + l.kindColumn() + ") VALUES ('timeless'" + l.kindValue() + ")")
	l.marker("timeless", "COMPLETED", 50*time.Minute)
	l.has(l.table, "cold", biz, 10*time.Minute, 0)
	l.has(l.table, "old", biz, 2*time.Hour, 0)
	again := l.table
	if l.other != "" {
		again = l.other
		l.has(l.table, "expired", biz, 10*time.Minute, -time.Minute)
	}
	for _, table := range []string{l.table, again} {
		l.has(table, "twice", biz, 20*time.Minute, 0)
	}
	l.marker("twice", "COMPLETED", 40*time.Minute)
	for _, table := range []string{l.table, again} { // so long ago that no marker goes with it
		l.has(table, "twice long ago", biz, 2*time.Hour, 30*time.Minute)
	}
	l.want[Twice]++
	if l.columns.BizType != "" { // of another kind, to a byte
		l.has(l.table, "theirs", "SHIPMENT", 2*time.Hour, 0)
		l.has(l.table, "theirs", strings.ToLower(biz), 2*time.Hour, 0)
		l.marker("theirs", "COMPLETED", 50*time.Minute)
		l.want[Phantom]++
	}
	l.flush()
	l.want[Phantom] += 5
	for _, k := range []Kind{StaleProcessing, Stuck, Malformed, Immortal, OutlivesEntry, Cold, Twice} {
		l.want[k]++
	}
}

func (l *legacy) kindColumn() string {
	if l.columns.BizType == "" {
		return ""
	}
	return ", " + l.columns.BizType
}

func (l *legacy) kindValue() string {
	if l.columns.BizType == "" {
		return ""
	}
	return ", '" + ledgertest.Biz + "'"
}

// dump is all that the ledger holds.
func (l *legacy) dump() string {
	l.t.Helper()
	var all []string
	for _, table := range []string{l.table, l.other} {
		if table == "" {
			continue
		}
		var rows sql.NullString
		row := "CONCAT_WS('|', HEX(" + l.columns.OrderID + "), " + l.columns.CreateTime + l.kindColumn() + ")"
		if err := l.Schema.DB.QueryRowContext(l.t.Context(), "SELECT GROUP_CONCAT("+row+" ORDER BY "+l.columns.OrderID+", "+l.columns.CreateTime+") FROM "+table).Scan(&rows); err != nil {
			l.t.Fatal(err)
		}
		all = append(all, rows.String)
	}
	return strings.Join(all, "\n")
}

// A ledger made by someone else: each kind that it can tell is found exactly, keys compared byte by byte whatever their
// collation, and what it cannot tell is said. hazard C4, G6
func TestLegacyFindings(t *testing.T) {
	t.Parallel()
	eachLegacy(t, func(_ *testing.T, l *legacy) {
		l.faults()
		// Without anybody's word a row that is not there may never have been.
		unknown := map[Kind]int64{Unremembered: l.want[Phantom]}
		for k, n := range l.want {
			if k != Phantom {
				unknown[k] = n
			}
		}
		f := l.scan(l.reconciler())
		l.check(f, unknown)
		l.untold(f, Phantom, FingerprintMismatch, ForeignLedger)
		f = l.scan(l.reconciler(l.vouched))
		l.check(f, l.want)
		l.untold(f, FingerprintMismatch, ForeignLedger)
		if !f.Legacy || f.LedgerID != "" || f.RowsScanned == 0 {
			l.t.Errorf("%+v", f.Report)
		}
		// One direction at a time.
		f = l.scan(l.reconciler(l.vouched, func(o *Options) { o.Directions = LedgerToFilter }))
		for _, k := range []Kind{Cold, Twice, StaleProcessing, Immortal} {
			if f.Count(k) != l.want[k] {
				l.t.Errorf("from the ledger: %s: %d, want %d", k, f.Count(k), l.want[k])
			}
		}
		l.want[Cold], l.want[Twice] = 0, 0
		l.check(l.scan(l.reconciler(l.vouched, func(o *Options) { o.Directions = FilterToLedger })), l.want)
	})
}

// untold checks which kinds the ledger is said not to tell.
func (l *legacy) untold(f *Findings, want ...Kind) {
	l.t.Helper()
	var got []Kind
	for _, u := range f.Untold {
		if u.Why == "" {
			l.t.Errorf("%s: no reason", u.Kind)
		}
		got = append(got, u.Kind)
	}
	if !slices.Equal(got, want) {
		l.t.Errorf("untold: %v, want %v", got, want)
	}
}

// What was found is repaired and undone as in a ledger of our own, with the bare word where there is no id, and the ledger is
// not written. hazard C2, C9
func TestLegacyRepair(t *testing.T) {
	t.Parallel()
	eachLegacy(t, func(t *testing.T, l *legacy) {
		l.faults()
		before := l.dump()
		r := l.reconciler(l.vouched)
		f := l.scan(r)
		// A row that comes between is seen by the last look.
		l.has(l.table, "ord-1", ledgertest.Biz, 0, 0)
		plan, err := f.Plan(fixable())
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "undo")
		undo := NewUndoFile(path)
		rep, err := r.Fix(t.Context(), plan, undo, nil)
		if err := errors.Join(err, undo.Close()); err != nil {
			t.Fatal(err)
		}
		for _, c := range rep.Kinds {
			want := FixCount{Kind: c.Kind, Applied: l.want[c.Kind]}
			if c.Kind == Phantom {
				want.Applied--
				want.Changed = 1
			}
			if c != want {
				t.Errorf("%+v, want %+v", c, want)
			}
		}
		for _, c := range [][2]string{{"it's", "COMPLETED"}, {"ord-1", "COMPLETED"}, {"ORD-1 ", ""}, {"ORD-1", "COMPLETED:ffffffffffffffff"}, {"漢字", ""}, {"bad", ""}} {
			id, want := c[0], c[1]
			if got := l.client.Get(t.Context(), l.planted.name(id)).Val(); got != want {
				t.Errorf("%q: %q, want %q", id, got, want)
			}
		}
		l.check(l.scan(r), map[Kind]int64{Twice: 2, Cold: 1})
		back, err := ReadUndo(path)
		if err != nil {
			t.Fatal(err)
		}
		ur, err := r.Undo(t.Context(), back, nil)
		if want := (UndoReport{Restored: rep.Applied() - l.want[Phantom] + 1, Refused: l.want[Phantom] - 1}); err != nil || ur != want {
			t.Errorf("undone: %+v, %v, want %+v", ur, err, want)
		}
		l.SQL("DELETE FROM "+l.table+" WHERE BINARY "+l.columns.OrderID+" = ?", "ord-1")
		if after := l.dump(); after != before {
			t.Errorf("the ledger was written:\n%s\nwas\n%s", after, before)
		}
	})
}

// A walk over pages of keys that a collation takes for the same meets each row once.
func TestLegacyWalk(t *testing.T) {
	t.Parallel()
	eachLegacy(t, func(t *testing.T, l *legacy) {
		want := map[string]int{}
		var values []string
		for i := range 2*walkMost + 3 {
			for _, form := range []string{"K%06d", "k%06d", "K%06d "} {
				id := fmt.Sprintf(form, i/3)
				want[id]++
				values = append(values, "('"+id+"'"+l.kindValue()+")")
			}
		}
		for page := range slices.Chunk(values, 2000) {
			l.SQL("INSERT INTO " + l.table + " (" + l.columns.OrderID + l.kindColumn() + ") VALUES " + strings.Join(page, ","))
		}
		l.SQL("INSERT INTO " + l.table + " (" + l.columns.OrderID + l.kindColumn() + ") VALUES (''" + l.kindValue() + ")") // no key
		opts := l.reconciler().opts
		b, err := openBooks(t.Context(), &opts)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]int{}
		err = b.walk(t.Context(), l.noCount, func(w walked) error {
			if got[w.key.OrderID] > 0 || w.key.BizType != ledgertest.Biz {
				t.Errorf("%v once more", w.key)
			}
			got[w.key.OrderID] += w.tables
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for id, n := range want {
			if got[id] != n {
				t.Fatalf("%q: %d rows, want %d", id, got[id], n)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%d keys, want %d", len(got), len(want))
		}
	})
}

// Rows that do not say whose they are count for every biz_type of the ledger; which of them should have a marker is not told.
func TestLegacySeveralBizTypes(t *testing.T) {
	t.Parallel()
	eachLegacy(t, func(_ *testing.T, l *legacy) {
		l.has(l.table, "ORD-1", "SHIPMENT", 10*time.Minute, 0)
		l.marker("ORD-1", "COMPLETED", 50*time.Minute)
		l.has(l.table, "cold", "SHIPMENT", 10*time.Minute, 0)
		l.flush()
		f := l.scan(l.reconciler(l.vouched, func(o *Options) { o.LedgerBizTypes = append(o.LedgerBizTypes, "SHIPMENT") }))
		if l.columns.BizType != "" {
			l.check(f, map[Kind]int64{Phantom: 1, Cold: 2})
			l.untold(f, Phantom, FingerprintMismatch, ForeignLedger)
			return
		}
		l.check(f, nil)
		l.untold(f, Phantom, FingerprintMismatch, ForeignLedger, Twice, Cold)
	})
}

// A catalog row of the prefix lends its id and its memory; a map that does not fit is refused.
func TestLegacyCatalog(t *testing.T) {
	t.Parallel()
	eachLegacy(t, func(t *testing.T, l *legacy) {
		for name, columns := range map[string]partition.Columns{
			"no such column": {OrderID: "order_no", CreateTime: "paid_at"}, "no time": {OrderID: "order_no", CreateTime: "order_no2"},
		} {
			if name == "no time" {
				l.SQL("ALTER TABLE " + l.table + " ADD order_no2 BIGINT NULL")
			}
			scheme, err := l.Scheme.WithColumns(columns)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := l.reconciler(func(o *Options) { o.Scheme = scheme }).Scan(t.Context(), nil); !errors.Is(err, ledger.ErrColumnMap) {
				t.Errorf("%s: %v", name, err)
			}
		}
		nobody, err := partition.NewScheme("t_nobody")
		if err == nil {
			nobody, err = nobody.WithColumns(l.columns)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.reconciler(func(o *Options) { o.Scheme = nobody }).Scan(t.Context(), nil); !errors.Is(err, ledger.ErrMonthMissing) {
			t.Errorf("no table: %v", err)
		}

		l.SQL("CREATE TABLE " + partition.ControlTable + " (name VARBINARY(64) NOT NULL PRIMARY KEY, generation BIGINT NOT NULL, body BLOB NOT NULL, updated_at DATETIME(3) NOT NULL)")
		l.SQL("INSERT INTO "+partition.ControlTable+" VALUES ('t_legacy', 7, ?, UTC_TIMESTAMP(3))",
			`{"version":1,"ledger_id":"`+l.id+`","time_zone":"UTC","vouched_since":"2026-01-01T00:00:00Z","tables":[{"table":"t_gone_held","state":"held","month":"2026-01"}]}`)
		l.has(l.table, "ORD-1", ledgertest.Biz, 10*time.Minute, 0)
		l.marker("ORD-1", "COMPLETED", 50*time.Minute)
		l.marker("ORD-2", "COMPLETED:"+l.id, 50*time.Minute)
		l.flush()
		f := l.scan(l.reconciler())
		l.check(f, map[Kind]int64{ForeignLedger: 1, Phantom: 1})
		l.untold(f, FingerprintMismatch)
		if f.LedgerID != l.id {
			t.Errorf("ledger id %q", f.LedgerID)
		}
	})
}

func (l *legacy) noCount(context.Context, int) error { return nil }
