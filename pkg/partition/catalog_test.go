package partition_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idemctl/idemctl/pkg/partition"
)

// The horizon of a biz_type is the latest of all that bounds the ledger's memory of it.
func TestHorizon(t *testing.T) {
	t.Parallel()
	day := func(d int) time.Time { return time.Date(2026, 11, d, 0, 0, 0, 0, time.UTC) }
	for name, c := range map[string]struct {
		memory partition.Memory
		lost   time.Time
		want   time.Time
		ok     bool
	}{
		"never claimed":               {},
		"never claimed, though lost":  {lost: day(9)},
		"never claimed, yet purged":   {memory: partition.Memory{Purged: day(5)}},
		"since":                       {memory: partition.Memory{Since: day(3)}, want: day(3), ok: true},
		"purged since":                {memory: partition.Memory{Since: day(3), Purged: day(5)}, want: day(5), ok: true},
		"purged what came before":     {memory: partition.Memory{Since: day(3), Purged: day(2)}, want: day(3), ok: true},
		"a month lost":                {memory: partition.Memory{Since: day(3), Purged: day(5)}, lost: day(9), want: day(9), ok: true},
		"a month lost before it":      {memory: partition.Memory{Since: day(3)}, lost: day(1), want: day(3), ok: true},
		"vouched for before the loss": {memory: partition.Memory{Since: day(3), Purged: day(8)}, lost: day(7), want: day(8), ok: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cat := partition.Catalog{LostUntil: c.lost, Biz: map[string]partition.Memory{"COUPON": c.memory}}
			if got, ok := cat.Horizon("COUPON"); ok != c.ok || !got.Equal(c.want) {
				t.Errorf("horizon %s, %v; want %s, %v", got, ok, c.want, c.ok)
			}
			if got, ok := cat.Horizon("SHIPMENT"); ok {
				t.Errorf("a biz_type that never claimed has the horizon %s", got)
			}
		})
	}
}

// Whoever vouches for the earliest time is believed, never for the future, and never below what was purged or lost.
func TestFirstHorizon(t *testing.T) {
	t.Parallel()
	day := func(d int) time.Time { return time.Date(2026, 11, d, 0, 0, 0, 0, time.UTC) }
	now := day(20)
	for name, c := range map[string]struct {
		cat   partition.Catalog
		since time.Time
		want  time.Time
	}{
		"nobody vouches":               {want: now},
		"the catalog vouches":          {cat: partition.Catalog{VouchedSince: day(4)}, want: day(4)},
		"the handler vouches":          {since: day(6), want: day(6)},
		"both, the earlier holds":      {cat: partition.Catalog{VouchedSince: day(4)}, since: day(6), want: day(4)},
		"both, the other way round":    {cat: partition.Catalog{VouchedSince: day(6)}, since: day(4), want: day(4)},
		"the future is not vouched":    {since: day(25), want: now},
		"lost all the same":            {cat: partition.Catalog{LostUntil: day(9)}, since: day(4), want: day(9)},
		"purged all the same":          {cat: partition.Catalog{Biz: map[string]partition.Memory{"COUPON": {Purged: day(11)}}}, since: day(4), want: day(11)},
		"milliseconds are cut, not up": {since: day(4).Add(999 * time.Microsecond), want: day(4)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := c.cat.FirstHorizon("COUPON", now, c.since); !got.Equal(c.want) {
				t.Errorf("horizon %s, want %s", got, c.want)
			}
		})
	}
}

// A held or moving table is nobody's home.
func TestHome(t *testing.T) {
	t.Parallel()
	m := month(t, "2026-11")
	for state, want := range map[partition.State]bool{partition.Live: true, partition.Held: false, partition.Moving: false} {
		cat := partition.Catalog{Tables: []partition.Table{{Month: m, Name: "t", State: state}}}
		if _, ok := cat.Home(m); ok != want {
			t.Errorf("%s: home %v, want %v", state, ok, want)
		}
		if _, ok := cat.Home(m + 1); ok {
			t.Error("a month that is not listed has a home")
		}
	}
}

