package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// errNotMoved rolls a transaction back whose compare-and-set found the order elsewhere.
var errNotMoved = errors.New("the order is elsewhere")

// Advance makes one transition of an order, with its effect, in one transaction. A lost race is told apart by reading the
// state again: already at the target is StateDuplicate, beyond it StateLate; both come without an error, and the effect
// did not run. Anywhere else is a *TransitionError.
//
// Errors: ErrKey; ErrIllegalTransition; ErrNotBegun (see Start); ErrUnknownState; *EffectError, after which everything is
// rolled back and the caller may try again or take another way; ErrEffectEndedTransaction; ErrCommitUnknown, after which a
// later Advance or Run finds out; else an error of the server.
func (m *StateMachine) Advance(ctx context.Context, k Key, s StateStep) (StateResult, error) {
	var res StateResult
	if err := m.checkKey(k); err != nil {
		return res, err
	}
	if err := m.opts.Spec.Check(s.Transition); err != nil {
		return res, err
	}
	id, err := newClaimID()
	if err != nil {
		return res, err
	}
	s.Why = cutBytes(s.Why, maxWhy)
	ctx, cancel := context.WithTimeoutCause(ctx, m.opts.StepTimeout, fmt.Errorf("%w (%v)", ErrStepTimeout, m.opts.StepTimeout))
	defer cancel()
	m.step(ctx, StepStart, k, s.Transition)
	a := &advance{machine: m, key: k, StateStep: s, id: id}
	if err := a.run(ctx); err != nil {
		return a.res, fmt.Errorf("%s %q, %s: %w", k.BizType, k.OrderID, s.Transition, err)
	}
	return a.res, nil
}

// advance is one call of Advance.
type advance struct {
	StateStep

	machine *StateMachine
	key     Key
	id      ClaimID
	res     StateResult
}

// run tries the transaction until it is decided.
func (a *advance) run(ctx context.Context) error {
	for {
		a.res.Attempts++
		err := a.attempt(ctx)
		switch {
		case err == nil:
			a.committed(ctx)
			return nil
		case errors.Is(err, errNotMoved):
			return a.elsewhere()
		}
		again, err := a.afterError(ctx, err)
		switch {
		case err == nil:
			a.committed(ctx)
			return nil
		case !again:
			return err
		case a.res.Attempts >= a.machine.opts.Attempts:
			return fmt.Errorf("gave up after %d transactions: %w", a.res.Attempts, err)
		}
		if perr := pause(ctx, a.res.Attempts); perr != nil {
			return context.Cause(ctx)
		}
	}
}

func (a *advance) committed(ctx context.Context) {
	a.res.Outcome, a.res.State, a.res.ClaimID = StateAdvanced, a.To, a.id
	a.machine.step(ctx, StepCommitted, a.key, a.Transition)
}

// attempt is one transaction: the state first, which locks the order and decides the race; then the history; the effect
// last (invariant 6).
func (a *advance) attempt(ctx context.Context) error {
	m, store := a.machine, a.machine.opts.Store
	return mysqlx.WithTx(ctx, store.tx, func(tx *sql.Tx) error {
		moved, err := store.move(ctx, tx, a.key, a.Transition)
		if err != nil {
			return err
		}
		if !moved {
			return a.readState(ctx, tx, stateShare)
		}
		if err := store.note(ctx, tx, a.key, a.Transition, a.id, m.opts.Who, a.Why); err != nil {
			return err
		}
		m.step(ctx, StepAdvanced, a.key, a.Transition)
		if a.Effect != nil {
			if err := runEffect(ctx, tx, a.Effect); err != nil {
				return err
			}
		}
		m.step(ctx, StepEffect, a.key, a.Transition)
		return nil
	})
}

// readState finds out where the order is, after it was not moved: in the same transaction and with a locking read, so that
// the answer is not over before it is given. It returns errNotMoved when it knows.
func (a *advance) readState(ctx context.Context, q mysqlx.Queryer, lock string) error {
	store, spec := a.machine.opts.Store, &a.machine.opts.Spec
	a.res.Bypassed = false
	st, found, err := store.look(ctx, q, a.key, lock)
	switch {
	case err != nil:
		return err
	case !found:
		return ErrNotBegun
	}
	a.res.State = st.State
	if st.State == a.To || !spec.Reaches(a.To, st.State) {
		return errNotMoved
	}
	passed, err := store.was(ctx, q, a.key, a.To)
	if err != nil {
		return err
	}
	a.res.Bypassed = !passed
	return errNotMoved
}

