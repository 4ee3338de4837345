package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// MaxState is the longest name of a state in bytes: the width of its column.
const MaxState = 64

// ErrMachine is wrapped by every complaint about the declaration of a state machine.
var ErrMachine = errors.New("unusable state machine")

var stateForm = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?$`)

// Transition is one arrow of a machine.
type Transition struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// String is the transition as a declaration writes it.
func (t Transition) String() string { return t.From + " -> " + t.To }

// MachineSpec declares the states that the orders of one biz_type go through. It has no cycle, on purpose: a state that can
// come again is a step whose effect can come again.
type MachineSpec struct {
	// BizType names the effect as a whole. One biz_type has one machine.
	BizType string
	// States are all there are. Every order begins in the first.
	States []string
	// Transitions are all that is legal.
	Transitions []Transition
	// Terminal states are final: nothing leads out of them.
	Terminal []string
}

// ParseTransitions reads the written form: "NEW -> LOCKED -> DONE" is two transitions.
func ParseTransitions(chains []string) ([]Transition, error) {
	var all []Transition
	for _, chain := range chains {
		states := strings.Split(chain, "->")
		if len(states) == 1 {
			return nil, fmt.Errorf("%w: transition %q: expected FROM -> TO", ErrMachine, chain)
		}
		for i := 1; i < len(states); i++ {
			t := Transition{From: strings.TrimSpace(states[i-1]), To: strings.TrimSpace(states[i])}
			if t.From == "" || t.To == "" {
				return nil, fmt.Errorf("%w: transition %q: a state is missing beside ->", ErrMachine, chain)
			}
			all = append(all, t)
		}
	}
	return all, nil
}

// ParseMachine reads a declaration in YAML, and validates it:
//
//	biz_type: COUPON
//	states: [NEW, STOCK_LOCKED, BUDGET_DEDUCTED, COUPON_WRITTEN, CANCELLED]
//	transitions:
//	  - NEW -> STOCK_LOCKED -> BUDGET_DEDUCTED -> COUPON_WRITTEN
//	  - NEW -> CANCELLED
//	terminal: [COUPON_WRITTEN, CANCELLED]
//
// A key that is not one of these is an error.
func ParseMachine(text []byte) (MachineSpec, error) {
	var form struct {
		BizType     string   `yaml:"biz_type"`
		States      []string `yaml:"states"`
		Transitions []string `yaml:"transitions"`
		Terminal    []string `yaml:"terminal"`
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&form); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("the declaration is empty")
		}
		return MachineSpec{}, fmt.Errorf("%w: %w", ErrMachine, err)
	}
	if err := dec.Decode(new(any)); !errors.Is(err, io.EOF) {
		return MachineSpec{}, fmt.Errorf("%w: the file declares more than one; each has its own", ErrMachine)
	}
	transitions, err := ParseTransitions(form.Transitions)
	if err != nil {
		return MachineSpec{}, err
	}
	spec := MachineSpec{BizType: form.BizType, States: form.States, Transitions: transitions, Terminal: form.Terminal}
	if err := spec.Validate(); err != nil {
		return MachineSpec{}, err
	}
	return spec, nil
}

// Validate returns an error that wraps ErrMachine and tells all that is wrong: names, states that are used and not declared
// or declared and never reached, no way to a terminal state, a way out of one, and cycles.
func (m *MachineSpec) Validate() error {
	if err := ValidateBizType(m.BizType); err != nil {
		return fmt.Errorf("%w: %w", ErrMachine, err)
	}
	wrong := m.wrongNames()
	if len(wrong) == 0 {
		wrong = m.wrongShape()
	}
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%w %s: %s", ErrMachine, m.BizType, strings.Join(wrong, "; "))
}

func (m *MachineSpec) wrongNames() []string {
	var wrong []string
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if len(m.States) == 0 {
		complain("it has no states")
	}
	if len(m.Terminal) == 0 {
		complain("it has no terminal state")
	}
	seen := map[string]bool{}
	for _, s := range m.States {
		switch {
		case len(s) > MaxState || !stateForm.MatchString(s):
			complain("state %q: expected 1 to %d of A-Z a-z 0-9 _ . -, with a letter, a digit or _ at both ends", s, MaxState)
		case seen[s]:
			complain("state %s is declared twice", s)
		}
		seen[s] = true
	}
	ends := map[string]bool{}
	for _, s := range m.Terminal {
		switch {
		case !seen[s]:
			complain("terminal state %q is not among the states", s)
		case ends[s]:
			complain("terminal state %s is declared twice", s)
		}
		ends[s] = true
	}
	arrows := map[Transition]bool{}
	for _, t := range m.Transitions {
		for _, s := range []string{t.From, t.To} {
			if !seen[s] {
				complain("transition %s: state %q is not among the states", t, s)
			}
		}
		switch {
		case ends[t.From]:
			complain("transition %s: %s is terminal, nothing leads out of it", t, t.From)
		case arrows[t]:
			complain("transition %s is declared twice", t)
		}
		arrows[t] = true
	}
	return wrong
}

func (m *MachineSpec) wrongShape() []string {
	var wrong []string
	for _, s := range m.States {
		if s != m.States[0] && !m.Reaches(m.States[0], s) {
			wrong = append(wrong, fmt.Sprintf("state %s is never reached from %s", s, m.States[0]))
		}
		if m.Reaches(s, s) {
			wrong = append(wrong, fmt.Sprintf("state %s can come again: its step's effect would run twice", s))
		}
		if !m.IsTerminal(s) && !slices.ContainsFunc(m.Terminal, func(end string) bool { return m.Reaches(s, end) }) {
			wrong = append(wrong, fmt.Sprintf("no way leads from state %s to a terminal one", s))
		}
	}
	return wrong
}

// Initial is the state that every order begins in.
func (m *MachineSpec) Initial() string { return m.States[0] }

// Has reports whether the machine has a state of that name.
func (m *MachineSpec) Has(state string) bool { return slices.Contains(m.States, state) }

// IsTerminal reports whether a state is final.
func (m *MachineSpec) IsTerminal(state string) bool { return slices.Contains(m.Terminal, state) }

// Next are the states that one transition leads to, as declared.
func (m *MachineSpec) Next(state string) []string {
	var next []string
	for _, t := range m.Transitions {
		if t.From == state {
			next = append(next, t.To)
		}
	}
	return next
}

// Reaches reports whether one or more transitions lead from a state to another.
func (m *MachineSpec) Reaches(from, to string) bool {
	seen := map[string]bool{}
	todo := []string{from}
	for len(todo) > 0 {
		at := todo[0]
		todo = todo[1:]
		for _, next := range m.Next(at) {
			if next == to {
				return true
			}
			if !seen[next] {
				seen[next] = true
				todo = append(todo, next)
			}
		}
	}
	return false
}

// Check returns an error that wraps ErrIllegalTransition unless the machine has the transition.
func (m *MachineSpec) Check(t Transition) error {
	if slices.Contains(m.Transitions, t) {
		return nil
	}
	var why string
	switch next := m.Next(t.From); {
	case !m.Has(t.From):
		why = fmt.Sprintf("there is no state %q; there are %s", t.From, strings.Join(m.States, ", "))
	case !m.Has(t.To):
		why = fmt.Sprintf("there is no state %q; there are %s", t.To, strings.Join(m.States, ", "))
	case len(next) == 0:
		why = t.From + " is terminal"
	default:
		why = fmt.Sprintf("from %s there is %s", t.From, strings.Join(next, ", "))
	}
	return fmt.Errorf("%w: machine %s has no %s: %s", ErrIllegalTransition, m.BizType, t, why)
}
