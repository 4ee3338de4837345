package ledgertest

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/partition"
)

// A new ledger remembers nothing from before its first claim, unless the operator vouches for it.
func newLedger(t *testing.T, mk bench, do Do) {
	base := mk(t)
	ledgers := map[string]struct {
		request time.Time // --memory-since at creation
		handler time.Time // memory_since of the handler
		want    ledger.Outcome
	}{
		"fresh":               {want: ledger.OutsideHorizon},
		"vouched at creation": {request: base.Now.AddDate(0, -2, 0), want: ledger.Executed},
		"vouched by handler":  {handler: base.Now.AddDate(0, -2, 0), want: ledger.Executed},
	}
	i := 0
	for name, l := range ledgers {
		i++
		prefix := "t_new_" + string(rune('a'+i))
		scheme, err := partition.NewScheme(prefix)
		base.must(err)
		w := base.withScheme(scheme)
		// The current month only, and yesterday may be in the previous one: make it too, so that only memory decides.
		w.CreateMonths(partition.CreateRequest{From: w.Month, MemorySince: l.request})
		m := w.Message(name)
		m.Time = later(w.Now.Add(-24*time.Hour), w.Month.Start(w.Zone))
		if !m.Time.Before(w.Now.Add(-6 * time.Minute)) {
			t.Skip("the month is younger than the horizon's slack")
		}
		g := w.Guard(func(o *ledger.GuardOptions) { o.MemorySince = l.handler })
		res, err := do(t.Context(), g, m, w.Grant(m))
		w.Want(l.want, res, err)
		if l.want != ledger.OutsideHorizon {
			continue
		}
		if w.Coupons(m) != 0 {
			t.Error("executed outside the horizon")
		}
		run := w.Guard(func(o *ledger.GuardOptions) { o.BeyondHorizon = ledger.Run })
		res, err = do(t.Context(), run, m, w.Grant(m))
		w.Want(ledger.Executed, res, err)
		w.Forget(m)
		res, err = do(t.Context(), g, m, w.Grant(m)) // an existing row decides before the horizon is asked
		w.Want(ledger.AbsorbedLedger, res, err)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// withScheme is the same bench with a ledger of another prefix.
func (w *Workbench) withScheme(s partition.Scheme) *Workbench {
	return &Workbench{
		T: w.T, Schema: w.Schema, Space: w.Space, Scheme: s, Manager: partition.NewManager(w.Schema.DB, s, w.Zone), Template: w.Template,
		Zone: w.Zone, Now: w.Now, Month: w.Month, Lease: w.Lease, Redis: w.Redis,
	}
}

func missingMonth(t *testing.T, mk bench, do Do) {
	w := mk(t)
	g := w.Guard()
	next := w.NewMessage()
	next.Time = (w.Month + 3).Start(w.Zone)
	_, err := do(t.Context(), g, next, w.Grant(next))
	if !errors.Is(err, ledger.ErrMonthMissing) {
		t.Fatalf("a month within a year: %v, want ErrMonthMissing", err)
	}
	w.Nothing(next)
	if w.Marker(next) != "" {
		t.Error("the lease was not released")
	}
	far := w.NewMessage()
	far.Time = w.Now.AddDate(3, 0, 0)
	res, err := do(t.Context(), g, far, w.Grant(far))
	w.Want(ledger.Invalid, res, err)
	past := w.NewMessage()
	past.Time = w.Now.AddDate(-2, 0, 0)
	res, err = do(t.Context(), g, past, w.Grant(past))
	w.Want(ledger.OutsideHorizon, res, err)

	// A month that the catalog lists, and someone has dropped.
	w.SQL("DROP TABLE " + w.Scheme.Table(w.Month))
	m := w.NewMessage()
	if _, err = do(t.Context(), g, m, w.Grant(m)); !errors.Is(err, ledger.ErrMonthMissing) {
		t.Fatalf("a dropped month: %v, want ErrMonthMissing", err)
	}
	if w.Coupons(m) != 0 {
		t.Error("the effect ran without a ledger row")
	}
	// Made again, empty: what it held is forgotten, so nothing of that month may run.
	w.CreateMonths(partition.CreateRequest{Ahead: 1})
	res, err = do(t.Context(), g, m, w.Grant(m))
	w.Want(ledger.OutsideHorizon, res, err)
	w.Nothing(m)
}

func catalogGone(t *testing.T, mk bench, do Do) {
	w := mk(t)
	g := w.Guard()
	first := w.NewMessage()
	res, err := do(t.Context(), g, first, w.Grant(first))
	w.Want(ledger.Executed, res, err)
	w.SQL("DELETE FROM " + partition.ControlTable)
	m := w.NewMessage()
	if _, err := do(t.Context(), g, m, w.Grant(m)); !errors.Is(err, partition.ErrNoCatalog) {
		t.Fatalf("error %v, want ErrNoCatalog", err)
	}
	w.Nothing(m)
	if _, err := w.OpenGuard(); !errors.Is(err, partition.ErrNoCatalog) {
		t.Fatalf("opening: %v, want ErrNoCatalog", err)
	}
}

func unsafeTables(t *testing.T, mk bench, _ Do) {
	for name, change := range map[string]string{
		"another unique key": "ADD UNIQUE KEY other (create_time)",
		"prefix key":         "DROP PRIMARY KEY, ADD PRIMARY KEY (order_id(8), biz_type)",
		"shorter key":        "MODIFY order_id VARBINARY(64) NOT NULL",
		"lax collation":      "MODIFY order_id VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL",
		"lossy engine":       "ENGINE=MyISAM",
		"half a key":         "DROP PRIMARY KEY, ADD PRIMARY KEY (order_id)",
		"trigger":            "",
	} {
		t.Run(name, func(t *testing.T) {
			w := mk(t)
			table := w.Scheme.Table(w.Month)
			if change != "" {
				w.SQL("ALTER TABLE " + table + " " + change)
			} else {
				w.SQL("CREATE TRIGGER watch BEFORE INSERT ON " + table + " FOR EACH ROW SET NEW.src_offset = 1")
			}
			_, err := w.OpenGuard()
			var unsafe *partition.UnsafeTableError
			if !errors.As(err, &unsafe) || unsafe.Table != table {
				t.Fatalf("error %v, want an UnsafeTableError for %s", err, table)
			}
		})
	}
}

// hazard G7, invariant 5: a unique key that was added behind the guard's back raises 1062 for a key that is not there.
func foreignUniqueKey(t *testing.T, mk bench, do Do) {
	w := mk(t)
	g := w.Guard()
	first, second := w.NewMessage(), w.NewMessage()
	first.Fingerprint = bytes.Repeat([]byte{7}, 16)
	second.Fingerprint = first.Fingerprint
	res, err := do(t.Context(), g, first, w.Grant(first))
	w.Want(ledger.Executed, res, err)
	w.SQL("ALTER TABLE " + w.Scheme.Table(w.Month) + " ADD UNIQUE KEY lax (fingerprint)")
	res, err = do(t.Context(), g, second, w.Grant(second))
	if res.Outcome != ledger.Failed || !errors.Is(err, ledger.ErrNotDuplicate) {
		t.Fatalf("outcome %s, error %v; want failed with ErrNotDuplicate", res.Outcome, err)
	}
	w.Nothing(second)
}

// hazard G19, hazard G24: a guard that does not know a month yet in which the key was claimed.
func staleMonths(t *testing.T, mk bench, do Do) {
	w := mk(t)
	far := w.Month + 2
	m := w.NewMessage()
	republished := m
	republished.Time = far.Start(w.Zone).Add(time.Hour)
	claimed := false
	newer := func() {
		if !claimed {
			claimed = true
			w.CreateMonths(partition.CreateRequest{Ahead: 2})
			g := w.Guard(func(o *ledger.GuardOptions) { o.Filter = nil })
			res, err := do(t.Context(), g, republished, w.Grant(m))
			w.Want(ledger.Executed, res, err)
		}
	}
	stale := w.Guard(func(o *ledger.GuardOptions) {
		o.OnStep = func(_ context.Context, s ledger.Step, _ ledger.Message) {
			if s == ledger.StepLeased {
				newer()
			}
		}
	})
	res, err := do(t.Context(), stale, m, w.Grant(m))
	w.Want(ledger.AbsorbedLedger, res, err)
	w.ExactlyOnce(m)

	// A catalog that changes after the look: the whole transaction again.
	other := w.NewMessage()
	raised := false
	again := w.Guard(func(o *ledger.GuardOptions) {
		o.OnStep = func(_ context.Context, s ledger.Step, _ ledger.Message) {
			if s == ledger.StepProbed && !raised {
				raised = true
				w.Catalog(func(*partition.Catalog) {})
			}
		}
	})
	res, err = do(t.Context(), again, other, w.Grant(other))
	w.Want(ledger.Executed, res, err)
	if res.Attempts != 2 {
		t.Errorf("%d transactions, want 2: the catalog had changed", res.Attempts)
	}
	w.ExactlyOnce(other)
}

// A horizon raised between any two of a claim's steps is seen, up to the last look at the catalog.
func horizonRaised(t *testing.T, mk bench, do Do) {
	for _, at := range []ledger.Step{ledger.StepStart, ledger.StepLeased, ledger.StepInserted, ledger.StepProbed} {
		t.Run(string(at), func(t *testing.T) {
			w := mk(t)
			m := w.NewMessage()
			g := w.Guard(func(o *ledger.GuardOptions) {
				o.OnStep = func(_ context.Context, s ledger.Step, _ ledger.Message) {
					if s == at {
						w.Catalog(func(c *partition.Catalog) {
							mem := c.Biz[Biz]
							mem.Purged = w.Now.Add(time.Hour)
							c.Biz[Biz] = mem
						})
					}
				}
			})
			res, err := do(t.Context(), g, m, w.Grant(m))
			w.Want(ledger.OutsideHorizon, res, err)
			w.Nothing(m)
			if w.Marker(m) != "" {
				t.Error("the lease was not released")
			}
		})
	}
}

// hazard G25: a month that is renamed, or waits to be dropped, still decides.
func heldMonths(t *testing.T, mk bench, do Do) {
	for name, entry := range map[string]partition.Table{
		"held":                  {State: partition.Held},
		"moving, before rename": {State: partition.Moving, Also: "not_yet"},
		"moving, after rename":  {State: partition.Moving, Also: "held_copy"},
	} {
		t.Run(name, func(t *testing.T) {
			w := mk(t)
			g := w.Guard()
			previous := w.Month - 1
			m := w.NewMessage()
			m.Time = previous.Start(w.Zone).Add(time.Hour)
			res, err := do(t.Context(), g, m, w.Grant(m))
			w.Want(ledger.Executed, res, err)
			table := w.Scheme.Table(previous)
			listed := table
			switch {
			case entry.State == partition.Held:
				listed = "held_copy"
				w.SQL("RENAME TABLE " + table + " TO held_copy")
			case entry.Also == "held_copy":
				w.SQL("RENAME TABLE " + table + " TO held_copy")
			}
			w.Catalog(func(c *partition.Catalog) {
				for i := range c.Tables {
					if c.Tables[i].Month == previous {
						c.Tables[i] = partition.Table{Month: previous, Name: listed, State: entry.State, Also: entry.Also}
					}
				}
			})
			w.Forget(m)
			republished := m
			republished.Time = w.Now
			res, err = do(t.Context(), g, republished, w.Grant(m))
			w.Want(ledger.AbsorbedLedger, res, err)
			if n := w.Coupons(m); n != 1 {
				t.Errorf("%d coupons, want 1", n)
			}
			late := w.NewMessage() // such a month is nobody's home
			late.Time = previous.Start(w.Zone).Add(time.Hour)
			if _, err := do(t.Context(), g, late, w.Grant(late)); !errors.Is(err, ledger.ErrMonthMissing) {
				t.Errorf("a late claim: %v, want ErrMonthMissing", err)
			}
			if w.Coupons(late) != 0 {
				t.Error("a late claim ran in a month that is going away")
			}
		})
	}
}

func otherZone(t *testing.T, mk bench, _ Do) {
	w := mk(t)
	shanghai, err := time.LoadLocation("Asia/Shanghai")
	w.must(err)
	if _, err := w.OpenGuard(func(o *ledger.GuardOptions) { o.Zone = shanghai }); !errors.Is(err, ledger.ErrTimeZone) {
		t.Fatalf("error %v, want ErrTimeZone", err)
	}
}
