package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/ledger"
)

// stateBench is a schema with the tables of state machines and a business table whose rows can be counted.
type stateBench struct {
	*testing.T

	schema *testenv.Schema
	store  *ledger.StateStore
	spec   ledger.MachineSpec
}

func onEachStateBench(t *testing.T, test func(b *stateBench)) {
	t.Helper()
	for _, db := range testenv.Databases(t) {
		t.Run(db.Name, func(t *testing.T) {
			t.Parallel()
			test(newStateBench(t, db.Schema(t)))
		})
	}
}

func newStateBench(t *testing.T, schema *testenv.Schema) *stateBench {
	t.Helper()
	b := &stateBench{T: t, schema: schema, spec: couponSpec(t)}
	b.store = b.open(nil, "")
	plan, err := b.store.PlanTables(t.Context())
	b.must(err)
	b.must(b.store.CreateTables(t.Context(), plan))
	b.sql("CREATE TABLE work (id BIGINT AUTO_INCREMENT PRIMARY KEY, order_id VARBINARY(128) NOT NULL, step VARBINARY(128) NOT NULL, KEY (order_id)) ENGINE=InnoDB")
	return b
}

func (b *stateBench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *stateBench) sql(statements ...string) {
	b.Helper()
	for _, s := range statements {
		if _, err := b.schema.DB.ExecContext(b.Context(), s); err != nil {
			b.Fatalf("%s: %v", s, err)
		}
	}
}

// open makes a store with a pool of its own for transactions; dial may be nil, params are added to the DSN.
func (b *stateBench) open(dial func(context.Context, string) (net.Conn, error), params string) *ledger.StateStore {
	b.Helper()
	dsn := b.schema.DSN
	if params != "" {
		dsn += "?" + params
	}
	tx, err := mysqlx.Open(mysqlx.Options{DSN: dsn, Guard: true, Dial: dial})
	b.must(err)
	b.Cleanup(func() { _ = tx.Close() })
	return ledger.NewStateStore(tx, b.schema.DB)
}

func (b *stateBench) machine(change ...func(*ledger.StateOptions)) *ledger.StateMachine {
	b.Helper()
	opts := ledger.StateOptions{Store: b.store, Spec: b.spec, Who: "test"}
	for _, c := range change {
		c(&opts)
	}
	m, err := ledger.NewStateMachine(b.Context(), opts)
	b.must(err)
	return m
}

func couponKey(id string) ledger.Key { return ledger.Key{BizType: "COUPON", OrderID: id} }

// step is a transition, "NEW -> STOCK_LOCKED", whose effect leaves a row.
func (b *stateBench) step(k ledger.Key, arrow string) ledger.StateStep {
	b.Helper()
	ts, err := ledger.ParseTransitions([]string{arrow})
	b.must(err)
	return ledger.StateStep{Transition: ts[0], Effect: func(ctx context.Context, tx ledger.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO work (order_id, step) VALUES (?, ?)", []byte(k.OrderID), arrow)
		return err
	}}
}

// couponWay are the steps of the usual way.
func (b *stateBench) couponWay(k ledger.Key) []ledger.StateStep {
	b.Helper()
	return []ledger.StateStep{b.step(k, "BUDGET_DEDUCTED -> COUPON_WRITTEN"), b.step(k, "NEW -> STOCK_LOCKED"), b.step(k, "STOCK_LOCKED -> BUDGET_DEDUCTED")}
}

// work are the effects of an order, in the order in which they were committed.
func (b *stateBench) work(k ledger.Key) []string {
	b.Helper()
	rows, err := b.schema.DB.QueryContext(b.Context(), "SELECT step FROM work WHERE order_id = ? ORDER BY id", []byte(k.OrderID))
	b.must(err)
	defer rows.Close()
	steps := []string{}
	for rows.Next() {
		var s string
		b.must(rows.Scan(&s))
		steps = append(steps, s)
	}
	b.must(rows.Err())
	return steps
}

// exact checks that state, history and effects of an order tell the same story: a chain of transitions from the beginning
// to where it stands, and each one's effect once.
func (b *stateBench) exact(k ledger.Key, end string) {
	b.Helper()
	if err := b.inexact(b.Context(), k, end); err != nil {
		b.Error(err)
	}
}

