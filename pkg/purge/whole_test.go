package purge_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/partition"
	"github.com/idemctl/idemctl/pkg/purge"
)

// hazard P7: whatever comes into a month between the plan and the drop puts it back, and off.
func TestConformanceLateRow(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		b.keep(-2, -1)
		late := map[string]string{
			"live":      "INSERT INTO %s (order_id, biz_type, create_time, expire_at) VALUES ('late', 'COUPON', UTC_TIMESTAMP(3), UTC_TIMESTAMP(3) + INTERVAL 30 DAY)",
			"expired":   "INSERT INTO %s (order_id, biz_type, create_time, expire_at) VALUES ('late', 'COUPON', " + stamp(b.now.Add(-40*day)) + ", " + stamp(b.now.Add(-10*day)) + ")",
			"refreshed": "UPDATE %s SET expire_at = UTC_TIMESTAMP(3) + INTERVAL 1 DAY WHERE order_id = 'a-000003'",
			"future":    "UPDATE %s SET create_time = UTC_TIMESTAMP(3) + INTERVAL 1 DAY WHERE order_id = 'a-000003'",
			"swapped":   "UPDATE %s SET biz_type = 'SHIPMENT'",
			"deleted":   "DELETE FROM %s WHERE order_id = 'a-000003'",
		}
		for name, query := range late {
			b.sql("DELETE FROM " + b.table(-3))
			b.insert(b.table(-3), expired("a", 7)...)
			var after []string
			opts := quick()
			opts.OnStep = func(s purge.Step) {
				if s.Name == purge.StepHeld {
					b.sql(fmt.Sprintf(query, s.Table)) // another service, by a name that it found in the catalog
					after = b.ids(s.Table)
				}
			}
			rep := b.run(b.plan(purge.PlanOptions{}), opts)
			m := monthOf(rep, b.table(-3))
			if rep.Ended != purge.EndedDeferred || m.Outcome != purge.OutcomeDeferred || m.Reason == "" || m.HeldAs != "" || rep.DroppedRows != 0 || len(rep.Deferred()) != 1 {
				b.Errorf("%s: %+v", name, rep)
			}
			b.same(name+": put back", b.ids(b.table(-3)), after)
			b.settled()
			if len(rep.Horizon) != 0 {
				b.Errorf("%s: the horizon rose for rows that stayed: %+v", name, rep.Horizon)
			}
		}
		// A row between the plan and the rename counts as late too.
		b.sql("DELETE FROM " + b.table(-3))
		b.insert(b.table(-3), expired("a", 7)...)
		p := b.plan(purge.PlanOptions{})
		b.insert(b.table(-3), live("late", 1)...)
		if rep := b.run(p, quick()); rep.Ended != purge.EndedDeferred {
			b.Errorf("late before the rename: %+v", rep)
		}
	})
}

// Whatever ends the run while a month is held puts the month back.
func TestConformanceStoppedWhileHeld(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		b.insert(b.table(-3), expired("a", 7)...)
		why := errors.New("a signal")
		clock, stop, cancel := b.now, false, context.CancelCauseFunc(nil)
		for name, c := range map[string]struct {
			at    func()
			ended purge.Ended
			err   error
		}{
			"run time":  {func() { clock = clock.Add(time.Hour) }, purge.EndedRunTime, nil},
			"stop file": {func() { stop = true }, purge.EndedStopFile, nil},
			"signal":    {func() { cancel(why) }, purge.EndedInterrupted, why},
		} {
			stop = false
			opts := purge.RunOptions{
				Hold: time.Hour, RunTime: time.Hour, Stop: func() bool { return stop }, Now: func() time.Time { return clock },
				OnStep: func(s purge.Step) {
					if s.Name == purge.StepWaiting {
						c.at()
					}
				},
			}
			var ctx context.Context
			ctx, cancel = context.WithCancelCause(b.Context())
			rep, err := purge.Run(ctx, b.DB, b.plan(purge.PlanOptions{}), opts)
			cancel(nil)
			if rep.Ended != c.ended || !errors.Is(err, c.err) || monthOf(rep, b.table(-3)).Outcome != purge.OutcomeUnfinished {
				b.Errorf("%s: %v, %+v", name, err, rep)
			}
			b.same(name, b.ids(b.table(-3)), idsOf(expired("a", 7)))
			b.settled()
		}
	})
}

// crash is what OnStep panics with.
type crash struct{}

