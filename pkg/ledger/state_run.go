package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// StateRun is what Run says.
type StateRun struct {
	// State is where the order stands.
	State string
	// Terminal says that the order has come to its end; always, unless there is an error.
	Terminal bool
	// Made are the transitions that this call made; none for an order that was at its end before.
	Made []Transition
}

// Run brings an order to a terminal state. It begins at the state that is recorded, so what a run that crashed has done is
// not done again, and of runs that race each step is made by one. An order that the machine does not know is begun. Call
// it once per delivery; an error leaves the order where the last step brought it, and the next delivery goes on there.
//
// steps are the way that this caller takes, one for each state that it comes to. The order in which they are given does
// not matter. ErrNoStep says that there is none for the state the order came to: someone else moved it there, or the way
// does not lead to an end. Other errors are those of Advance.
func (m *StateMachine) Run(ctx context.Context, k Key, steps []StateStep) (StateRun, error) {
	var run StateRun
	way, err := m.way(steps)
	if err != nil {
		return run, err
	}
	if run.State, err = m.Start(ctx, k); err != nil {
		return run, err
	}
	spec := &m.opts.Spec
	for {
		switch {
		case !spec.Has(run.State):
			return run, fmt.Errorf("%s %q: %w: %q", k.BizType, k.OrderID, ErrUnknownState, run.State)
		case spec.IsTerminal(run.State):
			run.Terminal = true
			return run, nil
		}
		step, ok := way[run.State]
		if !ok {
			return run, fmt.Errorf("%s %q: %w %s", k.BizType, k.OrderID, ErrNoStep, run.State)
		}
		res, err := m.Advance(ctx, k, step)
		if res.State != "" {
			run.State = res.State
		}
		// Someone else took the order another way on from here: the recorded state decides. It only ever moves forward, so
		// this ends.
		moved, illegal := errors.AsType[*TransitionError](err)
		if illegal && spec.Reaches(step.From, moved.Current) {
			continue
		}
		if err != nil {
			return run, err
		}
		if res.Outcome == StateAdvanced {
			run.Made = append(run.Made, step.Transition)
		}
	}
}

// way indexes the steps by the state that they begin at.
func (m *StateMachine) way(steps []StateStep) (map[string]StateStep, error) {
	way := make(map[string]StateStep, len(steps))
	for _, s := range steps {
		if err := m.opts.Spec.Check(s.Transition); err != nil {
			return nil, err
		}
		if other, twice := way[s.From]; twice {
			return nil, fmt.Errorf("%w: two steps begin at %s: %s and %s", ErrIllegalTransition, s.From, other.Transition, s.Transition)
		}
		way[s.From] = s
	}
	return way, nil
}

// Start writes an order down in the machine's initial state, unless the machine knows it, and returns where it stands.
func (m *StateMachine) Start(ctx context.Context, k Key) (state string, err error) {
	if err := m.checkKey(k); err != nil {
		return "", err
	}
	id, err := newClaimID()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, m.opts.StepTimeout, fmt.Errorf("%w (%v)", ErrStepTimeout, m.opts.StepTimeout))
	defer cancel()
	for tried := 1; ; tried++ {
		state, err := m.start(ctx, k, id)
		if err == nil {
			return state, nil
		}
		err = fmt.Errorf("begin %s %q: %w", k.BizType, k.OrderID, err)
		// Nothing but the row itself was at stake, so a COMMIT without an answer is settled by trying again.
		_, unknown := errors.AsType[*mysqlx.CommitError](err)
		switch {
		case ctx.Err() != nil:
			return "", fmt.Errorf("begin %s %q: %w", k.BizType, k.OrderID, context.Cause(ctx))
		case !unknown && !mysqlx.IsRetryable(err) && !mysqlx.IsConnLost(err):
			return "", err
		case tried >= m.opts.Attempts:
			return "", fmt.Errorf("gave up after %d transactions: %w", tried, err)
		}
		if perr := pause(ctx, tried); perr != nil {
			return "", fmt.Errorf("begin %s %q: %w", k.BizType, k.OrderID, context.Cause(ctx))
		}
	}
}

func (m *StateMachine) start(ctx context.Context, k Key, id ClaimID) (string, error) {
	store := m.opts.Store
	// Most orders are known: this look costs no lock, and what it says is only where to begin.
	if st, found, err := store.look(ctx, store.read, k, ""); err != nil || found {
		return st.State, err
	}
	first := m.opts.Spec.Initial()
	state := first
	err := mysqlx.WithTx(ctx, store.tx, func(tx *sql.Tx) error {
		err := store.begin(ctx, tx, k, first)
		switch {
		case mysqlx.Number(err) == mysqlx.ErrDupEntry:
			st, found, lerr := store.look(ctx, tx, k, stateShare)
			switch {
			case lerr != nil:
				return lerr
			case !found: // another unique key, or a trigger, raised it
				return fmt.Errorf("%w: %s: %w", ErrNotDuplicate, StateTable, err)
			}
			state = st.State
			return errDecided
		case err != nil:
			return fmt.Errorf("insert into %s: %w", StateTable, noTables(err))
		}
		return store.note(ctx, tx, k, Transition{To: first}, id, m.opts.Who, "")
	})
	if err != nil && !errors.Is(err, errDecided) {
		return "", err
	}
	return state, nil
}