func (b *stateBench) inexact(ctx context.Context, k ledger.Key, end string) error {
	states, err := b.store.Find(ctx, k.OrderID)
	if err != nil {
		return err
	}
	changes, err := b.store.History(ctx, k)
	if err != nil {
		return err
	}
	if len(states) != 1 || end != "" && states[0].State != end {
		return fmt.Errorf("%s stands at %+v, want %s", k.OrderID, states, end)
	}
	at := ""
	want := []string{}
	for i, c := range changes {
		if c.From != at || c.Version != int64(i+1) {
			return fmt.Errorf("%s: version %d goes from %q after %q", k.OrderID, c.Version, c.From, at)
		}
		if c.From != "" {
			want = append(want, c.From+" -> "+c.To)
		}
		at = c.To
	}
	if at != states[0].State || int64(len(changes)) != states[0].Version {
		return fmt.Errorf("%s stands at %s, version %d; its history ends at %s after %d", k.OrderID, states[0].State, states[0].Version, at, len(changes))
	}
	got := b.work(k)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		return fmt.Errorf("%s: effects %v, want %v", k.OrderID, got, want)
	}
	return nil
}

// hazard G20, invariant 1: an order delivered again goes on where it stands, and each step's effect is there once; every
// transition leaves a history row.
func TestStateRun(t *testing.T) {
	t.Parallel()
	onEachStateBench(t, func(b *stateBench) {
		m := b.machine()
		for _, id := range []string{"A-1", "a-1", "A-1 ", "\x00\xff'"} { // byte-exact keys
			k := couponKey(id)
			for made := range []int{0, 1} {
				run, err := m.Run(b.Context(), k, b.couponWay(k))
				if err != nil || !run.Terminal || run.State != "COUPON_WRITTEN" || len(run.Made) != []int{3, 0}[made] {
					b.Fatalf("%q: %+v, %v", id, run, err)
				}
			}
			b.exact(k, "COUPON_WRITTEN")
		}
		changes, err := b.store.History(b.Context(), couponKey("A-1"))
		if err != nil || len(changes) != 4 || changes[1].Who != "test" || changes[1].ClaimID == (ledger.ClaimID{}) || changes[1].At.IsZero() {
			b.Errorf("%+v, %v", changes, err)
		}
	})
}