// Wherever a run breaks off, the next one ends with every expired row gone and no live row touched.
func TestConformanceCrash(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		steps := []purge.StepName{purge.StepLocked, purge.StepHorizon, purge.StepSelected, purge.StepDeleted, purge.StepHeld, purge.StepChecked, purge.StepDropped}
		for _, at := range steps {
			for nth := 1; nth <= 2; nth++ {
				b.sql("DELETE FROM " + b.table(-2))
				b.insert(b.table(-2), expired("b", 40)...)
				b.insert(b.table(-2), live("b2", 5)...)
				if b.ids(b.table(-3)) == nil {
					b.recreate(-3)
				}
				b.sql("DELETE FROM " + b.table(-3))
				b.insert(b.table(-3), expired("a", 20)...)
				opts := quick()
				opts.Batch = 10
				n := 0
				opts.OnStep = func(s purge.Step) {
					if s.Name != at {
						return
					}
					n++
					if n == nth {
						panic(crash{})
					}
				}
				func() {
					defer func() {
						if r := recover(); r != nil && r != (crash{}) {
							panic(r)
						}
					}()
					_, err := purge.Run(b.Context(), b.DB, b.plan(purge.PlanOptions{}), opts)
					b.must(err)
				}()
				rep := b.run(b.plan(purge.PlanOptions{}), quick())
				if rep.Ended != purge.EndedDone {
					b.Errorf("%s %d: the next run: %+v", at, nth, rep)
				}
				b.same("dropped", b.ids(b.table(-3)), nil)
				b.same("live", b.ids(b.table(-2)), idsOf(live("b2", 5)))
				b.settled()
			}
		}
	})
}

// A table that a broken run left in the middle of a rename, or held, with rows that are live again, gets its name back.
func TestConformanceLeftovers(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		b.keep(-2, -1)
		held := b.table(-3) + "_held_0badcafe"
		leave := func(state partition.State, name, also, there string) {
			for _, n := range []string{b.table(-3), held} {
				b.sql("DROP TABLE IF EXISTS " + n)
			}
			if there != "" {
				b.sql("CREATE TABLE " + there + " LIKE " + b.table(0))
				b.insert(there, expired("a", 5)...)
			}
			b.change(func(c *partition.Catalog) {
				c.Tables[0] = partition.Table{Month: b.month - 3, Name: name, State: state, Also: also}
			})
		}
		for name, c := range map[string]struct {
			state             partition.State
			name, also, there string
			live              bool
			rowsOnly          bool
			want              purge.Outcome
		}{
			"held":               {partition.Held, held, "", held, false, false, purge.OutcomeDropped},
			"held, live rows":    {partition.Held, held, "", held, true, false, purge.OutcomePurged},
			"held, rows only":    {partition.Held, held, "", held, false, true, purge.OutcomePurged},
			"moving, not yet":    {partition.Moving, b.table(-3), held, b.table(-3), false, false, purge.OutcomeDropped},
			"moving, done":       {partition.Moving, b.table(-3), held, held, false, false, purge.OutcomeDropped},
			"moving, live rows":  {partition.Moving, b.table(-3), held, held, true, false, purge.OutcomePurged},
			"moving back, done":  {partition.Moving, held, b.table(-3), b.table(-3), true, false, purge.OutcomePurged},
			"dropped, unlisted":  {partition.Held, held, "", "", false, false, purge.OutcomeGone},
			"moving and missing": {partition.Moving, b.table(-3), held, "", false, false, purge.OutcomeGone},
		} {
			before := b.catalog().Tables
			leave(c.state, c.name, c.also, c.there)
			if c.live {
				b.insert(c.there, live("l", 2)...)
			}
			p := b.plan(purge.PlanOptions{RowsOnly: c.rowsOnly})
			if m := p.Months[0]; m.Action != purge.ActionFinish || m.PutBack != (c.live || c.rowsOnly) {
				b.Errorf("%s: plan %+v", name, m)
			}
			rep := b.run(p, quick())
			if rep.Months[0].Outcome != c.want || rep.Ended != purge.EndedDone {
				b.Errorf("%s: %+v", name, rep)
			}
			var want []string
			switch {
			case c.live:
				want = idsOf(live("l", 2))
			case c.rowsOnly:
				want = []string{}
			}
			b.same(name, b.ids(b.table(-3)), want)
			b.settled()
			b.change(func(c *partition.Catalog) { c.Tables = before })
		}
	})
}

