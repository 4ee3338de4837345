package partition_test

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/partition"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// A run that died between making a table and listing it leaves one that no guard probes: the next run lists it, whatever
// range it was asked for (invariant 9).
func TestConformanceUnlisted(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		b.create(partition.CreateRequest{})
		for _, n := range []int{-30, -1, 5} {
			b.sql("CREATE TABLE " + b.table(n) + " LIKE " + b.table(0))
		}
		b.change(func(c *partition.Catalog) { c.Tables = nil })
		p := b.plan(partition.CreateRequest{From: b.month, Ahead: 1})
		want := map[string]time.Time{
			"list " + b.table(0): {}, "create " + b.table(1): {}, "list " + b.table(5): {},
			"list " + b.table(-1): b.month.Start(b.zone), "list " + b.table(-30): (b.month - 29).Start(b.zone),
		}
		if len(p.Steps) != len(want) {
			b.Fatalf("steps %+v, want %d", p.Steps, len(want))
		}
		for _, s := range p.Steps {
			if raises, ok := want[s.Action+" "+s.Table]; !ok || !raises.Equal(s.RaisesHorizon) {
				b.Errorf("step %+v; want one of %v", s, want)
			}
		}
		rep, err := b.manager.Create(b.Context(), p)
		b.must(err)
		if len(rep.Created) != 1 || len(rep.Listed) != 4 {
			b.Errorf("created %q, listed %q", rep.Created, rep.Listed)
		}
		cat := b.catalog()
		if len(cat.Tables) != 5 || !cat.LostUntil.Equal(b.month.Start(b.zone)) {
			b.Errorf("%d tables listed, lost until %s", len(cat.Tables), cat.LostUntil)
		}
		for i := 1; i < len(cat.Tables); i++ {
			if cat.Tables[i-1].Month >= cat.Tables[i].Month {
				b.Errorf("not in the order of months: %+v", cat.Tables)
			}
		}
	})
}

// A catalog row that is gone takes all it knew with it: the tables are listed again, and nothing is remembered.
func TestConformanceCatalogLost(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		b.create(partition.CreateRequest{From: b.month - 1, MemorySince: b.now.AddDate(0, -2, 0)})
		before := b.catalog()
		b.sql("DELETE FROM t_idempotent_control")
		p := b.plan(partition.CreateRequest{})
		if !p.NewLedger {
			b.Errorf("the plan: %+v", p)
		}
		b.wantSteps(p, "list "+b.table(-1), "list "+b.table(0))
		_, err := b.manager.Create(b.Context(), p)
		b.must(err)
		cat := b.catalog()
		if cat.LedgerID == before.LedgerID {
			b.Error("the ledger id is the old one: markers that nobody can vouch for would absorb")
		}
		if h := cat.FirstHorizon("COUPON", b.now, time.Time{}); h.Before(b.now) {
			b.Errorf("the horizon is %s: the new catalog remembers what it cannot", h)
		}
	})
}

// A listed table that is gone is made again, empty. Before it is there, the catalog must say what it does not know.
func TestConformanceRecreate(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		b.create(partition.CreateRequest{From: b.month - 1, Ahead: 1, MemorySince: b.now.AddDate(-1, 0, 0)})
		_, err := partition.Register(b.Context(), b.DB, b.scheme, "COUPON", time.Time{})
		b.must(err)
		b.sql("DROP TABLE " + b.table(0))
		p := b.plan(partition.CreateRequest{Ahead: 1})
		b.wantSteps(p, "recreate "+b.table(0))
		if want := b.month.End(b.zone); !p.Steps[0].RaisesHorizon.Equal(want) {
			b.Errorf("raises the horizon to %s, want %s", p.Steps[0].RaisesHorizon, want)
		}

		// The CREATE fails, since a view has taken the name; the horizon is raised all the same.
		b.sql("CREATE TABLE base LIKE " + b.table(1))
		b.sql("CREATE VIEW " + b.table(0) + " AS SELECT * FROM base")
		_, err = b.manager.Create(b.Context(), p)
		if _, ok := errors.AsType[*partition.UnsafeTableError](err); !ok {
			b.Fatalf("error %v, want an UnsafeTableError: a view is not a table", err)
		}
		cat := b.catalog()
		if h, _ := cat.Horizon("COUPON"); !h.Equal(b.month.End(b.zone)) {
			b.Fatalf("horizon %s, want %s before the table is there", h, b.month.End(b.zone))
		}
		b.sql("DROP VIEW " + b.table(0))
		rep, err := b.manager.Create(b.Context(), p)
		b.must(err)
		b.same(rep.Created, []string{b.table(0)})
		if cat := b.catalog(); len(cat.Tables) != 3 || !cat.LostUntil.Equal(b.month.End(b.zone)) {
			b.Errorf("the catalog: %+v", cat)
		}

		// The operator knows that nothing was in it.
		b.sql("DROP TABLE " + b.table(1))
		vouched := b.plan(partition.CreateRequest{Ahead: 1, MemorySince: b.now.AddDate(-1, 0, 0)})
		b.wantSteps(vouched, "recreate "+b.table(1))
		if !vouched.Steps[0].RaisesHorizon.IsZero() {
			b.Errorf("vouched for, and raises the horizon to %s", vouched.Steps[0].RaisesHorizon)
		}
	})
}

