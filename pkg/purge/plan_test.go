package purge_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/partition"
	"github.com/idemctl/idemctl/pkg/purge"
)

// What is planned is what goes, and nothing else does.
func TestConformanceRowsAndDrop(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		b.insert(b.table(-3), expired("a", 2300)...)
		b.insert(b.table(-2), expired("b", 2500)...)
		b.insert(b.table(-2), live("b2", 40)...)
		b.insert(b.table(0), expired("c", 5)...)
		p := b.plan(purge.PlanOptions{})
		for n, want := range map[int]purge.Action{-3: purge.ActionDrop, -2: purge.ActionRows, -1: purge.ActionKeep, 0: purge.ActionRows, 1: purge.ActionKeep} {
			if got := planOf(p, b.table(n)).Action; got != want {
				b.Errorf("%s: %s, want %s", b.table(n), got, want)
			}
		}
		if p.Rows != 4805 || planOf(p, b.table(-2)).Kept != 40 {
			b.Errorf("plan: %+v", p)
		}
		rep := b.run(p, quick())
		if rep.Ended != purge.EndedDone || rep.Deleted != 2505 || rep.DroppedRows != 2300 || rep.Skipped != 0 {
			b.Errorf("report: %+v", rep)
		}
		b.same("the dropped month", b.ids(b.table(-3)), nil)
		b.same("dropped", rep.Dropped(), []string{b.table(-3)})
		b.same("live rows", b.ids(b.table(-2)), idsOf(live("b2", 40)))
		b.same("current month", b.ids(b.table(0)), []string{})
		b.settled()
		if again := b.plan(purge.PlanOptions{}); again.Rows != 0 {
			b.Errorf("a second plan: %+v", again)
		}
	})
}

// Windows are counted back from the cutoff; what lies empty between them, 25 years here, is jumped over. A row that expires
// at the cutoff itself has not expired before it.
func TestConformanceWindows(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		month := b.table(-2)
		b.insert(month,
			row{id: "old", created: -9000 * day, expire: -8990 * day},
			row{id: "edge", created: -61 * day, expire: -60 * day}, // the very beginning of the window before the last
			row{id: "before-edge", created: -61 * day, expire: -60*day - time.Millisecond},
			row{id: "last", created: -2 * day, expire: -time.Millisecond},
			row{id: "at-cutoff", created: -2 * day, expire: 0},
			row{id: "other-biz", biz: "SHIPMENT", created: -3 * day, expire: -time.Hour},
		)
		p := b.plan(purge.PlanOptions{Before: b.now})
		m := planOf(p, month)
		type slice struct {
			days int
			rows int64
		}
		var got []slice
		for _, w := range m.Windows {
			got = append(got, slice{days: int(p.Cutoff.Sub(w.From) / day), rows: w.Rows})
			if w.To.Sub(w.From) != 30*day {
				b.Errorf("window %+v", w)
			}
		}
		if want := []slice{{9000, 1}, {90, 1}, {60, 1}, {30, 2}}; !slices.Equal(got, want) {
			b.Errorf("windows %v, want %v", got, want)
		}
		last := m.Windows[len(m.Windows)-1].Biz
		if len(last) != 2 || last[0].BizType != "COUPON" || !last[0].MaxCreate.Equal(b.now.Add(-2*day)) ||
			last[1].BizType != "SHIPMENT" || last[1].Rows != 1 || !last[1].MaxCreate.Equal(b.now.Add(-3*day)) {
			b.Errorf("the last window: %+v", last)
		}
		if m.Kept != 1 || m.Action != purge.ActionRows {
			b.Errorf("kept %d, %s", m.Kept, m.Action)
		}
		rep := b.run(p, quick())
		for i, w := range monthOf(rep, month).Windows {
			if w.Deleted != w.Planned || w.Deleted != got[i].rows {
				b.Errorf("window %+v", w)
			}
		}
		b.same("left", b.ids(month), []string{"at-cutoff"})
		// Another size of the window.
		b.insert(month, expired("x", 3)...)
		if w := planOf(b.plan(purge.PlanOptions{Window: 7 * day, Before: b.now}), month).Windows; len(w) != 1 || w[0].To.Sub(w[0].From) != 7*day {
			b.Errorf("windows of a week: %+v", w)
		}
	})
}

