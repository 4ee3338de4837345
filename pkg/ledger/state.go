package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/idemctl/idemctl/pkg/partition"
)

// Why a transition is refused, or a run ends early.
var (
	// ErrIllegalTransition says that an order cannot make a transition: the machine does not have it (a defect of the
	// caller), or the order stands where it does not begin (a *TransitionError).
	ErrIllegalTransition = errors.New("illegal transition")
	// ErrNotBegun says that the machine does not know the order.
	ErrNotBegun = errors.New("the order is not known to the machine")
	// ErrUnknownState says that an order stands in a state that this machine does not have: it was declared otherwise once,
	// or by a newer release.
	ErrUnknownState = errors.New("the order is in a state that the machine does not have")
	// ErrNoStep says that Run was given no step for the state that it came to.
	ErrNoStep = errors.New("no step was given for the state")
	// ErrStepTimeout says that a step did not end within StateOptions.StepTimeout. It was rolled back.
	ErrStepTimeout = errors.New("the step took too long")
)

// TransitionError is a transition that the order's state does not allow. It wraps ErrIllegalTransition. Its text leaves the
// key and the transition to the error around it.
type TransitionError struct {
	Key        Key
	Transition Transition
	Current    string
	// Early says that the order may yet come to the transition: it stands before its beginning. Otherwise it has gone another
	// way.
	Early bool
}

func (e *TransitionError) Error() string {
	why := "it has gone another way"
	if e.Early {
		why = "it is not there yet"
	}
	return fmt.Sprintf("%s: the order stands at %s: %s", ErrIllegalTransition, e.Current, why)
}

// Unwrap returns ErrIllegalTransition.
func (e *TransitionError) Unwrap() error { return ErrIllegalTransition }

// StateOutcome is what became of one transition.
type StateOutcome uint8

// The outcomes. StateFailed is the zero value: nothing passes by accident.
const (
	StateFailed    StateOutcome = iota // everything rolled back, or refused
	StateAdvanced                      // transition, history row and effect committed together
	StateDuplicate                     // the order is already at the target: the transition was made before
	StateLate                          // the order is beyond the target
)

// String is the outcome's word.
func (o StateOutcome) String() string {
	words := [...]string{"failed", "advanced", "duplicate", "late"}
	if int(o) < len(words) {
		return words[o]
	}
	return fmt.Sprintf("state_outcome(%d)", uint8(o))
}

// StateResult is what Advance says.
type StateResult struct {
	Outcome StateOutcome
	// State is where the order stands now, as far as it was read.
	State string
	// Bypassed says of a late one that the order came to its state without ever being at the target: it went another way, and
	// the effect of this transition never ran.
	Bypassed bool
	// ClaimID marks the history row, if the transition was made by this call.
	ClaimID ClaimID
	// Attempts counts the transactions tried.
	Attempts int
}

// StateStep is a transition and its work.
type StateStep struct {
	Transition
	// Effect runs in the transition's own transaction, after the state was moved and before COMMIT, and at most once to its
	// end per order. What holds for an Effect of a Guard holds for it. nil: the transition alone.
	Effect Effect
	// Why is kept in the history; what is longer than 512 bytes is cut.
	Why string
}

// StateOptions shape a StateMachine.
type StateOptions struct {
	Store *StateStore
	Spec  MachineSpec
	// Who is kept in the history: the service, or the person. What is longer than 128 bytes is cut.
	Who string
	// Attempts bounds the transactions of one transition; 0 means 10.
	Attempts int
	// StepTimeout bounds one transition, its retries included; 0 means a minute. It does not cut a COMMIT short.
	StepTimeout time.Duration
	// SettleTimeout bounds the questions after a COMMIT without an answer; 0 means 30 s.
	SettleTimeout time.Duration
	// OnStep is called after each step of a transition's way: StepStart, StepAdvanced, StepEffect, StepCommitted. A test or a
	// drill can stop there. It runs within the transaction; nil in production.
	OnStep func(ctx context.Context, s Step, k Key, t Transition)
}

// StepAdvanced is the point of a transition at which state and history are written, not committed.
const StepAdvanced Step = "advanced"

// The widths of the history's columns, in bytes.
const (
	maxWho = 128
	maxWhy = 512
)

// StateMachine makes the transitions of one machine, each with its effect, once per order. It is for work of several
// transactions (lock stock, deduct budget, write the coupon); what fits into one transaction needs only a Guard.
//
// The row of t_idempotent_state decides, by compare-and-set in the transaction of the step itself: whatever is redelivered,
// killed or raced, a step's effect is there exactly if the history says so. It is safe for concurrent use.
type StateMachine struct {
	opts StateOptions
}

// NewStateMachine validates the options, and refuses a server, a session or tables on which a transition could be made
// twice or half. It makes no tables (see StateStore.CreateTables).
func NewStateMachine(ctx context.Context, opts StateOptions) (*StateMachine, error) {
	if err := opts.Spec.Validate(); err != nil {
		return nil, err
	}
	switch {
	case opts.Store == nil || opts.Store.tx == nil || opts.Store.read == nil:
		return nil, errors.New("state machine: no store to write to")
	case opts.Who == "":
		return nil, errors.New("state machine: nobody is named who makes the transitions (Who)")
	case opts.Attempts < 0 || opts.StepTimeout < 0 || opts.SettleTimeout < 0:
		return nil, errors.New("state machine: attempts and timeouts: expected 0 or more")
	}
	opts.Who = cutBytes(opts.Who, maxWho)
	if opts.Attempts == 0 {
		opts.Attempts = 10
	}
	if opts.StepTimeout == 0 {
		opts.StepTimeout = time.Minute
	}
	if opts.SettleTimeout == 0 {
		opts.SettleTimeout = 30 * time.Second
	}
	sessions := NewStore(opts.Store.tx, opts.Store.read, partition.Scheme{})
	server, err := sessions.verify(ctx)
	if err != nil {
		return nil, fmt.Errorf("state machine: %w", err)
	}
	if err := sessions.verifySight(ctx, server); err != nil {
		return nil, fmt.Errorf("state machine: %w", err)
	}
	if err := opts.Store.VerifyTables(ctx); err != nil {
		return nil, fmt.Errorf("state machine: %w", err)
	}
	return &StateMachine{opts: opts}, nil
}

func (m *StateMachine) step(ctx context.Context, s Step, k Key, t Transition) {
	if m.opts.OnStep != nil {
		m.opts.OnStep(ctx, s, k, t)
	}
}

// checkKey refuses a key that is not this machine's, or that no column holds.
func (m *StateMachine) checkKey(k Key) error {
	if k.BizType != m.opts.Spec.BizType {
		return fmt.Errorf("%w: biz_type %q: this machine is that of %s", ErrKey, k.BizType, m.opts.Spec.BizType)
	}
	return ValidateOrderID(k.OrderID)
}

// cutBytes shortens a remark to the width of its column, at a character's border: a transition must not fail for it.
func cutBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
