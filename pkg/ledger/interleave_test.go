package ledger_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/ledger/ledgertest"
)

// Two claims of one key in two months (hazard G19, invariant 8), in every order of their steps: insert, look, commit. There
// are 20. Exactly one may have its effect; with a look that does not lock, or one that comes before the insert, some order
// must give two, or this test could not tell.
func TestEveryInterleavingOfTwoMonths(t *testing.T) {
	t.Parallel()
	for _, db := range testenv.Databases(t) {
		t.Run(db.Name, func(t *testing.T) {
			t.Parallel()
			w := ledgertest.New(t, db.Schema(t), testenv.Redis(t))
			asBuilt := func(*ledger.Guard) {}
			variants := []struct {
				name    string
				size    int // messages of a claim
				change  func(*ledger.Guard)
				correct bool
			}{
				{"as built", 1, asBuilt, true},
				{"plain look", 1, ledger.ProbePlainly, false},
				{"look before insert", 1, ledger.ProbeFirst, false},
				// Batches ask first whether a month has any row at all: here both begin empty.
				{"batches", 20, asBuilt, true},
				{"batches that ask plainly whether a month is empty", 20, ledger.AskEmptyPlainly, false},
			}
			for _, v := range variants {
				t.Run(v.name, func(t *testing.T) {
					twice := []string{}
					store := w.Store()
					for _, order := range interleavings("AAA", "BBB") {
						for _, table := range []string{w.Scheme.Table(w.Month - 1), w.Scheme.Table(w.Month), "coupon"} {
							w.SQL("DELETE FROM " + table)
						}
						var batch []ledger.Message
						for i := range v.size {
							batch = append(batch, w.Message(fmt.Sprintf("%s %s %02d", v.name, order, i)))
						}
						outcomes := interleave(t, w, store, batch, order, v.change)
						for _, m := range batch {
							if n := w.Coupons(m); n != 1 {
								twice = append(twice, fmt.Sprintf("%s: %d effects %v", order, n, outcomes))
								break
							}
						}
					}
					if v.correct && len(twice) > 0 {
						t.Errorf("not exactly one effect:\n%s", strings.Join(twice, "\n"))
					}
					if !v.correct && len(twice) == 0 {
						t.Error("a broken guard passed every order: this test proves nothing")
					}
				})
			}
		})
	}
}

// interleavings are all the ways to merge two sequences, each in its own order.
func interleavings(a, b string) []string {
	if a == "" || b == "" {
		return []string{a + b}
	}
	var all []string
	for _, rest := range interleavings(a[1:], b) {
		all = append(all, a[:1]+rest)
	}
	for _, rest := range interleavings(a, b[1:]) {
		all = append(all, b[:1]+rest)
	}
	return all
}

// actor is a claim that takes one step at a time.
type actor struct {
	permit  chan struct{} // a step may be taken
	arrived chan struct{} // a step has been taken, and the next waits
	free    chan struct{} // no more waiting
	done    chan ledger.Result
	blocked bool
}

// interleave runs two claims of a batch, A in its own month and B in the previous one, their steps in the order given. A step
// that waits for the other's lock is left waiting and the order goes on.
func interleave(t *testing.T, w *ledgertest.Workbench, store *ledger.Store, batch []ledger.Message, order string, change func(*ledger.Guard)) []ledger.Outcome {
	t.Helper()
	actors := map[rune]*actor{}
	for _, name := range "AB" {
		a := &actor{permit: make(chan struct{}), arrived: make(chan struct{}, 8), free: make(chan struct{}), done: make(chan ledger.Result, 1)}
		actors[name] = a
		mine := slices.Clone(batch)
		for i := range mine {
			if name == 'B' {
				mine[i].Time = (w.Month - 1).Start(w.Zone).Add(time.Hour)
			}
		}
		g := w.Guard(func(o *ledger.GuardOptions) {
			o.Store, o.Filter = store, nil
			o.OnStep = a.gate(batch[0].Key)
		})
		change(g)
		go func() {
			res := g.DoBatch(t.Context(), mine, w.GrantAll(mine))[0]
			if res.Err != nil {
				t.Error(res.Err)
			}
			a.done <- res
		}()
		<-a.arrived // at the gate before its first step
	}
	for _, name := range order {
		a := actors[name]
		if a.blocked || len(a.done) > 0 {
			continue
		}
		a.permit <- struct{}{}
		a.await(t, w, actors)
	}
	var outcomes []ledger.Outcome
	for _, name := range "AB" {
		if a := actors[name]; !a.blocked {
			close(a.free)
		}
	}
	for _, name := range "AB" {
		outcomes = append(outcomes, (<-actors[name].done).Outcome)
	}
	return outcomes
}

// gate stops the first transaction of a claim before each of its three steps, as one message of it reports them; what it
// does again runs freely.
func (a *actor) gate(key ledger.Key) func(context.Context, ledger.Step, ledger.Message) {
	stops := 0
	first := ""
	return func(_ context.Context, s ledger.Step, m ledger.Message) {
		switch {
		case m.Key != key:
			return
		case s == ledger.StepLeased, s == ledger.StepConfirmed:
		case (s == ledger.StepInserted || s == ledger.StepProbed) && first == "":
			first = string(s)
		default:
			return
		}
		stops++
		if stops > 3 {
			return
		}
		a.arrived <- struct{}{}
		select {
		case <-a.permit:
		case <-a.free:
		}
	}
}

// await returns when the actor has taken its step, has ended, or waits for a lock.
func (a *actor) await(t *testing.T, w *ledgertest.Workbench, actors map[rune]*actor) {
	t.Helper()
	others := 0
	for _, o := range actors {
		if o.blocked {
			others++
		}
	}
	tick := time.NewTicker(ledgertest.LockWaitsAge)
	defer tick.Stop()
	for {
		select {
		case <-a.arrived:
			return
		case res := <-a.done:
			a.done <- res
			return
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-tick.C:
			if w.LockWaits() > others {
				a.blocked = true
				close(a.free) // once the lock is there, or the deadlock is resolved, it runs to its end
				return
			}
		}
	}
}
