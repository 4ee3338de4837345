package partition_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/partition"
)

func TestConformanceCreate(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		req := partition.CreateRequest{Ahead: 2}
		p := b.plan(req)
		if !p.NewLedger || p.Empty() || p.TimeZone != "UTC" || p.Present != 0 {
			b.Errorf("the plan of a new ledger: %+v", p)
		}
		b.wantSteps(p, "create "+b.table(0), "create "+b.table(1), "create "+b.table(2))
		for _, s := range p.Steps {
			if !s.RaisesHorizon.IsZero() {
				b.Errorf("%s raises the horizon to %s", s.Table, s.RaisesHorizon)
			}
		}
		if b.exists(b.table(0)) || b.exists(partition.ControlTable) {
			b.Fatal("a plan has changed something")
		}
		rep, err := b.manager.Create(b.Context(), p)
		b.must(err)
		b.same(rep.Created, []string{b.table(0), b.table(1), b.table(2)})
		b.same(rep.Listed, nil)
		cat := b.catalog()
		if rep.Generation != cat.Generation {
			b.Errorf("reported generation %d, the catalog has %d", rep.Generation, cat.Generation)
		}
		for i, tbl := range cat.Tables {
			want := partition.Table{Month: b.month + partition.Month(i), Name: b.table(i), State: partition.Live}
			if tbl != want {
				b.Errorf("listed %+v, want %+v", tbl, want)
			}
		}
		found, err := partition.VerifyTables(b.Context(), b.DB, []string{b.table(0), b.table(1), b.table(2), b.table(3)})
		if err != nil || len(found) != 3 {
			b.Errorf("what was made is not what a guard wants: %v, %v", found, err)
		}

		// Again: there is nothing to do, and running the old plan once more does nothing.
		again := b.plan(req)
		if !again.Empty() || again.Present != 3 || again.NewLedger {
			b.Errorf("the second plan: %+v", again)
		}
		for _, old := range []partition.CreatePlan{again, p} {
			rep, err := b.manager.Create(b.Context(), old)
			b.must(err)
			b.same(rep.Created, nil)
			after := b.catalog()
			if rep.Generation != after.Generation || after.Generation != cat.Generation || after.LedgerID != cat.LedgerID || len(after.Tables) != 3 {
				b.Errorf("a second run changed the catalog: %+v", after)
			}
		}
	})
}

// hazard P2: holes between existing months are filled, and so are months that no run has made in time.
func TestConformanceHoles(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		b.create(partition.CreateRequest{From: b.month - 4, MemorySince: b.now.AddDate(-1, 0, 0)})
		b.change(func(c *partition.Catalog) { c.Tables = append(c.Tables[:1], c.Tables[3:]...) }) // the two after the oldest
		b.sql("DROP TABLE " + b.table(-3) + ", " + b.table(-2))
		p := b.plan(partition.CreateRequest{Ahead: 1})
		b.wantSteps(p, "create "+b.table(-3), "create "+b.table(-2), "create "+b.table(1))
		if p.Present != 3 {
			b.Errorf("%d present, want 3", p.Present)
		}
		// Made later than they should have been: what they would have held is not known.
		for i, want := range []time.Time{(b.month - 3).End(b.zone), (b.month - 2).End(b.zone), {}} {
			if got := p.Steps[i].RaisesHorizon; !got.Equal(want) {
				b.Errorf("%s raises the horizon to %s, want %s", p.Steps[i].Table, got, want)
			}
		}
		_, err := b.manager.Create(b.Context(), p)
		b.must(err)
		cat := b.catalog()
		for i, tbl := range cat.Tables {
			if tbl.Name != b.table(i-4) {
				b.Errorf("listed %s at place %d, want %s", tbl.Name, i, b.table(i-4))
			}
		}
		if want := (b.month - 2).End(b.zone); len(cat.Tables) != 6 || !cat.LostUntil.Equal(want) {
			b.Errorf("%d tables, lost until %s; want 6 and %s", len(cat.Tables), cat.LostUntil, want)
		}
	})
}

