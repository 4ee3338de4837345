package purge_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/partition"
	"github.com/idemctl/idemctl/pkg/purge"
)

// hazard P6: rows of one expiry and one create_time, many more than a page, are neither skipped nor met twice.
func TestConformanceEqualExpiry(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		rows := make([]row, 2500)
		for i := range rows {
			rows[i] = row{id: fmt.Sprintf("same-%05d", i*7919%2500), created: -40 * day, expire: -10 * day}
			if i%3 == 0 {
				rows[i].biz = "SHIPMENT"
			}
		}
		b.insert(b.table(0), rows...)
		opts := quick()
		opts.Batch = 60 // pages of 1000
		rep := b.run(b.plan(purge.PlanOptions{}), opts)
		if rep.Deleted != 2500 || rep.Skipped != 0 {
			b.Errorf("deleted %d, skipped %d", rep.Deleted, rep.Skipped)
		}
		b.same("left", b.ids(b.table(0)), []string{})
	})
}

// hazard P5: a row that was refreshed, or made anew, after it was read as expired stays.
func TestConformanceRefreshed(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		rows := expired("r", 30)
		b.insert(b.table(0), rows...)
		opts := quick()
		opts.Batch, opts.MaxRows = 10, 27 // those that stay do not count
		first := true
		opts.OnStep = func(s purge.Step) {
			if s.Name != purge.StepSelected || !first {
				return
			}
			first = false
			b.sql("UPDATE " + b.table(0) + " SET expire_at = " + stamp(b.now.Add(day)) + " WHERE order_id = 'r-000001'") // another service
			b.sql("DELETE FROM " + b.table(0) + " WHERE order_id = 'r-000002'")
			b.insert(b.table(0), row{id: "r-000002", created: -time.Minute, expire: 30 * day})
			// Expired as before, but created later than the horizon that is committed: by no means may it go now.
			b.sql("UPDATE " + b.table(0) + " SET create_time = " + stamp(b.now.Add(-time.Hour)) + " WHERE order_id = 'r-000003'")
		}
		rep := b.run(b.plan(purge.PlanOptions{}), opts)
		if rep.Deleted != 27 || rep.Skipped != 3 || rep.Ended != purge.EndedDone {
			b.Errorf("report: %+v", rep)
		}
		b.same("left", b.ids(b.table(0)), []string{"r-000001", "r-000002", "r-000003"})
		if h := b.catalog().Biz["COUPON"].Purged; h.After(b.now.Add(-39 * day)) {
			b.Errorf("the horizon is %s: of a row that stayed", h)
		}
	})
}

// Invariant 9: before the first row of a window goes, the catalog says exactly how late the window's rows were created, those
// of the plan and those that were read since.
func TestConformanceHorizonFirst(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		b.insert(b.table(0),
			row{id: "w1-a", created: -100 * day, expire: -70 * day}, row{id: "w1-b", created: -99 * day, expire: -69 * day},
			row{id: "w2-a", created: -50 * day, expire: -20 * day}, row{id: "w2-b", biz: "SHIPMENT", created: -49 * day, expire: -19 * day},
		)
		p := b.plan(purge.PlanOptions{})
		late := row{id: "w2-late", created: -45 * day, expire: -2 * day}
		b.insert(b.table(0), late)
		opts := quick()
		opts.Batch = 1
		var seen []string
		left := func(id string) bool { return slices.Contains(b.ids(b.table(0)), id) }
		opts.OnStep = func(s purge.Step) {
			if s.Name != purge.StepSelected {
				return
			}
			c := b.catalog()
			seen = append(seen, fmt.Sprint(int(b.now.Sub(c.Biz["COUPON"].Purged)/day), " ", !c.Biz["SHIPMENT"].Purged.IsZero(), " ",
				left("w1-a"), left("w1-b"), left("w2-a"), left("w2-b"), left("w2-late")))
		}
		rep := b.run(p, opts)
		b.same("days back, and what is left, before each delete", seen, []string{
			"99 false true true true true true",
			"99 false false true true true true",
			"45 true false false true true true",
			"45 true false false false true true",
			"45 true false false false true false",
		})
		if rep.Deleted != 5 || len(rep.Horizon) != 2 || !rep.Horizon[0].After.Equal(b.now.Add(late.created)) {
			b.Errorf("report: %+v", rep)
		}
		want := map[string]time.Duration{"COUPON": late.created, "SHIPMENT": -49 * day}
		for biz, d := range want {
			if h := b.catalog().Biz[biz].Purged; !h.Equal(b.now.Add(d)) {
				b.Errorf("%s: purged until %s, want %s", biz, h, b.now.Add(d))
			}
		}
		// Never lowered.
		b.insert(b.table(0), row{id: "older", created: -90 * day, expire: -60 * day})
		rep = b.run(b.plan(purge.PlanOptions{}), quick())
		if h := b.catalog().Biz["COUPON"].Purged; rep.Deleted != 1 || len(rep.Horizon) != 0 || !h.Equal(b.now.Add(late.created)) {
			b.Errorf("lowered to %s; %+v", h, rep.Horizon)
		}
	})
}

