package ledger_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/idemctl/idemctl/pkg/ledger"
)

const couponMachine = `
biz_type: COUPON
states: [NEW, STOCK_LOCKED, BUDGET_DEDUCTED, COUPON_WRITTEN, CANCELLED]
transitions:
  - NEW -> STOCK_LOCKED -> BUDGET_DEDUCTED -> COUPON_WRITTEN
  - NEW -> CANCELLED
  - STOCK_LOCKED->CANCELLED
terminal: [COUPON_WRITTEN, CANCELLED]
`

func couponSpec(t testing.TB) ledger.MachineSpec {
	t.Helper()
	spec, err := ledger.ParseMachine([]byte(couponMachine))
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func TestParseMachine(t *testing.T) {
	t.Parallel()
	spec := couponSpec(t)
	want := []ledger.Transition{
		{From: "NEW", To: "STOCK_LOCKED"}, {From: "STOCK_LOCKED", To: "BUDGET_DEDUCTED"}, {From: "BUDGET_DEDUCTED", To: "COUPON_WRITTEN"},
		{From: "NEW", To: "CANCELLED"}, {From: "STOCK_LOCKED", To: "CANCELLED"},
	}
	if !slices.Equal(spec.Transitions, want) || spec.Initial() != "NEW" || !slices.Equal(spec.Next("NEW"), []string{"STOCK_LOCKED", "CANCELLED"}) {
		t.Errorf("%+v", spec)
	}
	if !spec.Reaches("NEW", "COUPON_WRITTEN") || spec.Reaches("NEW", "NEW") || spec.Reaches("COUPON_WRITTEN", "NEW") || spec.Reaches("BUDGET_DEDUCTED", "CANCELLED") {
		t.Error("what reaches what is wrong")
	}
	for _, bad := range []ledger.Transition{{From: "NEW", To: "COUPON_WRITTEN"}, {From: "CANCELLED", To: "NEW"}, {From: "NEW", To: "new"}, {From: "", To: "NEW"}} {
		if err := spec.Check(bad); !errors.Is(err, ledger.ErrIllegalTransition) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// A declaration on which a step could run twice, or an order could never end, is refused, and told why.
func TestMachineRefused(t *testing.T) {
	t.Parallel()
	const head = "biz_type: COUPON\n"
	for text, want := range map[string]string{
		"": "the declaration is empty",
		"biz_type: 'A B'\nstates: [A, B]\ntransitions: [A -> B]\nterminal: [B]": `biz_type "A B"`,
		head: "it has no states; it has no terminal state",
		head + "states: [A, B]\ntransitions: [A -> B]":                                              "it has no terminal state",
		head + "states: [A, B, A]\ntransitions: [A -> B]\nterminal: [B]":                            "state A is declared twice",
		head + "states: [A, 'B C']\ntransitions: [A -> B C]\nterminal: ['B C']":                     `state "B C": expected 1 to 64`,
		head + "states: [A, " + strings.Repeat("x", 65) + "]\ntransitions: [A -> B]\nterminal: [A]": "expected 1 to 64",
		head + "states: [A, B]\ntransitions: [A -> C]\nterminal: [B]":                               `transition A -> C: state "C" is not among the states`,
		head + "states: [A, B]\ntransitions: [A -> B]\nterminal: [B, C]":                            `terminal state "C" is not among the states`,
		head + "states: [A, B]\ntransitions: [A -> B]\nterminal: [B, B]":                            "terminal state B is declared twice",
		head + "states: [A, B]\ntransitions: [A -> B, A->B]\nterminal: [B]":                         "transition A -> B is declared twice",
		head + "states: [A, B]\ntransitions: [A -> B -> A]\nterminal: [B]":                          "transition B -> A: B is terminal, nothing leads out of it",
		head + "states: [A, B, C]\ntransitions: [A -> B]\nterminal: [B, C]":                         "state C is never reached from A",
		head + "states: [A, B, C]\ntransitions: [A -> B, A -> C]\nterminal: [B]":                    "no way leads from state C to a terminal one",
		head + "states: [A, B, C]\ntransitions: [A -> B -> A, B -> C]\nterminal: [C]":               "state A can come again: its step's effect would run twice",
		head + "states: [A, B]\ntransitions: [A -> A, A -> B]\nterminal: [B]":                       "state A can come again",
		head + "states: [A, B]\ntransitions: [A]\nterminal: [B]":                                    `transition "A": expected FROM -> TO`,
		head + "states: [A, B]\ntransitions: [A -> -> B]\nterminal: [B]":                            "a state is missing beside ->",
		head + "states: [A, B]\ntransitions: [A -> B]\nterminal: [B]\nterminals: [B]":               "field terminals not found",
		head + "states: [A, B]\ntransitions: [A -> B]\nterminal: [B]\n---\nbiz_type: B\n":           "the file declares more than one",
	} {
		spec, err := ledger.ParseMachine([]byte(text))
		if !errors.Is(err, ledger.ErrMachine) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want %q", text, spec, err, want)
		}
	}
}

// Of any declaration that is accepted, every state is reached, every way ends in a terminal state, and none goes in a
// circle.
func TestAcceptedMachinesEnd(t *testing.T) {
	t.Parallel()
	names := []string{"A", "B", "C", "D", "E"}
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		spec := ledger.MachineSpec{BizType: "X", States: names[:rapid.IntRange(1, len(names)).Draw(t, "states")]}
		state := rapid.SampledFrom(spec.States)
		spec.Terminal = rapid.SliceOfNDistinct(state, 1, 2, rapid.ID[string]).Draw(t, "terminal")
		spec.Transitions = rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) ledger.Transition {
			return ledger.Transition{From: state.Draw(t, "from"), To: state.Draw(t, "to")}
		}), 0, 6, rapid.ID[ledger.Transition]).Draw(t, "transitions")
		if spec.Validate() != nil {
			return
		}
		accepted++
		reached := map[string]bool{}
		var walk func(at string, length int)
		walk = func(at string, length int) {
			reached[at] = true
			next := spec.Next(at)
			if length > len(spec.States) {
				t.Fatalf("%+v goes in a circle", spec)
			}
			if (len(next) == 0) != spec.IsTerminal(at) {
				t.Fatalf("%+v: %s leads to %v", spec, at, next)
			}
			for _, n := range next {
				walk(n, length+1)
			}
		}
		walk(spec.Initial(), 1)
		if len(reached) != len(spec.States) {
			t.Fatalf("%+v: only %v is reached", spec, reached)
		}
	})
	if accepted == 0 {
		t.Error("no declaration was accepted: the test looked at nothing")
	}
}