// hazard P18: a row from the future is reported, never purged, and never in the horizon.
func TestConformanceOddRows(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		b.insert(b.table(-3), expired("a", 10)...)
		b.insert(b.table(-3), row{id: "2097", created: 70 * 365 * day, expire: -day})
		b.insert(b.table(-2), expired("b", 10)...)
		b.insert(b.table(-2), row{id: "2097-live", created: 70 * 365 * day, expire: 70*365*day + 30*day})
		p := b.plan(purge.PlanOptions{})
		for _, n := range []int{-3, -2} {
			if m := planOf(p, b.table(n)); m.Odd != 1 || m.Action != purge.ActionRows || m.Rows != 10 || m.Kept != 1 {
				b.Errorf("%s: %+v", b.table(n), m)
			}
		}
		rep := b.run(p, quick())
		if rep.Deleted != 20 || monthOf(rep, b.table(-3)).Odd != 1 {
			b.Errorf("report: %+v", rep)
		}
		b.same("left", b.ids(b.table(-3)), []string{"2097"})
		b.same("left", b.ids(b.table(-2)), []string{"2097-live"})
		want := b.now.Add(-40*day - time.Second)
		if h := b.catalog().Biz["COUPON"].Purged; !h.Equal(want) {
			b.Errorf("purged until %s, want %s", h, want)
		}
	})
}

// hazard P17: current and future months, the newest one and the only one are never dropped, however expired their rows.
func TestConformanceNothingCurrentDropped(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		for n := -3; n <= 1; n++ {
			b.insert(b.table(n), expired("k", 3)...)
		}
		p := b.plan(purge.PlanOptions{})
		for n := -3; n <= 1; n++ {
			want := purge.ActionDrop
			if n >= 0 {
				want = purge.ActionRows
			}
			if got := planOf(p, b.table(n)).Action; got != want {
				b.Errorf("%s: %s, want %s", b.table(n), got, want)
			}
		}
		// Nobody has made the months since: the newest of the past is the only home there is.
		b.change(func(c *partition.Catalog) {
			c.Tables = slices.DeleteFunc(c.Tables, func(t partition.Table) bool { return t.Month >= b.month })
		})
		p = b.plan(purge.PlanOptions{})
		if got := planOf(p, b.table(-1)).Action; got != purge.ActionRows {
			b.Errorf("the newest month: %s, want rows", got)
		}
		rep := b.run(p, quick())
		b.same("dropped", rep.Dropped(), []string{b.table(-3), b.table(-2)})
		b.insert(b.table(-1), expired("k", 3)...)
		b.run(b.plan(purge.PlanOptions{}), quick())
		b.same("the only month", b.ids(b.table(-1)), []string{})
	})
}

// A month without a row goes only where no message becomes unprovable by it.
func TestConformanceEmptyMonths(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		p := b.plan(purge.PlanOptions{})
		for n := -3; n <= 1; n++ {
			if got := planOf(p, b.table(n)).Action; got != purge.ActionKeep {
				b.Errorf("%s: %s, want keep: its messages can still be proved new", b.table(n), got)
			}
		}
		if len(p.Horizon) != 0 {
			b.Errorf("horizon %+v", p.Horizon)
		}
		// The retention has passed since the end of the two oldest.
		retention := b.now.Sub((b.month - 2).End(b.zone))
		p = b.plan(purge.PlanOptions{Retention: retention})
		for n, want := range map[int]purge.Action{-3: purge.ActionDrop, -2: purge.ActionDrop, -1: purge.ActionKeep, 0: purge.ActionKeep} {
			if got := planOf(p, b.table(n)).Action; got != want {
				b.Errorf("%s: %s, want %s", b.table(n), got, want)
			}
		}
		rep := b.run(p, quick())
		b.same("dropped", rep.Dropped(), []string{b.table(-3), b.table(-2)})
		if h := b.horizon("COUPON"); !h.Equal((b.month - 1).Start(b.zone)) {
			b.Errorf("horizon %s", h)
		}
	})
}

func TestConformancePlanRefused(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		for name, c := range map[string]struct {
			opts purge.PlanOptions
			want error
		}{
			"future":         {purge.PlanOptions{Before: b.now.Add(time.Hour)}, purge.ErrCutoffFuture},
			"after as-of":    {purge.PlanOptions{Before: b.now, AsOf: b.now.Add(-time.Hour)}, purge.ErrCutoffFuture},
			"half a day":     {purge.PlanOptions{Window: 12 * time.Hour}, purge.ErrOptions},
			"negative":       {purge.PlanOptions{Window: -day}, purge.ErrOptions},
			"less than none": {purge.PlanOptions{Retention: -day}, purge.ErrOptions},
		} {
			if _, err := purge.PlanPurge(b.Context(), b.DB, b.scheme, b.zone, c.opts); !errors.Is(err, c.want) {
				b.Errorf("%s: %v, want %v", name, err, c.want)
			}
		}
		if _, err := purge.PlanPurge(b.Context(), b.DB, b.scheme, time.FixedZone("Asia/Elsewhere", 0), purge.PlanOptions{}); !errors.Is(err, partition.ErrTimeZone) {
			b.Errorf("another zone: %v", err)
		}
		// hazard P13: without its index a month would be read by walking all of it, over and over.
		b.insert(b.table(-2), expired("a", 3)...)
		b.sql("ALTER TABLE " + b.table(-2) + " DROP INDEX idx_expire_at")
		if _, err := purge.PlanPurge(b.Context(), b.DB, b.scheme, b.zone, purge.PlanOptions{}); !errors.Is(err, purge.ErrNoIndex) {
			b.Errorf("no index: %v", err)
		}
		b.sql("DELETE FROM t_idempotent_control")
		if _, err := purge.PlanPurge(b.Context(), b.DB, b.scheme, b.zone, purge.PlanOptions{}); !errors.Is(err, partition.ErrNoCatalog) {
			b.Errorf("no catalog: %v", err)
		}
	})
}