// hazard P9: a month that another session's transaction has open, or that may not be renamed, is left as it is, and the run
// goes on with the rest.
func TestConformanceCannotRename(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		b.insert(b.table(-3), expired("a", 5)...)
		b.insert(b.table(-2), expired("b", 5)...)
		b.insert(b.table(0), expired("c", 5)...)
		wantDeferred := func(what string, rep purge.Report, table, reason string) {
			b.Helper()
			m := monthOf(rep, table)
			if rep.Ended != purge.EndedDeferred || m.Outcome != purge.OutcomeDeferred || !strings.Contains(m.Reason, reason) || m.HeldAs != "" {
				b.Errorf("%s: %+v", what, rep)
			}
			b.settled()
		}
		tx, err := b.DB.BeginTx(b.Context(), nil)
		b.must(err)
		var one int
		b.must(tx.QueryRowContext(b.Context(), "SELECT COUNT(*) FROM "+b.table(-3)).Scan(&one))
		rep := b.run(b.plan(purge.PlanOptions{}), quick())
		b.must(tx.Rollback())
		wantDeferred("blocked", rep, b.table(-3), "lock")
		b.same("blocked", b.ids(b.table(-3)), idsOf(expired("a", 5)))
		b.same("the next month", b.ids(b.table(-2)), nil)
		if rep.Deleted != 5 || rep.DroppedRows != 5 {
			b.Errorf("the rest: %+v", rep)
		}

		b.insert(b.table(0), expired("c", 5)...)
		user := b.user("SELECT, INSERT, UPDATE, DELETE")
		p, err := purge.PlanPurge(b.Context(), user, b.scheme, b.zone, purge.PlanOptions{})
		b.must(err)
		rep, err = purge.Run(b.Context(), user, p, quick())
		b.must(err)
		wantDeferred("no privilege", rep, b.table(-3), "privilege")
		b.same("no privilege", b.ids(b.table(-3)), idsOf(expired("a", 5)))
		if rep.Deleted != 5 {
			b.Errorf("the rest: %+v", rep)
		}
	})
}

// user makes an account with these privileges on the schema.
func (b *bench) user(privileges string) *sql.DB {
	b.Helper()
	name := "u" + strings.TrimPrefix(b.Name, "idemtest_")
	b.sql("CREATE USER '" + name + "'@'%' IDENTIFIED BY 'a-Password-1'")
	b.Cleanup(func() {
		if _, err := b.DB.ExecContext(context.WithoutCancel(b.Context()), "DROP USER '"+name+"'@'%'"); err != nil {
			b.Error(err)
		}
	})
	b.sql("GRANT " + privileges + " ON `" + b.Name + "`.* TO '" + name + "'@'%'")
	_, rest, _ := strings.Cut(b.DSN, "@")
	db, err := mysqlx.Open(mysqlx.Options{DSN: name + ":a-Password-1@" + rest})
	b.must(err)
	b.Cleanup(func() { db.Close() })
	return db
}

// hazard P8: rows go only once they are in an archive that was read back, and only those.
func TestConformanceArchived(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		b.insert(b.table(-3), expired("a", 30)...)
		b.insert(b.table(-2), expired("b", 30)...)
		b.insert(b.table(-2), live("b2", 3)...)
		opts := quick()
		opts.Batch, opts.Archive = 7, &purge.ArchiveOptions{Dir: b.TempDir(), Tool: "test"}
		archived := map[string]bool{}
		first := true
		opts.OnStep = func(s purge.Step) {
			switch s.Name { //nolint:exhaustive // the two that matter here
			case purge.StepArchived:
				archived[s.Table] = true
				if s.Table == b.table(-2) { // expired too, and in no archive
					b.insert(s.Table, row{id: "b-000000-late", created: -40 * day, expire: -12 * day})
				}
			case purge.StepSelected:
				if !archived[s.Table] {
					b.Errorf("%s: deleted before it was archived", s.Table)
				}
				if first {
					first = false
					b.sql("DELETE FROM " + s.Table + " WHERE order_id = 'b-000002'") // someone else was faster
				}
			}
		}
		rep := b.run(b.plan(purge.PlanOptions{}), opts)
		if rep.Ended != purge.EndedDone || rep.Deleted != 29 || rep.Skipped != 1 || rep.DroppedRows != 30 {
			b.Errorf("report: %+v", rep)
		}
		b.same("left", b.ids(b.table(-2)), append([]string{"b-000000-late"}, idsOf(live("b2", 3))...))
		for _, n := range []int{-3, -2} {
			m := monthOf(rep, b.table(n))
			if m.ArchiveRows != 30 {
				b.Errorf("%s: %+v", b.table(n), m)
				continue
			}
			a, err := purge.OpenArchive(m.Archive)
			b.must(err)
			b.must(a.Verify(b.Context()))
			if a.Manifest().Table != b.table(n) || a.Manifest().LedgerID != b.catalog().LedgerID {
				b.Errorf("manifest: %+v", a.Manifest())
			}
		}

		// An archive that cannot be written: nothing goes.
		b.insert(b.table(0), expired("c", 5)...)
		opts = quick()
		opts.Archive = &purge.ArchiveOptions{Dir: b.TempDir() + "/missing"}
		rep, err := purge.Run(b.Context(), b.DB, b.plan(purge.PlanOptions{}), opts)
		if err == nil || rep.Ended != purge.EndedFailed || rep.Deleted != 0 || len(b.ids(b.table(0))) != 5 {
			b.Errorf("no folder: %v, %+v", err, rep)
		}
	})
}
