package ledger_test

import (
	"errors"

	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/partition"
)

// account compares what is there with what must be there, then redelivers everything once more.
func (r *race) account() {
	r.t.Helper()
	r.purge(0, nil)
	r.late(r.guard(), r.Month-raceDropped, "LATE-LAST")
	rows, coupons := r.perKey(r.tables()...), r.perKey("coupon")
	purged, total := 0, 0
	for _, n := range coupons {
		total += n
	}
	for _, k := range r.old {
		id := k.Key.OrderID
		if coupons[id] != 1 || rows[id] > 1 || k.owed.Load() && rows[id] != 1 {
			r.t.Errorf("old key %s (row owed: %v): %d effects, %d rows", id, k.owed.Load(), coupons[id], rows[id])
		}
		if rows[id] == 0 {
			purged++
		}
	}
	for _, m := range r.fresh {
		if id := m.Key.OrderID; coupons[id] != 1 || rows[id] != 1 {
			r.t.Errorf("new key %s: %d effects, %d rows", id, coupons[id], rows[id])
		}
	}
	for _, m := range r.refused {
		if id := m.Key.OrderID; coupons[id] != 0 || rows[id] != 0 {
			r.t.Errorf("refused key %s: %d effects, %d rows", id, coupons[id], rows[id])
		}
	}
	if want := len(r.old) + len(r.fresh); total != want {
		r.t.Errorf("%d effects of %d keys", total, want)
	}
	g := r.guard()
	r.redeliver(g, r.old...)
	for _, res := range g.DoBatch(r.t.Context(), r.fresh, r.GrantAll(r.fresh)) {
		if res.Outcome != ledger.AbsorbedLedger {
			r.t.Errorf("new key, once more: %s (%s) %v", res.Outcome, res.Reason, res.Err)
		}
	}
	r.t.Logf("%d new keys, %d old ones purged: %v", len(r.fresh), purged, r.seen)
	for _, what := range []string{"rows deleted", "months dropped", "months put off", "rows refreshed", "late: executed", "late: outside_horizon", "redelivered: outside_horizon"} {
		if r.seen[what] == 0 {
			r.t.Errorf("%s: none, so this race proves nothing", what)
		}
	}
}

// tables are all that the catalog lists; after a purge that nothing interrupted none is away.
func (r *race) tables() []string {
	r.t.Helper()
	cat, err := partition.LoadCatalog(r.t.Context(), r.Schema.DB, r.Scheme)
	if err != nil {
		r.t.Fatal(err)
	}
	var names []string
	for _, table := range cat.Tables {
		if table.State != partition.Live {
			r.t.Errorf("%s is %s", table.Name, table.State)
		}
		names = append(names, table.Name)
	}
	return names
}

// perKey counts rows by order id.
func (r *race) perKey(tables ...string) map[string]int {
	r.t.Helper()
	counts := map[string]int{}
	for _, table := range tables {
		rows, err := r.Schema.DB.QueryContext(r.t.Context(), "SELECT order_id, COUNT(*) FROM "+table+" GROUP BY order_id")
		if err != nil {
			r.t.Fatal(err)
		}
		for rows.Next() {
			var id string
			var n int
			if err := rows.Scan(&id, &n); err != nil {
				r.t.Fatal(err)
			}
			counts[id] += n
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			r.t.Fatal(err)
		}
	}
	return counts
}