// A rehearsal shows what would be, and is never executed; nor is a plan made by a clock that was ahead.
func TestConformanceRunRefused(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		b.insert(b.table(-2), live("a", 5)...)
		p := b.plan(purge.PlanOptions{AsOf: b.now.AddDate(0, 3, 0)})
		if !p.Rehearsal || p.Rows != 5 || planOf(p, b.table(-2)).Action != purge.ActionDrop {
			b.Errorf("rehearsal: %+v", p)
		}
		if _, err := purge.Run(b.Context(), b.DB, p, quick()); !errors.Is(err, purge.ErrRehearsal) {
			b.Errorf("a rehearsal: %v", err)
		}
		p.Rehearsal = false
		if _, err := purge.Run(b.Context(), b.DB, p, quick()); !errors.Is(err, purge.ErrCutoffFuture) {
			b.Errorf("a cutoff to come: %v", err)
		}
		if _, err := purge.Run(b.Context(), b.DB, purge.Plan{}, quick()); !errors.Is(err, purge.ErrNoPlan) {
			b.Errorf("no plan: %v", err)
		}
		for name, o := range map[string]purge.RunOptions{
			"batch": {Batch: -1}, "pause": {Pause: -1}, "rows": {MaxRows: -1}, "time": {RunTime: -1}, "lag": {MaxLag: -1},
			"parallel": {Parallel: 100}, "run": {Run: "ABCDEF01"},
		} {
			if _, err := purge.Run(b.Context(), b.DB, b.plan(purge.PlanOptions{}), o); !errors.Is(err, purge.ErrOptions) {
				b.Errorf("%s: %v, want ErrOptions", name, err)
			}
		}
		b.same("rows", b.ids(b.table(-2)), idsOf(live("a", 5)))
	})
}

// hazard P15: the plan that was shown is the one that runs, or none does.
func TestConformancePlanStale(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		b.insert(b.table(-3), expired("a", 3)...)
		b.keep(-2, -1)
		p := b.plan(purge.PlanOptions{})
		before := b.catalog()
		for name, change := range map[string]func(c *partition.Catalog){
			"moved": func(c *partition.Catalog) { c.Tables[0].State = partition.Held },
			"gone":  func(c *partition.Catalog) { c.Tables = c.Tables[1:] },
			"newest": func(c *partition.Catalog) { // what is to be dropped has become the only home
				c.Tables = c.Tables[:1]
			},
		} {
			b.change(change)
			if _, err := purge.Run(b.Context(), b.DB, p, quick()); !errors.Is(err, purge.ErrPlanStale) {
				b.Errorf("%s: %v, want ErrPlanStale", name, err)
			}
			b.change(func(c *partition.Catalog) { c.Tables = slices.Clone(before.Tables) })
		}
		b.same("untouched", b.ids(b.table(-3)), idsOf(expired("a", 3)))
		// A new month beside them contradicts nothing.
		b.change(func(c *partition.Catalog) { c.Tables = c.Tables[:len(c.Tables)-1] })
		b.run(p, quick())
		b.same("dropped", b.ids(b.table(-3)), nil)
	})
}

func TestConformanceServerRefused(t *testing.T) {
	t.Parallel()
	b := ownBench(t)
	b.insert(b.table(-2), expired("a", 3)...)
	p := b.plan(purge.PlanOptions{})
	b.sql("SET GLOBAL read_only = 1")
	if _, err := purge.Run(b.Context(), b.DB, p, quick()); !errors.Is(err, mysqlx.ErrNotPrimary) {
		b.Errorf("a read-only server: %v", err)
	}
	b.sql("SET GLOBAL read_only = 0")
	b.run(p, quick())
}