// A table that another run has made since the plan, and that is gone again, is not made as if it were new.
func TestConformanceGoneSincePlan(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		b.create(partition.CreateRequest{})
		old := b.plan(partition.CreateRequest{Ahead: 1})
		b.create(partition.CreateRequest{Ahead: 1})
		b.sql("DROP TABLE " + b.table(1))
		if _, err := b.manager.Create(b.Context(), old); !errors.Is(err, partition.ErrPlanStale) {
			b.Errorf("error %v, want ErrPlanStale", err)
		}
		if b.exists(b.table(1)) {
			b.Error("the table was made again and the horizon is where it was")
		}
	})
}

// A plan is refused once a table of it is on its way out.
func TestConformancePlanStale(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		b.create(partition.CreateRequest{From: b.month - 1, MemorySince: b.now.AddDate(-1, 0, 0)})
		b.sql("DROP TABLE " + b.table(-1))
		p := b.plan(partition.CreateRequest{})
		b.wantSteps(p, "recreate "+b.table(-1))
		b.change(func(c *partition.Catalog) {
			c.Tables[0].State, c.Tables[0].Also = partition.Moving, "held_copy"
		})
		if _, err := b.manager.Create(b.Context(), p); !errors.Is(err, partition.ErrPlanStale) {
			b.Errorf("error %v, want ErrPlanStale", err)
		}
		if b.exists(b.table(-1)) {
			b.Error("a table was made that is about to be renamed")
		}
		if p := b.plan(partition.CreateRequest{}); !p.Empty() {
			b.Errorf("a moving table is planned for: %+v", p)
		}
	})
}

// A table that could not decide about duplicates is not listed, whoever made it (invariant 5).
func TestConformanceUnsafeTableIsNotListed(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		b.create(partition.CreateRequest{})
		for name, change := range map[string]string{
			"lossy engine":       "ENGINE=MyISAM",
			"another unique key": "ADD UNIQUE KEY other (create_time)",
			"prefix key":         "DROP PRIMARY KEY, ADD PRIMARY KEY (order_id(8), biz_type)",
			"order of the key":   "DROP PRIMARY KEY, ADD PRIMARY KEY (biz_type, order_id)",
			"lax collation":      "MODIFY order_id VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL",
			"exact collation":    "MODIFY order_id VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL", // merges trailing spaces
			"narrow biz_type":    "MODIFY biz_type VARBINARY(8) NOT NULL",
			"whole seconds":      "MODIFY create_time DATETIME NOT NULL",
			"missing column":     "DROP COLUMN claim_id",
			"trigger":            "",
		} {
			table := b.table(1)
			b.sql("CREATE TABLE " + table + " LIKE " + b.table(0))
			if change != "" {
				b.sql("ALTER TABLE " + table + " " + change)
			} else {
				b.sql("CREATE TRIGGER watch BEFORE INSERT ON " + table + " FOR EACH ROW SET NEW.src_offset = 1")
			}
			_, err := b.manager.Create(b.Context(), b.plan(partition.CreateRequest{Ahead: 1}))
			var unsafe *partition.UnsafeTableError
			if !errors.As(err, &unsafe) || unsafe.Table != table || len(unsafe.Reasons) == 0 || !strings.Contains(err.Error(), table) {
				b.Errorf("%s: error %v, want an UnsafeTableError for %s", name, err, table)
			}
			if cat := b.catalog(); len(cat.Tables) != 1 {
				b.Errorf("%s: listed: %+v", name, cat.Tables)
			}
			b.sql("DROP TABLE " + table)
		}
	})
}

// Two runs at once: each succeeds, or says that the other holds the lock (hazard P11); the tables are made once.
func TestConformanceTwoRuns(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		p := b.plan(partition.CreateRequest{Ahead: 3}) // a new ledger: both plan the same
		var mu sync.Mutex
		var wg sync.WaitGroup
		made, won := 0, 0
		for range 4 {
			wg.Go(func() {
				rep, err := b.manager.Create(b.Context(), p)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					won++
					made += len(rep.Created)
				case !errors.Is(err, mysqlx.ErrLockHeld):
					b.Errorf("error %v, want none or ErrLockHeld", err)
				}
			})
		}
		wg.Wait()
		cat := b.catalog()
		if won == 0 || made != 4 || len(cat.Tables) != 4 {
			b.Errorf("%d runs succeeded, %d tables made, %d listed; want at least 1, and 4 and 4", won, made, len(cat.Tables))
		}
	})
}

// Who holds the lock of purge and restore holds it against creation too, and only in this schema.
func TestConformanceLockIsShared(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		lock, err := mysqlx.Acquire(b.Context(), b.DB, mysqlx.LockName("months", b.schema, prefix), 0)
		b.must(err)
		if _, err := b.manager.Create(b.Context(), b.plan(partition.CreateRequest{})); !errors.Is(err, mysqlx.ErrLockHeld) {
			b.Errorf("error %v, want ErrLockHeld", err)
		}
		if b.exists(b.table(0)) || b.exists(partition.ControlTable) {
			b.Error("a run without the lock has made something")
		}
		b.must(lock.Release(b.Context()))
		b.create(partition.CreateRequest{})
	})
}