// A window's horizon is that of all of it from the first delete on, also where it is read in several pages.
func TestConformanceHorizonByWindow(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		rows := expired("a", 1500)
		b.insert(b.table(0), rows...)
		opts := quick()
		opts.Batch = 60 // pages of 1000
		opts.OnStep = func(s purge.Step) {
			if s.Name != purge.StepSelected {
				return
			}
			if h, want := b.catalog().Biz["COUPON"].Purged, b.now.Add(rows[1499].created); !h.Equal(want) {
				b.Errorf("purged until %s, want %s", h, want)
			}
		}
		if rep := b.run(b.plan(purge.PlanOptions{}), opts); rep.Deleted != 1500 {
			b.Errorf("report: %+v", rep)
		}
	})
}

// The plan says what the horizon will be; the run does that.
func TestConformanceHorizonPlanned(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		_, err := partition.Register(b.Context(), b.DB, b.scheme, "IDLE", b.now.AddDate(-2, 0, 0))
		b.must(err)
		b.insert(b.table(-3), expired("a", 4)...)
		b.insert(b.table(-2), row{id: "s", biz: "SHIPMENT", created: -35 * day, expire: -5 * day})
		b.insert(b.table(-2), live("l", 1)...)
		p := b.plan(purge.PlanOptions{})
		end := (b.month - 3).End(b.zone)
		rep := b.run(p, quick())
		cat := b.catalog()
		if !cat.LostUntil.Equal(end) {
			b.Errorf("lost until %s, want %s", cat.LostUntil, end)
		}
		if len(p.Horizon) != 3 || !slices.EqualFunc(p.Horizon, rep.Horizon, func(a, b purge.HorizonChange) bool {
			return a.BizType == b.BizType && a.Before.Equal(b.Before) && a.After.Equal(b.After)
		}) {
			b.Errorf("planned %+v, done %+v", p.Horizon, rep.Horizon)
		}
		for _, h := range p.Horizon {
			if got, ok := cat.Horizon(h.BizType); ok && !got.Equal(h.After) {
				b.Errorf("%s: %s, want %s", h.BizType, got, h.After)
			}
		}
	})
}