// hazard G20: what a transition meets is told apart, whatever a connection counts as affected rows.
func TestStateOutcomes(t *testing.T) {
	t.Parallel()
	onEachStateBench(t, func(b *stateBench) {
		for _, params := range []string{"", "clientFoundRows=true"} {
			m := b.machine(func(o *ledger.StateOptions) { o.Store = b.open(nil, params) })
			for _, c := range []struct {
				came    []string // by these
				arrow   string
				outcome ledger.StateOutcome
				by      bool // bypassed
				err     error
				early   bool
			}{
				{nil, "NEW -> STOCK_LOCKED", ledger.StateAdvanced, false, nil, false},
				{[]string{"NEW -> STOCK_LOCKED"}, "NEW -> STOCK_LOCKED", ledger.StateDuplicate, false, nil, false},
				{[]string{"NEW -> STOCK_LOCKED", "STOCK_LOCKED -> BUDGET_DEDUCTED"}, "NEW -> STOCK_LOCKED", ledger.StateLate, false, nil, false},
				{[]string{"NEW -> CANCELLED"}, "NEW -> STOCK_LOCKED", ledger.StateLate, true, nil, false},
				{nil, "STOCK_LOCKED -> BUDGET_DEDUCTED", ledger.StateFailed, false, ledger.ErrIllegalTransition, true},
				{[]string{"NEW -> CANCELLED"}, "STOCK_LOCKED -> BUDGET_DEDUCTED", ledger.StateFailed, false, ledger.ErrIllegalTransition, false},
				{[]string{"NEW -> CANCELLED"}, "STOCK_LOCKED -> CANCELLED", ledger.StateDuplicate, false, nil, false},
				{nil, "NEW -> COUPON_WRITTEN", ledger.StateFailed, false, ledger.ErrIllegalTransition, false}, // not in the machine
				{[]string{"NEW -> CANCELLED"}, "CANCELLED -> NEW", ledger.StateFailed, false, ledger.ErrIllegalTransition, false},
			} {
				k := couponKey(fmt.Sprintf("%s/%v/%s", params, c.came, c.arrow))
				if _, err := m.Start(b.Context(), k); err != nil {
					b.Fatal(err)
				}
				for _, arrow := range c.came {
					if res, err := m.Advance(b.Context(), k, b.step(k, arrow)); err != nil || res.Outcome != ledger.StateAdvanced {
						b.Fatalf("%s: %+v, %v", arrow, res, err)
					}
				}
				for name, try := range map[string]func() (ledger.StateResult, error){
					"a look": func() (ledger.StateResult, error) {
						return m.Classify(b.Context(), k, b.step(k, c.arrow).Transition)
					},
					"for real": func() (ledger.StateResult, error) { return m.Advance(b.Context(), k, b.step(k, c.arrow)) },
				} {
					if name == "a look" && c.outcome == ledger.StateAdvanced {
						continue // it may come after
					}
					res, err := try()
					if res.Outcome != c.outcome || res.Bypassed != c.by || !errors.Is(err, c.err) || err != nil && c.err == nil {
						b.Errorf("%s, %s after %v: %+v, %v", name, c.arrow, c.came, res, err)
					}
					if moved, ok := errors.AsType[*ledger.TransitionError](err); ok && moved.Early != c.early {
						b.Errorf("%s after %v: early %v: %v", c.arrow, c.came, moved.Early, err)
					}
				}
				b.exact(k, "")
			}
		}
		m := b.machine()
		k := couponKey("nobody")
		if _, err := m.Advance(b.Context(), k, b.step(k, "NEW -> CANCELLED")); !errors.Is(err, ledger.ErrNotBegun) {
			b.Errorf("an order nobody began: %v", err)
		}
		for _, k := range []ledger.Key{{BizType: "SHIPMENT", OrderID: "1"}, couponKey(""), couponKey(strings.Repeat("k", 129))} {
			if _, err := m.Run(b.Context(), k, nil); !errors.Is(err, ledger.ErrKey) {
				b.Errorf("%+v: %v, want ErrKey", k, err)
			}
		}
	})
}

// A state that the machine does not have, or no step for it, ends a run with an error; nothing is done by accident.
func TestStateRunRefuses(t *testing.T) {
	t.Parallel()
	onEachStateBench(t, func(b *stateBench) {
		m := b.machine()
		k := couponKey("1")
		run, err := m.Run(b.Context(), k, []ledger.StateStep{b.step(k, "NEW -> STOCK_LOCKED")})
		if !errors.Is(err, ledger.ErrNoStep) || run.Terminal || run.State != "STOCK_LOCKED" || len(run.Made) != 1 {
			b.Errorf("half a way: %+v, %v", run, err)
		}
		if _, err := m.Run(b.Context(), k, []ledger.StateStep{b.step(k, "NEW -> STOCK_LOCKED"), b.step(k, "NEW -> CANCELLED")}); !errors.Is(err, ledger.ErrIllegalTransition) {
			b.Errorf("two steps from one state: %v", err)
		}
		b.sql("UPDATE t_idempotent_state SET state = 'PACKED'")
		if run, err := m.Run(b.Context(), k, b.couponWay(k)); !errors.Is(err, ledger.ErrUnknownState) || run.Terminal {
			b.Errorf("an unknown state: %+v, %v", run, err)
		}
		if _, err := m.Advance(b.Context(), k, b.step(k, "NEW -> STOCK_LOCKED")); !errors.Is(err, ledger.ErrUnknownState) {
			b.Errorf("an unknown state: %v", err)
		}
	})
}

