package partition_test

import (
	"errors"
	"testing"
	"time"

	"github.com/idemctl/idemctl/pkg/partition"
)

// A plan for another time than now is for looking at.
func TestConformanceRehearsal(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		asOf := (b.month + 5).Start(b.zone).Add(time.Hour)
		p := b.plan(partition.CreateRequest{AsOf: asOf})
		b.wantSteps(p, "create "+b.table(5))
		if !p.Rehearsal || !p.Now.Equal(asOf) {
			b.Errorf("%+v", p)
		}
		if _, err := b.manager.Create(b.Context(), p); !errors.Is(err, partition.ErrRehearsal) || b.exists(partition.ControlTable) {
			b.Errorf("error %v, want ErrRehearsal and nothing made", err)
		}
	})
}

// An entry has expired when its expiry lies before now, strictly.
func TestConformanceExpiredStrictly(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		b.create(partition.CreateRequest{From: b.month - 1})
		at := b.month.Start(b.zone).Add(time.Hour)
		b.entry(b.table(-1), "A-1", at.AddDate(0, -1, 0), at)
		for asOf, want := range map[time.Time]string{at: "live", at.Add(time.Millisecond): "expired"} {
			l, err := b.manager.List(b.Context(), partition.ListRequest{AsOf: asOf})
			b.must(err)
			if got := l.Tables[0].State; got != want || !l.Rehearsal {
				b.Errorf("at %s: %s, want %s", asOf, got, want)
			}
		}
	})
}

// hazard G27
func TestConformanceRotate(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		if _, err := b.manager.PlanRotate(b.Context()); !errors.Is(err, partition.ErrNoCatalog) {
			b.Errorf("error %v, want ErrNoCatalog", err)
		}
		b.create(partition.CreateRequest{})
		before := b.catalog()
		p, err := b.manager.PlanRotate(b.Context())
		b.must(err)
		if after := b.catalog(); p.LedgerID != before.LedgerID || after.Generation != before.Generation {
			b.Errorf("the plan %+v of %+v", p, before)
		}
		rep, err := b.manager.Rotate(b.Context(), p)
		b.must(err)
		after := b.catalog()
		if rep.OldLedgerID != before.LedgerID || rep.LedgerID != after.LedgerID || after.LedgerID == before.LedgerID ||
			after.Generation != before.Generation+1 || rep.Generation != after.Generation || len(after.Tables) != 1 {
			b.Errorf("%+v: %+v after %+v", rep, after, before)
		}
		if _, err := b.manager.Rotate(b.Context(), p); !errors.Is(err, partition.ErrPlanStale) || b.catalog().LedgerID != after.LedgerID {
			b.Errorf("error %v, want ErrPlanStale and the same id", err)
		}
	})
}

// A ledger made by someone else is listed by its own columns; its months are not made, its id not rotated.
func TestConformanceLegacy(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		legacy, err := b.scheme.WithColumns(partition.Columns{OrderID: "k", CreateTime: "made"})
		b.must(err)
		m := partition.NewManager(b.DB, legacy, b.zone)
		for _, name := range []string{prefix, b.table(-2), b.table(0)} {
			b.sql("CREATE TABLE " + name + " (k VARCHAR(64) PRIMARY KEY, made DATETIME NOT NULL)")
		}
		old := (b.month - 2).Start(b.zone).Add(time.Hour)
		b.sql("INSERT INTO "+b.table(-2)+" VALUES ('A', ?)", old)
		b.sql("INSERT INTO "+prefix+" VALUES ('B', ?)", old)
		l, err := m.List(b.Context(), partition.ListRequest{Exact: true, Retention: time.Hour})
		b.must(err)
		if len(l.Tables) != 3 || !l.Legacy || l.Catalog.LedgerID != "" {
			b.Fatalf("%+v", l)
		}
		for i, want := range []partition.Info{
			{Month: b.month - 2, Table: b.table(-2), State: "expired", Rows: 1}, {Month: b.month, Table: b.table(0), State: "current"},
			{Table: prefix, State: "live", Rows: 1},
		} {
			got := l.Tables[i]
			if got.Month != want.Month || got.Table != want.Table || got.State != want.State || got.Rows != want.Rows {
				b.Errorf("%+v, want %+v", got, want)
			}
			if want.Rows == 1 && (!got.NewestCreate.Equal(old) || !got.NewestExpire.Equal(old.Add(time.Hour))) {
				b.Errorf("%s: %+v", want.Table, got)
			}
		}
		for what, err := range map[string]error{
			"create": second(m.PlanCreate(b.Context(), partition.CreateRequest{})), "create at once": second(m.Create(b.Context(), partition.CreatePlan{})),
			"rotate": second(m.PlanRotate(b.Context())),
		} {
			if !errors.Is(err, partition.ErrLegacy) {
				b.Errorf("%s: %v, want ErrLegacy", what, err)
			}
		}
		r, err := m.Check(b.Context(), partition.CheckRequest{})
		b.must(err)
		b.wantFindings(r, "fail month_missing "+b.table(-1))
		other, err := b.scheme.WithColumns(partition.Columns{OrderID: "k", CreateTime: "born"})
		b.must(err)
		if _, err := partition.NewManager(b.DB, other, b.zone).List(b.Context(), partition.ListRequest{}); !errors.Is(err, partition.ErrColumns) {
			b.Errorf("error %v, want ErrColumns", err)
		}
	})
}