func TestConformanceLimits(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		rows := expired("a", 50)
		for i := range rows { // the oldest are not the first by key
			rows[i].id = fmt.Sprintf("a-%03d", 50-i)
		}
		b.insert(b.table(-3), rows...)
		b.insert(b.table(-2), expired("b", 50)...)
		b.insert(b.table(-2), live("b2", 1)...)
		opts := quick()
		opts.MaxRows, opts.Batch = 20, 8
		rep := b.run(b.plan(purge.PlanOptions{}), opts)
		// A whole month is more than may go: its oldest rows do.
		if rep.Ended != purge.EndedMaxRows || rep.Deleted != 20 || rep.DroppedRows != 0 || rep.Ended.Complete() {
			b.Errorf("report: %+v", rep)
		}
		b.same("left", b.ids(b.table(-3)), idsOf(rows[20:]))
		opts.MaxRows = 35 // now it fits
		rep = b.run(b.plan(purge.PlanOptions{}), opts)
		if rep.Ended != purge.EndedMaxRows || rep.Deleted != 5 || rep.DroppedRows != 30 {
			b.Errorf("report: %+v", rep)
		}
		opts.MaxRows = 45 // exactly what is left
		rep = b.run(b.plan(purge.PlanOptions{}), opts)
		if rep.Ended != purge.EndedDone || rep.Deleted != 45 {
			b.Errorf("report: %+v", rep)
		}
		b.settled()
	})
}

// hazard P14: every end has its name.
func TestConformanceStops(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		fill := func() {
			b.sql("DELETE FROM " + b.table(0))
			b.insert(b.table(0), expired("a", 40)...)
		}
		why := errors.New("a signal")
		clock, stop, cancel := b.now, false, context.CancelCauseFunc(nil)
		for name, c := range map[string]struct {
			opts  purge.RunOptions
			at    func()
			ended purge.Ended
			err   error
		}{
			"run time":  {purge.RunOptions{RunTime: time.Hour}, func() { clock = clock.Add(time.Hour) }, purge.EndedRunTime, nil},
			"stop file": {purge.RunOptions{Stop: func() bool { return stop }}, func() { stop = true }, purge.EndedStopFile, nil},
			"signal":    {purge.RunOptions{}, func() { cancel(why) }, purge.EndedInterrupted, why},
		} {
			fill()
			c.opts.Hold, c.opts.Batch, c.opts.Now = -1, 10, func() time.Time { return clock }
			deletes := 0
			c.opts.OnStep = func(s purge.Step) {
				if s.Name != purge.StepDeleted {
					return
				}
				deletes++
				if deletes == 2 {
					c.at()
				}
			}
			var ctx context.Context
			ctx, cancel = context.WithCancelCause(b.Context())
			rep, err := purge.Run(ctx, b.DB, b.plan(purge.PlanOptions{}), c.opts)
			cancel(nil)
			stop = false
			if rep.Ended != c.ended || !errors.Is(err, c.err) || rep.Deleted != 20 || monthOf(rep, b.table(0)).Outcome != purge.OutcomeUnfinished {
				b.Errorf("%s: %v, %+v", name, err, rep)
			}
			if n := len(b.ids(b.table(0))); n != 20 {
				b.Errorf("%s: %d left", name, n)
			}
		}
	})
}

// hazard P12: a replica that is behind, or does not say, keeps the run waiting, and the run can be ended in that.
func TestConformanceLag(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		b.keep(-3, -2, -1)
		b.insert(b.table(0), expired("a", 40)...)
		clock := b.now
		asked := 0
		opts := purge.RunOptions{
			Hold: -1, Batch: 10, MaxLag: 2 * time.Second, LagPoll: time.Millisecond, RunTime: time.Hour,
			Now: func() time.Time { clock = clock.Add(10 * time.Millisecond); return clock },
			Lag: func(context.Context) (time.Duration, bool, error) {
				asked++
				switch asked {
				case 1:
					return 0, true, nil
				case 2:
					return time.Minute, true, nil
				case 3:
					return 0, false, nil
				case 4, 5, 6, 7, 8:
					return 0, true, errors.New("replica is gone")
				}
				return time.Second, true, nil
			},
		}
		opts.OnStep = func(s purge.Step) {
			if s.Name == purge.StepDeleted && asked < 9 {
				b.Errorf("deleted after question %d", asked)
			}
		}
		rep := b.run(b.plan(purge.PlanOptions{}), opts)
		if rep.Ended != purge.EndedDone || rep.Deleted != 40 || rep.LagWaits != 1 || rep.LagWaited <= 0 {
			b.Errorf("report: %+v", rep)
		}
		b.insert(b.table(0), expired("a", 40)...)
		opts.Lag = func(context.Context) (time.Duration, bool, error) {
			clock = clock.Add(time.Minute)
			return 0, false, nil
		}
		rep = b.run(b.plan(purge.PlanOptions{}), opts)
		if rep.Ended != purge.EndedRunTime || rep.Deleted != 0 || rep.LagWaited < 30*time.Minute {
			b.Errorf("lag never known: %+v", rep)
		}
		if n := len(b.ids(b.table(0))); n != 40 {
			b.Errorf("%d left of 40", n)
		}
	})
}