// hazard P2: neither a mistyped --from nor --ahead makes a thousand tables.
func TestConformanceCap(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		for _, req := range []partition.CreateRequest{
			{From: month(b, "2000-01")}, {From: 1}, {Ahead: partition.MaxTables}, {From: b.month - partition.MaxTables},
		} {
			if _, err := b.manager.PlanCreate(b.Context(), req); !errors.Is(err, partition.ErrTooManyTables) {
				b.Errorf("%+v: %v, want ErrTooManyTables", req, err)
			}
		}
		for _, ahead := range []int{-1, 1500, math.MaxInt} {
			if _, err := b.manager.PlanCreate(b.Context(), partition.CreateRequest{Ahead: ahead}); err == nil {
				b.Errorf("%d months ahead are planned", ahead)
			}
		}
		if n := len(b.plan(partition.CreateRequest{Ahead: partition.MaxTables - 1}).Steps); n != partition.MaxTables {
			b.Errorf("%d steps, want the %d that are allowed", n, partition.MaxTables)
		}
		// A table far off does not pull all the months up to it.
		b.create(partition.CreateRequest{})
		b.sql("CREATE TABLE " + prefix + "_209701 LIKE " + b.table(0))
		b.wantSteps(b.plan(partition.CreateRequest{Ahead: 1}), "create "+b.table(1), "list "+prefix+"_209701")
	})
}

// hazard P1: the current month is that of the ledger's zone, and after December comes January.
func TestConformanceZone(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		// Two zones 26 hours apart are in different months at least at the turn of one, and each is asked by its own clock.
		for name, zone := range map[string]*time.Location{"t_east": time.FixedZone("east", 14*3600), "t_west": time.FixedZone("west", -12*3600)} {
			m := partition.NewManager(b.DB, scheme(b, name), zone)
			p, err := m.PlanCreate(b.Context(), partition.CreateRequest{Ahead: 13})
			b.must(err)
			current := partition.MonthOf(p.Now, zone)
			for i, s := range p.Steps {
				if s.Month != current+partition.Month(i) {
					b.Errorf("%s: step %d is %s, want %s", name, i, s.Month, current+partition.Month(i))
				}
			}
			year, _ := current.Date()
			if want := scheme(b, name).Table(partition.NewMonth(year+1, time.January)); !hasTable(p, want) {
				b.Errorf("%s: over a year's months there is no %s", name, want)
			}
			// The end of a past month is the zone's.
			past, err := m.PlanCreate(b.Context(), partition.CreateRequest{From: current - 1})
			b.must(err)
			if got, want := past.Steps[0].RaisesHorizon, current.Start(zone); !got.Equal(want) {
				b.Errorf("%s: the past month ends %s, want %s", name, got, want)
			}
		}
		b.create(partition.CreateRequest{})
		other := partition.NewManager(b.DB, b.scheme, location(b, "Asia/Shanghai"))
		if _, err := other.PlanCreate(b.Context(), partition.CreateRequest{}); !errors.Is(err, partition.ErrTimeZone) {
			b.Errorf("a plan in another zone: %v, want ErrTimeZone", err)
		}
		// A plan of a new ledger, made before the other zone's ledger was there.
		before := partition.CreatePlan{Now: b.now, TimeZone: "Asia/Shanghai", NewLedger: true, Steps: b.plan(partition.CreateRequest{Ahead: 1}).Steps}
		if _, err := other.Create(b.Context(), before); !errors.Is(err, partition.ErrTimeZone) {
			b.Errorf("a creation in another zone: %v, want ErrTimeZone", err)
		}
		if b.exists(b.table(1)) {
			b.Error("a refused run has made a table")
		}
	})
}

func hasTable(p partition.CreatePlan, table string) bool {
	for _, s := range p.Steps {
		if s.Table == table {
			return true
		}
	}
	return false
}

func TestConformanceVouchFuture(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		req := partition.CreateRequest{MemorySince: b.now.Add(time.Hour)}
		if _, err := b.manager.PlanCreate(b.Context(), req); !errors.Is(err, partition.ErrVouchFuture) {
			b.Errorf("error %v, want ErrVouchFuture", err)
		}
	})
}

// A month of the past that is made now, or found, may have held entries that nobody knows of.
func TestConformancePastMonths(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		end := (b.month - 1).End(b.zone)
		from := b.month - 2
		for name, c := range map[string]struct {
			since time.Time
			biz   []string
			want  time.Time
		}{
			"t_nobody":         {want: end},
			"t_vouched":        {since: from.Start(b.zone), want: time.Time{}},
			"t_vouched_partly": {since: (b.month - 1).Start(b.zone), want: (b.month - 2).End(b.zone)},
			"t_a_bit_late":     {since: (b.month - 1).Start(b.zone).Add(time.Millisecond), want: end},
			"t_for_some":       {since: from.Start(b.zone), biz: []string{"COUPON"}, want: end},
		} {
			s := scheme(b, name)
			m := partition.NewManager(b.DB, s, b.zone)
			p, err := m.PlanCreate(b.Context(), partition.CreateRequest{From: from, MemorySince: c.since, BizTypes: c.biz})
			b.must(err)
			_, err = m.Create(b.Context(), p)
			b.must(err)
			cat, err := partition.LoadCatalog(b.Context(), b.DB, s)
			b.must(err)
			if !cat.LostUntil.Equal(c.want) {
				b.Errorf("%s: lost until %s, want %s", name, cat.LostUntil, c.want)
			}
			if h := cat.FirstHorizon("SHIPMENT", b.now, time.Time{}); name == "t_for_some" && h.Before(end) {
				b.Errorf("a word for COUPON lowers the horizon of SHIPMENT to %s", h)
			}
		}
	})
}

