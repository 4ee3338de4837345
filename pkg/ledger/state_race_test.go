package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/ledger/ledgertest"
)

// sentCommit is the COMMIT command as the MySQL protocol sends it.
const sentCommit = "\x03COMMIT"

// hazard G10, invariant 7: a COMMIT without an answer is settled by reading the history again by claim id. The effect is
// run again exactly if the COMMIT did not arrive.
func TestStateLostCommit(t *testing.T) {
	t.Parallel()
	onEachStateBench(t, func(b *stateBench) {
		for name, before := range map[string]bool{"after it went through": false, "before it arrived": true} {
			for i, arrow := range []string{"NEW -> STOCK_LOCKED", "STOCK_LOCKED -> BUDGET_DEDUCTED", "BUDGET_DEDUCTED -> COUPON_WRITTEN"} {
				proxy := ledgertest.NewProxy(b, mysqlx.Address(b.schema.DSN))
				k := couponKey(fmt.Sprint(name, i))
				ran := 0
				m := b.machine(func(o *ledger.StateOptions) {
					o.Store = b.open(proxy.Dial, "")
					o.OnStep = func(_ context.Context, s ledger.Step, _ ledger.Key, t ledger.Transition) {
						if s == ledger.StepEffect && t.String() == arrow {
							ran++
							if ran == 1 {
								proxy.CutOn(sentCommit, before)
							}
						}
					}
				})
				run, err := m.Run(b.Context(), k, b.couponWay(k))
				if err != nil || !run.Terminal || len(run.Made) != 3 || proxy.Cuts() != 1 {
					b.Fatalf("%s, %s: %+v, %v, %d cuts", name, arrow, run, err, proxy.Cuts())
				}
				if want := map[bool]int{false: 1, true: 2}[before]; ran != want {
					b.Errorf("%s, %s: the effect ran %d times, want %d", name, arrow, ran, want)
				}
				b.exact(k, "COUPON_WRITTEN")
			}
		}
	})
}

// The COMMIT of an order's beginning may be lost as well.
func TestStateLostBeginning(t *testing.T) {
	t.Parallel()
	onEachStateBench(t, func(b *stateBench) {
		for name, before := range map[string]bool{"after": false, "before": true} {
			proxy := ledgertest.NewProxy(b, mysqlx.Address(b.schema.DSN))
			m := b.machine(func(o *ledger.StateOptions) { o.Store = b.open(proxy.Dial, "") })
			proxy.CutOn(sentCommit, before)
			k := couponKey(name)
			if state, err := m.Start(b.Context(), k); err != nil || state != "NEW" || proxy.Cuts() != 1 {
				b.Errorf("%s: %s, %v, %d cuts", name, state, err, proxy.Cuts())
			}
			b.exact(k, "NEW")
		}
	})
}

// A COMMIT that nobody can be asked about is an error of its own, never a guess.
func TestStateCommitUnknown(t *testing.T) {
	t.Parallel()
	onEachStateBench(t, func(b *stateBench) {
		proxy := ledgertest.NewProxy(b, mysqlx.Address(b.schema.DSN))
		k := couponKey("1")
		if _, err := b.machine().Start(b.Context(), k); err != nil {
			b.Fatal(err)
		}
		// The order's row is held by someone else when the answer is looked for.
		holder, err := b.schema.DB.BeginTx(b.Context(), nil)
		b.must(err)
		defer holder.Rollback()
		proxy.OnCut(func() {
			_, _ = holder.ExecContext(b.Context(), "SELECT * FROM t_idempotent_state WHERE order_id = '1' FOR UPDATE")
		})
		m := b.machine(func(o *ledger.StateOptions) {
			o.Store = b.open(proxy.Dial, "")
			o.SettleTimeout = 200 * time.Millisecond
			o.OnStep = func(_ context.Context, s ledger.Step, _ ledger.Key, _ ledger.Transition) {
				if s == ledger.StepEffect {
					proxy.CutOn(sentCommit, false)
				}
			}
		})
		res, err := m.Advance(b.Context(), k, b.step(k, "NEW -> STOCK_LOCKED"))
		if !errors.Is(err, ledger.ErrCommitUnknown) || res.Outcome != ledger.StateFailed {
			b.Errorf("%+v, %v; want ErrCommitUnknown", res, err)
		}
		b.must(holder.Rollback())
		run, err := b.machine().Run(b.Context(), k, b.couponWay(k)) // the next delivery finds out
		if err != nil || len(run.Made) != 2 {
			b.Errorf("the next delivery: %+v, %v", run, err)
		}
		b.exact(k, "COUPON_WRITTEN")
	})
}

// Invariant 1, hazard G9: fifty deliveries of one order at once, half of which find a cancellation on their way.
func TestStateRace(t *testing.T) {
	t.Parallel()
	onEachStateBench(t, func(b *stateBench) {
		m := b.machine(func(o *ledger.StateOptions) { o.Attempts = 100 })
		const deliveries = 50
		for _, cancelled := range []bool{false, true} {
			k := couponKey(fmt.Sprint("race", cancelled))
			if cancelled {
				if _, err := m.Start(b.Context(), k); err != nil {
					b.Fatal(err)
				}
			}
			var made, moved atomic.Int64
			var wg sync.WaitGroup
			gate := make(chan struct{})
			for i := range deliveries {
				wg.Go(func() {
					<-gate
					if cancelled && i%2 == 0 {
						res, err := m.Advance(b.Context(), k, b.step(k, "STOCK_LOCKED -> CANCELLED"))
						if _, illegal := errors.AsType[*ledger.TransitionError](err); err != nil && !illegal {
							b.Errorf("cancel: %+v, %v", res, err)
						}
						if res.Outcome == ledger.StateAdvanced {
							moved.Add(1)
						}
						return
					}
					run, err := m.Run(b.Context(), k, b.couponWay(k))
					if err != nil || !run.Terminal {
						b.Errorf("%+v, %v", run, err)
					}
					made.Add(int64(len(run.Made)))
				})
			}
			close(gate)
			wg.Wait()
			b.exact(k, "")
			if total := made.Load() + moved.Load(); total != int64(len(b.work(k))) {
				b.Errorf("%d transitions were reported, %d were made", total, len(b.work(k)))
			}
		}
	})
}