// hazard P11: of two runs at once one is refused, and nothing of the refused one happens.
func TestConformanceTwoRuns(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		b.insert(b.table(0), expired("a", 40)...)
		p := b.plan(purge.PlanOptions{})
		opts := quick()
		opts.Batch = 10
		tried := false
		opts.OnStep = func(s purge.Step) {
			if s.Name != purge.StepSelected || tried {
				return
			}
			tried = true
			rep, err := purge.Run(b.Context(), b.DB, p, quick())
			if !errors.Is(err, mysqlx.ErrLockHeld) || rep.Deleted != 0 {
				b.Errorf("a second run: %v, %+v", err, rep)
			}
		}
		if rep := b.run(p, opts); rep.Deleted != 40 || !tried {
			b.Errorf("report: %+v", rep)
		}
	})
}

// killLock ends the connection that holds the ledger's lock, as a server or a network does.
func (b *bench) killLock() {
	b.Helper()
	var id int64
	err := b.DB.QueryRowContext(b.Context(), "SELECT IS_USED_LOCK(?)", mysqlx.LockName("months", b.Name, prefix)).Scan(&id)
	b.must(err)
	b.sql(fmt.Sprintf("KILL CONNECTION %d", id))
	look := time.NewTicker(time.Millisecond) // an idle connection is ended a moment after the word
	defer look.Stop()
	for free := false; !free; <-look.C {
		b.must(b.DB.QueryRowContext(b.Context(), "SELECT IS_USED_LOCK(?) IS NULL", mysqlx.LockName("months", b.Name, prefix)).Scan(&free))
	}
}

// hazard P11: a run that loses its lock deletes nothing more, and the next one goes on.
func TestConformanceLockLost(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		b.keep(-2, -1)
		for _, at := range []purge.StepName{purge.StepSelected, purge.StepDeleted, purge.StepHeld, purge.StepChecked} {
			b.sql("DELETE FROM " + b.table(0))
			b.insert(b.table(0), expired("a", 40)...)
			whole := at == purge.StepHeld || at == purge.StepChecked
			b.sql("DELETE FROM " + b.table(-3))
			if whole {
				b.insert(b.table(-3), expired("d", 5)...)
			} else {
				b.keep(-3)
			}
			opts := quick()
			opts.Batch = 10
			killed := false
			opts.OnStep = func(s purge.Step) {
				if s.Name == at && !killed {
					killed = true
					b.killLock()
				} else if killed && (s.Name == purge.StepDeleted || s.Name == purge.StepDropped) {
					b.Errorf("%s: %s after the lock was lost", at, s.Name)
				}
			}
			rep, err := purge.Run(b.Context(), b.DB, b.plan(purge.PlanOptions{}), opts)
			if !errors.Is(err, mysqlx.ErrLockLost) || rep.Ended != purge.EndedLockLost {
				b.Errorf("%s: %v, %s", at, err, rep.Ended)
			}
			var want int64
			if at == purge.StepDeleted {
				want = 10
			}
			if n := int64(len(b.ids(b.table(0)))); n != 40-want {
				b.Errorf("%s: %d left", at, n)
			}
			if whole {
				rep := b.run(b.plan(purge.PlanOptions{}), quick())
				if rep.Ended != purge.EndedDone || rep.DroppedRows != 5 {
					b.Errorf("%s: the next run: %+v", at, rep)
				}
				b.settled()
				b.recreate(-3)
			}
		}
	})
}