// What the operator vouches for is written down, also where no table is to be made.
func TestConformanceVouch(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		b.create(partition.CreateRequest{})
		_, err := partition.Register(b.Context(), b.DB, b.scheme, "COUPON", time.Time{})
		b.must(err)
		since := b.now.AddDate(0, -1, 0)
		p := b.plan(partition.CreateRequest{MemorySince: since})
		if p.Empty() || len(p.Steps) != 0 {
			b.Errorf("the plan of a word alone: %+v", p)
		}
		_, err = b.manager.Create(b.Context(), p)
		b.must(err)
		cat := b.catalog()
		if !cat.VouchedSince.Equal(since) {
			b.Errorf("vouched since %s, want %s", cat.VouchedSince, since)
		}
		if h, _ := cat.Horizon("COUPON"); !h.After(since) {
			b.Errorf("COUPON has claimed already; its horizon became %s", h)
		}
		b.create(partition.CreateRequest{MemorySince: since, BizTypes: []string{"COUPON", "NEW"}})
		cat = b.catalog()
		for _, biz := range []string{"COUPON", "NEW"} {
			if h, _ := cat.Horizon(biz); !h.Equal(since) {
				b.Errorf("horizon of %s is %s, want %s", biz, h, since)
			}
		}
		generation := cat.Generation
		b.create(partition.CreateRequest{MemorySince: since, BizTypes: []string{"COUPON", "NEW"}})
		b.create(partition.CreateRequest{MemorySince: since})
		if cat := b.catalog(); cat.Generation != generation {
			b.Errorf("the same word again raised the generation from %d to %d", generation, cat.Generation)
		}
	})
}

// Look-alikes are not months; they are neither listed nor counted (hazard P4).
func TestConformanceLookAlikes(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		b.create(partition.CreateRequest{})
		for _, name := range []string{
			prefix + "_202604_bak", prefix + "_202613", prefix + "2_202601", "tXidempotentXflow_202601", prefix + "_2026011", prefix + "_20260a",
		} {
			b.sql("CREATE TABLE `" + name + "` (a INT PRIMARY KEY) ENGINE=InnoDB")
		}
		if p := b.plan(partition.CreateRequest{}); !p.Empty() || p.Present != 1 {
			b.Errorf("the plan: %+v", p)
		}
		l, err := b.manager.List(b.Context(), partition.ListRequest{})
		b.must(err)
		if len(l.Tables) != 1 {
			b.Errorf("listed: %+v", l.Tables)
		}
	})
}

// Statements that would wait for ever give up (hazard P9).
func TestConformanceBlockedCreate(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		b.create(partition.CreateRequest{})
		p := b.plan(partition.CreateRequest{Ahead: 1})
		other, err := b.DB.Conn(b.Context())
		b.must(err)
		defer other.Close()
		var id int64
		b.must(other.QueryRowContext(b.Context(), "SELECT CONNECTION_ID()").Scan(&id))
		blocked := make(chan error, 1)
		go func() { // makes the very table, and holds its name while it sleeps
			_, err := other.ExecContext(b.Context(), "CREATE TABLE "+b.table(1)+" ENGINE=InnoDB AS SELECT SLEEP(600) AS a")
			blocked <- err
		}()
		for b.count("SELECT COUNT(*) FROM information_schema.processlist WHERE id = ? AND state LIKE 'User sleep%'", id) == 0 {
			if b.Context().Err() != nil {
				b.Fatal("the other connection does not sleep")
			}
		}
		_, err = b.manager.Create(b.Context(), p)
		if mysqlx.Number(err) != mysqlx.ErrLockWaitTimeout {
			b.Errorf("error %v, want the server's lock wait timeout", err)
		}
		b.sql("KILL CONNECTION " + itoa(id))
		if err := <-blocked; err == nil {
			b.Error("the other connection was not blocking")
		}
		b.sql("DROP TABLE IF EXISTS " + b.table(1)) // a server may keep what an interrupted sleep has returned
		if cat := b.catalog(); len(cat.Tables) != 1 {
			b.Errorf("a table that could not be made is listed: %+v", cat.Tables)
		}
		rep := b.create(partition.CreateRequest{Ahead: 1}) // the lock was given back
		b.same(rep.Created, []string{b.table(1)})
	})
}