// Invariant 6, hazards G8, G18: an effect that fails, loses its transaction or ends it leaves no transition that did not
// have its effect, and no effect without its transition, as far as the server lets us.
func TestStateEffects(t *testing.T) {
	t.Parallel()
	onEachStateBench(t, func(b *stateBench) {
		boom := errors.New("no stock")
		for name, c := range map[string]struct {
			effect func(ctx context.Context, tx ledger.Tx, try int) error
			err    error
			state  string
			tries  int
		}{
			"an error of its own": {func(context.Context, ledger.Tx, int) error { return boom }, boom, "NEW", 1},
			"a duplicate key of its own": {func(ctx context.Context, tx ledger.Tx, _ int) error {
				_, err := tx.ExecContext(ctx, "INSERT INTO work (id, order_id, step) SELECT id, order_id, step FROM work LIMIT 1")
				return err
			}, nil, "NEW", 1},
			"a deadlock that it swallows": {func(ctx context.Context, tx ledger.Tx, try int) error {
				if try == 1 {
					_, _ = tx.ExecContext(ctx, "SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213")
				}
				return nil
			}, nil, "STOCK_LOCKED", 2},
			"a rollback of all": {func(ctx context.Context, tx ledger.Tx, try int) error {
				if try > 1 {
					return nil
				}
				_, err := tx.ExecContext(ctx, "ROLLBACK")
				return err
			}, nil, "STOCK_LOCKED", 2},
			"a commit": {func(ctx context.Context, tx ledger.Tx, _ int) error {
				_, err := tx.ExecContext(ctx, "COMMIT")
				return err
			}, ledger.ErrEffectEndedTransaction, "STOCK_LOCKED", 1},
		} {
			m := b.machine()
			k := couponKey(name)
			first := couponKey("there before")
			if _, err := m.Run(b.Context(), first, b.couponWay(first)); err != nil {
				b.Fatal(err)
			}
			if _, err := m.Start(b.Context(), k); err != nil {
				b.Fatal(err)
			}
			step := b.step(k, "NEW -> STOCK_LOCKED")
			write, tries := step.Effect, 0
			step.Effect = func(ctx context.Context, tx ledger.Tx) error {
				tries++
				if err := write(ctx, tx); err != nil {
					return err
				}
				return c.effect(ctx, tx, tries)
			}
			res, err := m.Advance(b.Context(), k, step)
			effectFailed := false
			if _, ok := errors.AsType[*ledger.EffectError](err); ok {
				effectFailed = true
			}
			if tries != c.tries || res.Attempts != c.tries || c.err != nil && !errors.Is(err, c.err) || (c.state == "NEW") != effectFailed {
				b.Errorf("%s: %d tries, %+v, %v", name, tries, res, err)
			}
			b.exact(k, c.state)
		}
	})
}

// The order ends when its deadline does: nothing of the step stays, and the error says whose deadline it was.
func TestStateDeadline(t *testing.T) {
	t.Parallel()
	onEachStateBench(t, func(b *stateBench) {
		m := b.machine(func(o *ledger.StateOptions) { o.StepTimeout = 1 })
		k := couponKey("1")
		if _, err := m.Start(b.Context(), k); !errors.Is(err, ledger.ErrStepTimeout) {
			b.Errorf("%v, want ErrStepTimeout", err)
		}
		m = b.machine()
		if _, err := m.Start(b.Context(), k); err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithCancel(b.Context())
		step := b.step(k, "NEW -> STOCK_LOCKED")
		write := step.Effect
		step.Effect = func(ctx context.Context, tx ledger.Tx) error {
			defer cancel()
			return write(ctx, tx)
		}
		res, err := m.Advance(ctx, k, step)
		if !errors.Is(err, context.Canceled) || res.Outcome != ledger.StateFailed {
			b.Errorf("%+v, %v", res, err)
		}
		b.exact(k, "NEW")
	})
}

// A remark that is too long is cut at a character's border, and never fails a transition.
func TestStateRemarksAreCut(t *testing.T) {
	t.Parallel()
	onEachStateBench(t, func(b *stateBench) {
		m := b.machine(func(o *ledger.StateOptions) { o.Who = strings.Repeat("订", 60) })
		k := couponKey("1")
		_, err := m.Start(b.Context(), k)
		b.must(err)
		_, err = m.Advance(b.Context(), k, ledger.StateStep{Transition: ledger.Transition{From: "NEW", To: "CANCELLED"}, Why: "x" + strings.Repeat("é", 400)})
		b.must(err)
		changes, err := b.store.History(b.Context(), k)
		b.must(err)
		if last := changes[1]; last.Who != strings.Repeat("订", 42) || last.Why != "x"+strings.Repeat("é", 255) {
			b.Errorf("%d and %d bytes: %q %q", len(last.Who), len(last.Why), last.Who, last.Why)
		}
	})
}