// recreate makes a month again, for the next case.
func (b *bench) recreate(n int) {
	b.Helper()
	m := partition.NewManager(b.DB, b.scheme, b.zone)
	p, err := m.PlanCreate(b.Context(), partition.CreateRequest{From: b.month + partition.Month(n), MemorySince: b.now.AddDate(-2, 0, 0)})
	b.must(err)
	_, err = m.Create(b.Context(), p)
	b.must(err)
}

// Several months at once: each worker stops when the run's own lock is gone.
func TestConformanceParallel(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		fill := func() {
			for n := -2; n <= 0; n++ {
				b.sql("DELETE FROM " + b.table(n))
				b.insert(b.table(n), expired("a", 500)...)
				b.insert(b.table(n), live("b", 5)...)
			}
		}
		fill()
		if b.ids(b.table(-3)) != nil {
			b.insert(b.table(-3), expired("d", 20)...)
		}
		opts := quick()
		opts.Parallel, opts.Batch = 3, 25
		rep := b.run(b.plan(purge.PlanOptions{}), opts)
		if rep.Ended != purge.EndedDone || rep.Deleted != 1500 || rep.DroppedRows != 20 {
			b.Errorf("report: %+v", rep)
		}
		for n := -2; n <= 0; n++ {
			b.same(b.table(n), b.ids(b.table(n)), idsOf(live("b", 5)))
		}
		b.settled()

		fill()
		b.sql("DELETE FROM " + b.table(-1)) // fewer months than connections: several delete from one
		b.sql("DELETE FROM " + b.table(-2))
		b.keep(-1, -2)
		opts.MaxRows = 333
		if rep := b.run(b.plan(purge.PlanOptions{}), opts); rep.Ended != purge.EndedMaxRows || rep.Deleted != 333 {
			b.Errorf("a month of several: %+v", rep)
		}
		if rep := b.run(b.plan(purge.PlanOptions{}), opts); rep.Ended != purge.EndedDone || rep.Deleted != 167 {
			b.Errorf("a month of several: %+v", rep)
		}
		b.same(b.table(0), b.ids(b.table(0)), idsOf(live("b", 5)))
		opts.MaxRows = 0

		fill()
		var once sync.Once
		opts.OnStep = func(s purge.Step) {
			if s.Name == purge.StepSelected { // each may do the one delete before which it has looked at the lock
				once.Do(b.killLock)
			}
		}
		rep, err := purge.Run(b.Context(), b.DB, b.plan(purge.PlanOptions{}), opts)
		if !errors.Is(err, mysqlx.ErrLockLost) || rep.Ended != purge.EndedLockLost || rep.Deleted > 75 {
			b.Errorf("%v, %+v", err, rep)
		}
	})
}

// hazard P20: a run that has lost the ledger's lock without noticing cannot meet the next one on a month.
func TestConformanceMonthLock(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		b.insert(b.table(0), expired("a", 5)...)
		b.insert(b.table(-2), append(expired("e", 5), live("e2", 1)...)...)
		for lane, parallel := range map[string]int{"": 1, ":1": 2, ":5": 4, ":2": 3} { // whichever lane a connection still holds
			name := mysqlx.LockName("month:"+b.month.Digits()+lane, b.Name, prefix)
			lock, err := mysqlx.Acquire(b.Context(), b.DB, name, 0)
			b.must(err)
			opts := quick()
			opts.Parallel = parallel
			rep := b.run(b.plan(purge.PlanOptions{}), opts)
			b.must(lock.Release(b.Context()))
			if m := monthOf(rep, b.table(0)); rep.Ended != purge.EndedDeferred || m.Outcome != purge.OutcomeDeferred || m.Reason == "" {
				b.Errorf("report: %+v", rep)
			}
			if n := len(b.ids(b.table(0))); n != 5 {
				b.Errorf("%d left", n)
			}
			b.sql("DELETE FROM " + b.table(-2))
			b.insert(b.table(-2), append(expired("e", 5), live("e2", 1)...)...) // something for a second worker
		}
	})
}