func TestConformanceNoCatalog(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		load := func(what string) {
			b.Helper()
			if _, err := partition.LoadCatalog(b.Context(), b.DB, b.scheme); !errors.Is(err, partition.ErrNoCatalog) || !strings.Contains(err.Error(), prefix) {
				b.Errorf("%s: %v, want ErrNoCatalog that names the prefix", what, err)
			}
		}
		load("no control table")
		b.create(partition.CreateRequest{})
		b.sql("UPDATE t_idempotent_control SET name = ?", []byte("t_other"))
		load("another ledger's row")
		_, err := partition.UpdateCatalog(b.Context(), b.DB, b.scheme, func(*partition.Catalog) (bool, error) { return true, nil })
		if !errors.Is(err, partition.ErrNoCatalog) {
			b.Errorf("update: %v, want ErrNoCatalog", err)
		}
		if _, err := partition.Register(b.Context(), b.DB, b.scheme, "COUPON", time.Time{}); !errors.Is(err, partition.ErrNoCatalog) {
			b.Errorf("register: %v, want ErrNoCatalog", err)
		}
		if _, err := b.manager.List(b.Context(), partition.ListRequest{}); !errors.Is(err, partition.ErrNoCatalog) {
			b.Errorf("list: %v, want ErrNoCatalog", err)
		}
	})
}

// What this program does not understand is an error, not an empty catalog.
func TestConformanceUnreadableCatalog(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		b.create(partition.CreateRequest{})
		for _, body := range []string{"", "{", `{"version":2,"tables":[]}`, `{"tables":[]}`, `{"version":1,"tables":[{"month":"202613","table":"x","state":"live"}]}`} {
			b.sql("UPDATE t_idempotent_control SET body = ?", []byte(body))
			if _, err := partition.LoadCatalog(b.Context(), b.DB, b.scheme); err == nil || errors.Is(err, partition.ErrNoCatalog) {
				b.Errorf("%s: error %v, want one that says it cannot be read", body, err)
			}
			if p, err := b.manager.PlanCreate(b.Context(), partition.CreateRequest{}); err == nil {
				b.Errorf("%s: planned %+v", body, p)
			}
		}
	})
}

// hazard G24: each change raises the generation in the statement that makes it, and none is lost to a race.
func TestConformanceCatalogRaces(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		b.create(partition.CreateRequest{})
		before := b.catalog()

		// Two read the same catalog before either writes: the second must try again on what the first has written.
		var read, done sync.WaitGroup
		read.Add(2)
		calls := map[string]int{}
		var mu sync.Mutex
		for _, biz := range []string{"COUPON", "SHIPMENT"} {
			done.Go(func() {
				_, err := partition.UpdateCatalog(b.Context(), b.DB, b.scheme, func(c *partition.Catalog) (bool, error) {
					mu.Lock()
					calls[biz]++
					first := calls[biz] == 1
					mu.Unlock()
					if first {
						read.Done()
						read.Wait()
					}
					c.Biz[biz] = partition.Memory{Since: b.now}
					return true, nil
				})
				if err != nil {
					b.Errorf("%s: %v", biz, err)
				}
			})
		}
		done.Wait()
		after := b.catalog()
		if len(after.Biz) != 2 || after.Generation != before.Generation+2 {
			b.Errorf("after two changes: %d biz_types, generation %d from %d", len(after.Biz), after.Generation, before.Generation)
		}
		if n := calls["COUPON"] + calls["SHIPMENT"]; n != 3 {
			b.Errorf("the changes were tried %d times, want 3", n)
		}

		// Someone who is always faster.
		_, err := partition.UpdateCatalog(b.Context(), b.DB, b.scheme, func(*partition.Catalog) (bool, error) {
			b.sql("UPDATE t_idempotent_control SET generation = generation + 1")
			return true, nil
		})
		if !errors.Is(err, partition.ErrCatalogChanged) {
			b.Errorf("error %v, want ErrCatalogChanged", err)
		}

		// A change that is none, or fails, leaves the row as it is.
		before = b.catalog()
		boom := errors.New("boom")
		for _, fail := range []error{nil, boom} {
			got, err := partition.UpdateCatalog(b.Context(), b.DB, b.scheme, func(c *partition.Catalog) (bool, error) {
				c.Biz["X"] = partition.Memory{Since: b.now}
				return fail != nil, fail
			})
			if !errors.Is(err, fail) {
				b.Errorf("error %v, want %v", err, fail)
			}
			if _, leaked := got.Biz["X"]; leaked || got.Generation != before.Generation {
				b.Errorf("the catalog returned has a change that was not made: %+v", got)
			}
		}
		if after := b.catalog(); after.Generation != before.Generation || len(after.Biz) != 2 {
			b.Errorf("the row has changed: %+v", after)
		}
	})
}