// elsewhere judges a transition whose order stands elsewhere (hazard G20).
func (a *advance) elsewhere() error {
	spec := &a.machine.opts.Spec
	switch {
	case !spec.Has(a.res.State):
		return fmt.Errorf("%w: %q", ErrUnknownState, a.res.State)
	case a.res.State == a.To:
		a.res.Outcome = StateDuplicate
		return nil
	case spec.Reaches(a.To, a.res.State):
		a.res.Outcome = StateLate
		return nil
	}
	// At its very beginning: it came back while we looked, by someone's hand.
	early := a.res.State == a.From || spec.Reaches(a.res.State, a.From)
	return &TransitionError{Key: a.key, Transition: a.Transition, Current: a.res.State, Early: early}
}

// afterError says whether a transaction that ended in err may be tried again. No error: it was committed after all.
func (a *advance) afterError(ctx context.Context, err error) (again bool, _ error) {
	_, unknown := errors.AsType[*mysqlx.CommitError](err)
	if unknown || errors.Is(err, errTransactionGone) {
		return a.settle(ctx, err)
	}
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx) // nothing was committed, whatever the effect made of the end
	case isEffect(err):
		return false, err
	}
	// Without an answer before COMMIT the server rolls back by itself.
	return mysqlx.IsRetryable(err) || mysqlx.IsConnLost(err), err
}

// settle finds out what became of a COMMIT that was not answered, or of a transaction that an effect lost on the way
// (invariant 7): by claim id, on another connection, with a locking read that waits for a transaction whose end the server
// has not seen yet.
func (a *advance) settle(ctx context.Context, cause error) (again bool, _ error) {
	// The answer matters even if the caller has given up meanwhile: the effect may be in.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.machine.opts.SettleTimeout)
	defer cancel()
	for try := 1; ; try++ {
		made, err := a.readBack(ctx)
		switch {
		case err == nil && !made:
			return true, cause
		case err == nil && errors.Is(cause, errTransactionGone):
			a.res.State = a.To
			return false, ErrEffectEndedTransaction
		case err == nil:
			return false, nil
		}
		if perr := pause(ctx, try+4); perr != nil {
			return false, fmt.Errorf("%w: %w", ErrCommitUnknown, errors.Join(cause, err))
		}
	}
}

func (a *advance) readBack(ctx context.Context) (made bool, err error) {
	store := a.machine.opts.Store
	err = mysqlx.WithTx(ctx, store.tx, func(tx *sql.Tx) error {
		if _, _, err := store.look(ctx, tx, a.key, stateShare); err != nil {
			return err
		}
		if made, err = store.made(ctx, tx, a.key, a.id); err != nil {
			return err
		}
		return errDecided
	})
	if errors.Is(err, errDecided) {
		return made, nil
	}
	return false, err
}

// Classify says what Advance would do, by looks alone, without locks: StateAdvanced means that it would make the
// transition. What it says may be over by the time it says it. Its errors are those of Advance.
func (m *StateMachine) Classify(ctx context.Context, k Key, t Transition) (StateResult, error) {
	var res StateResult
	if err := m.checkKey(k); err != nil {
		return res, err
	}
	if err := m.opts.Spec.Check(t); err != nil {
		return res, err
	}
	a := &advance{machine: m, key: k, StateStep: StateStep{Transition: t}}
	err := a.classify(ctx)
	if err != nil {
		err = fmt.Errorf("%s %q, %s: %w", k.BizType, k.OrderID, t, err)
	}
	return a.res, err
}

func (a *advance) classify(ctx context.Context) error {
	store := a.machine.opts.Store
	err := a.readState(ctx, store.read, "")
	switch {
	case !errors.Is(err, errNotMoved):
		return err
	case a.res.State == a.From:
		a.res.Outcome = StateAdvanced
		return nil
	}
	return a.elsewhere()
}
