package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/ledger/ledgertest"
)

// stateFault is what happens to one delivery, at one point of one of its transitions.
type stateFault struct {
	kind       string
	at         ledger.Step
	transition int // the how manieth that the delivery tries
}

// The kinds: the process dies; the connection dies on the next request, before it arrives or before it is answered (at
// StepEffect that request is the COMMIT).
const (
	faultNone   = "none"
	faultCrash  = "crash"
	faultBefore = "cut before"
	faultAfter  = "cut after"
)

// stateDelivery is one delivery of an order's message, or the order's cancellation.
type stateDelivery struct {
	order  int
	cancel bool
	fault  stateFault
}

// errCrashed is what a crash panics with.
var errCrashed = errors.New("crashed")

// stateWorker is one consumer: a machine with connections of its own, through a proxy.
type stateWorker struct {
	*stateBench

	proxy   *ledgertest.Proxy
	machine *ledger.StateMachine
	fault   stateFault
	seen    int // transitions tried by the delivery in hand
}

func newStateWorker(b *stateBench) *stateWorker {
	w := &stateWorker{stateBench: b, proxy: ledgertest.NewProxy(b, mysqlx.Address(b.schema.DSN))}
	w.machine = b.machine(func(o *ledger.StateOptions) {
		o.Store, o.Attempts, o.OnStep = b.open(w.proxy.Dial, ""), 50, w.onStep
	})
	return w
}

func (w *stateWorker) onStep(_ context.Context, s ledger.Step, _ ledger.Key, _ ledger.Transition) {
	if s == ledger.StepStart {
		w.seen++
	}
	if w.seen != w.fault.transition || s != w.fault.at {
		return
	}
	kind := w.fault.kind
	w.fault = stateFault{} // once
	switch kind {
	case faultCrash:
		panic(errCrashed)
	case faultBefore, faultAfter:
		w.proxy.CutOn("", kind == faultBefore)
	}
}

// deliver handles one delivery. A crash ends it; a delivery may also meet a cancelled order.
func (w *stateWorker) deliver(ctx context.Context, k ledger.Key, d stateDelivery) (err error) {
	w.fault, w.seen = d.fault, 0
	defer func() {
		if p := recover(); p != nil && p != any(errCrashed) {
			panic(p)
		}
	}()
	if !d.cancel {
		_, err := w.machine.Run(ctx, k, w.couponWay(k))
		return err
	}
	if _, err := w.machine.Start(ctx, k); err != nil {
		return err
	}
	_, err = w.machine.Advance(ctx, k, w.step(k, "NEW -> CANCELLED"))
	if _, moved := errors.AsType[*ledger.TransitionError](err); moved {
		return nil // too late for it
	}
	return err
}

// Whatever is delivered twice, raced, killed or cut off at whatever point: in the end every order is at a terminal state,
// each of its steps' effects is there once, and its history says so.
func TestStateProperty(t *testing.T) {
	t.Parallel()
	onEachStateBench(t, func(b *stateBench) {
		workers := make([]*stateWorker, 4)
		for i := range workers {
			workers[i] = newStateWorker(b)
		}
		clean := b.machine()
		var round atomic.Int64
		drawFault := rapid.Custom(func(t *rapid.T) stateFault {
			return stateFault{
				kind:       rapid.SampledFrom([]string{faultNone, faultCrash, faultBefore, faultAfter}).Draw(t, "kind"),
				at:         rapid.SampledFrom([]ledger.Step{ledger.StepStart, ledger.StepAdvanced, ledger.StepEffect, ledger.StepCommitted}).Draw(t, "at"),
				transition: rapid.IntRange(1, 3).Draw(t, "transition"),
			}
		})
		rapid.Check(b.T, func(rt *rapid.T) {
			orders := rapid.IntRange(1, 2).Draw(rt, "orders")
			deliveries := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) stateDelivery {
				return stateDelivery{
					order:  rapid.IntRange(0, orders-1).Draw(t, "order"),
					cancel: rapid.IntRange(0, 5).Draw(t, "cancel") == 0,
					fault:  drawFault.Draw(t, "fault"),
				}
			}), orders, 6).Draw(rt, "deliveries")
			n := round.Add(1)
			key := func(order int) ledger.Key { return couponKey(fmt.Sprintf("%d/%d", n, order)) }
			errs := make([]error, len(deliveries))
			var wg sync.WaitGroup
			for i, w := range workers {
				wg.Go(func() {
					for j := i; j < len(deliveries); j += len(workers) {
						errs[j] = w.deliver(b.Context(), key(deliveries[j].order), deliveries[j])
					}
				})
			}
			wg.Wait()
			for j, err := range errs {
				if err != nil {
					rt.Fatalf("delivery %d, %+v: %v", j, deliveries[j], err)
				}
			}
			for order := range orders { // Kafka brings what did not come to its end again
				k := key(order)
				run, err := clean.Run(b.Context(), k, b.couponWay(k))
				if err != nil || !run.Terminal {
					rt.Fatalf("order %d: %+v, %v", order, run, err)
				}
				if err := b.inexact(b.Context(), k, run.State); err != nil {
					rt.Fatal(err)
				}
			}
		})
	})
}