// Since when a ledger remembers is written down once, at the first claim.
func TestConformanceRegister(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		register := func(biz string, since time.Time) time.Time {
			b.Helper()
			_, err := partition.Register(b.Context(), b.DB, b.scheme, biz, since)
			b.must(err)
			cat := b.catalog()
			h, ok := cat.Horizon(biz)
			if !ok {
				b.Fatalf("%s is not registered: %+v", biz, cat.Biz)
			}
			return h
		}
		b.create(partition.CreateRequest{})
		if h := register("FIRST", time.Time{}); h.Before(b.now) {
			b.Errorf("the first claim remembers since %s, want the database's now, %s or later", h, b.now)
		}
		vouched := b.now.AddDate(0, -3, 0).Add(123456 * time.Nanosecond)
		if h := register("HANDLER", vouched); !h.Equal(vouched.Truncate(time.Millisecond)) {
			b.Errorf("vouched for %s, remembered since %s", vouched, h)
		}
		generation := b.catalog().Generation
		if h := register("HANDLER", b.now.AddDate(-1, 0, 0)); !h.Equal(vouched.Truncate(time.Millisecond)) {
			b.Errorf("a second claim changed it to %s", h)
		}
		if g := b.catalog().Generation; g != generation {
			b.Errorf("a second claim raised the generation from %d to %d", generation, g)
		}
		if h := register("FUTURE", b.now.AddDate(1, 0, 0)); h.After(b.now.AddDate(0, 6, 0)) {
			b.Errorf("a time in the future is believed: %s", h)
		}
		month := b.now.AddDate(0, -1, 0)
		b.create(partition.CreateRequest{MemorySince: month})
		if h := register("LATER", time.Time{}); !h.Equal(month) {
			b.Errorf("vouched for %s in the catalog, remembered since %s", month, h)
		}
		if h := register("FIRST", time.Time{}); h.Before(b.now) {
			b.Errorf("a word for those that have not claimed yet changed one that has: %s", h)
		}
	})
}

// Two claims of a new biz_type at once agree on one time.
func TestConformanceRegisterRace(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		b.create(partition.CreateRequest{})
		before := b.catalog().Generation
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if _, err := partition.Register(b.Context(), b.DB, b.scheme, "COUPON", time.Time{}); err != nil {
					b.Error(err)
				}
			})
		}
		wg.Wait()
		if g := b.catalog().Generation; g != before+1 {
			b.Errorf("eight first claims raised the generation by %d", g-before)
		}
	})
}

// Ledgers of different prefixes in one schema know nothing of each other.
func TestConformanceTwoLedgers(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		b.create(partition.CreateRequest{})
		other := scheme(b, prefix+"2")
		m := partition.NewManager(b.DB, other, time.UTC)
		p, err := m.PlanCreate(b.Context(), partition.CreateRequest{Ahead: 1})
		b.must(err)
		if !p.NewLedger || len(p.Steps) != 2 {
			b.Fatalf("the plan of another ledger: %+v", p)
		}
		_, err = m.Create(b.Context(), p)
		b.must(err)
		if cat := b.catalog(); len(cat.Tables) != 1 {
			b.Errorf("the first ledger lists %+v", cat.Tables)
		}
		second, err := partition.LoadCatalog(b.Context(), b.DB, other)
		b.must(err)
		if first := b.catalog(); first.LedgerID == second.LedgerID || len(first.LedgerID) != 16 {
			b.Errorf("ledger ids %q and %q", first.LedgerID, second.LedgerID)
		}
	})
}
