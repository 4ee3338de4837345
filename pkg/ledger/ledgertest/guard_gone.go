package ledgertest

import (
	"strings"
	"testing"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/partition"
)

// heldName is the name of a month that a purge has taken away.
const heldName = "t_idempotent_flow_held_1a2b3c4d"

// hold does to a month what a purge does before it drops it: the move is listed, done and settled.
func (w *Workbench) hold(month partition.Month) {
	w.T.Helper()
	live := partition.Table{Month: month, Name: w.Scheme.Table(month), State: partition.Live}
	w.entry(month, partition.Table{Month: month, Name: live.Name, State: partition.Moving, Also: heldName})
	w.SQL("RENAME TABLE " + live.Name + " TO " + heldName)
	w.entry(month, partition.Table{Month: month, Name: heldName, State: partition.Held})
}

// entry replaces what the catalog says of a month.
func (w *Workbench) entry(month partition.Month, entry partition.Table) {
	w.T.Helper()
	w.Catalog(func(c *partition.Catalog) {
		for i := range c.Tables {
			if c.Tables[i].Month == month {
				c.Tables[i] = entry
			}
		}
	})
}

// hazard G25: a purge was killed between DROP and taking the month off the list. Nobody may have to wait for the next purge,
// and what the month held is outside the horizon.
func droppedMonth(t *testing.T, mk bench, do Do) {
	w := mk(t)
	previous := w.Month - 1
	before := w.Guard() // knows a catalog in which the month is live
	done := w.NewMessage()
	res, err := do(t.Context(), before, done, w.Grant(done))
	w.Want(ledger.Executed, res, err)
	old := w.NewMessage()
	old.Time = previous.Start(w.Zone).Add(time.Hour)
	res, err = do(t.Context(), before, old, w.Grant(old))
	w.Want(ledger.Executed, res, err)

	w.hold(previous)
	inHold := w.Guard() // has it as held
	w.Catalog(func(c *partition.Catalog) { c.LostUntil = previous.End(w.Zone) })
	inHoldRaised := w.Guard()
	w.SQL("DROP TABLE " + heldName)
	w.Forget(old)
	for name, g := range map[string]*ledger.Guard{"live": before, "held": inHold, "held, horizon raised": inHoldRaised, "dropped": w.Guard()} {
		fresh := w.NewMessage()
		res, err := do(t.Context(), g, fresh, w.Grant(fresh))
		if err != nil {
			t.Fatalf("a guard that knew the month as %s: %v", name, err)
		}
		w.Want(ledger.Executed, res, nil)
		w.ExactlyOnce(fresh)
		w.Forget(done)
		res, err = do(t.Context(), g, done, w.Grant(done))
		w.Want(ledger.AbsorbedLedger, res, err)
		w.ExactlyOnce(done)
		res, err = do(t.Context(), g, old, w.Grant(old))
		w.Want(ledger.OutsideHorizon, res, err)
		if n := w.Coupons(old); n != 1 {
			t.Fatalf("%d coupons of an order whose row is gone, want 1", n)
		}
		rehearsed := w.NewMessage()
		res, err = g.Rehearse(t.Context(), rehearsed, w.Grant(rehearsed))
		w.Want(ledger.Executed, res, err)
		w.Nothing(rehearsed)

		twice := w.messages(20)
		for _, want := range []ledger.Outcome{ledger.Executed, ledger.AbsorbedLedger} {
			for i, res := range g.DoBatch(t.Context(), twice, w.GrantAll(twice)) {
				w.Want(want, res, res.Err)
				w.ExactlyOnce(twice[i])
				w.Forget(twice[i])
			}
		}
		results, err := g.Classify(t.Context(), []ledger.Message{rehearsed, fresh, old})
		w.must(err)
		for i, want := range []ledger.Outcome{ledger.Executed, ledger.AbsorbedFilter, ledger.OutsideHorizon} {
			w.Want(want, results[i], nil)
		}
		if loaded, err := g.Preload(t.Context(), 20_000); err != nil || !loaded {
			t.Fatalf("read the keys: %v, %v", loaded, err)
		}
		results, err = g.Classify(t.Context(), append([]ledger.Message{rehearsed}, twice...))
		w.must(err)
		w.Want(ledger.Executed, results[0], nil)
		for _, res := range results[1:] {
			w.Want(ledger.AbsorbedLedger, res, nil)
		}
		w.must(g.Forget())
	}
}

// A month that is under neither of the names between which it moves was not dropped by a purge: nothing may run without it.
func lostMonth(t *testing.T, mk bench, do Do) {
	w := mk(t)
	previous := w.Month - 1
	g := w.Guard()
	name := w.Scheme.Table(previous)
	w.entry(previous, partition.Table{Month: previous, Name: name, State: partition.Moving, Also: heldName})
	w.SQL("DROP TABLE " + name)
	for _, g := range []*ledger.Guard{g, w.Guard()} {
		m := w.NewMessage()
		res, err := do(t.Context(), g, m, w.Grant(m))
		if res.Outcome != ledger.Failed || mysqlx.Number(err) != mysqlx.ErrNoSuchTable || !strings.Contains(err.Error(), name) {
			t.Fatalf("outcome %s, error %v; want failed, naming %s", res.Outcome, err, name)
		}
		w.Nothing(m)
		if _, err := g.Classify(t.Context(), []ledger.Message{m}); mysqlx.Number(err) != mysqlx.ErrNoSuchTable || !strings.Contains(err.Error(), heldName) {
			t.Fatalf("look-ups: %v, want an error that names %s", err, heldName)
		}
	}
}
