package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// MaxBatch is how many messages share a transaction at most: more are cut into several.
const MaxBatch = 1000

// BatchEffect is the business write of several messages at once: indexes say which of the batch's messages. It must be made
// of INSERT, UPDATE, DELETE, REPLACE and SELECT on InnoDB tables alone: a statement that ends the transaction would commit
// the ledger rows of messages whose effect has not run.
type BatchEffect func(ctx context.Context, tx Tx, indexes []int) error

// DoBatch does for many messages what Do does for one, with the same outcome for each, and far fewer round trips: the
// filter is asked in one pipeline, and messages that are to run share a transaction. A key that comes twice in the batch
// runs once. A message that fails is told apart from the others, and the others go through. Results are in the order of
// messages.
func (g *Guard) DoBatch(ctx context.Context, messages []Message, effect BatchEffect) []Result {
	return g.run(ctx, messages, effect, false)
}

// RehearseBatch does all that DoBatch does, and rolls it back. Redis is only read.
func (g *Guard) RehearseBatch(ctx context.Context, messages []Message, effect BatchEffect) []Result {
	return g.run(ctx, messages, effect, true)
}

// run takes the messages through in batches of different keys.
func (g *Guard) run(ctx context.Context, messages []Message, effect BatchEffect, rehearsal bool) []Result {
	results := make([]Result, len(messages))
	if g.opts.Store.Legacy() {
		for i := range results {
			results[i].Err = ErrLegacy
		}
		return results
	}
	var valid []int
	for i := range messages {
		if res, bad := g.refuse(&messages[i]); bad {
			results[i] = res
		} else {
			valid = append(valid, i)
		}
	}
	for chunk := range pages(valid, MaxBatch) {
		for len(chunk) > 0 {
			first, repeats := firstOfKeys(messages, chunk)
			b, err := g.newBatch(ctx, messages, first, effect, rehearsal)
			if err == nil {
				b.run(ctx)
				for _, c := range b.claims {
					results[c.index] = c.finished()
				}
			} else {
				for _, i := range first {
					results[i] = Result{Err: err}
				}
			}
			chunk = settleRepeats(messages, repeats, results, rehearsal)
		}
	}
	return results
}

// repeat is a message whose key came earlier in the batch.
type repeat struct{ index, first int }

// firstOfKeys tells the first message of each key from those that repeat it.
func firstOfKeys(messages []Message, chunk []int) (first []int, repeats []repeat) {
	seen := make(map[string]int, len(chunk))
	for _, i := range chunk {
		if f, ok := seen[messages[i].Key.OrderID]; ok {
			repeats = append(repeats, repeat{index: i, first: f})
			continue
		}
		seen[messages[i].Key.OrderID] = i
		first = append(first, i)
	}
	return first, repeats
}

// settleRepeats answers for repeats whose first delivery has decided for them too, and returns those that must run by
// themselves: a first delivery that failed does not absorb the corrected second one (hazard G28).
func settleRepeats(messages []Message, repeats []repeat, results []Result, rehearsal bool) []int {
	var again []int
	for _, r := range repeats {
		first := results[r.first]
		effectFailed := errors.As(first.Err, new(*EffectError))
		switch {
		case rehearsal && first.Outcome == Executed:
			results[r.index] = first
		case first.Outcome.MayPass():
			res := existing(&messages[r.index], first.entryOf(&messages[r.first]))
			if res.Outcome == AbsorbedLedger && first.Outcome == AbsorbedFilter {
				res.Outcome = AbsorbedFilter
			}
			results[r.index] = res
		case first.Outcome == InFlight, first.Outcome == Phantom, first.Outcome == Failed && !effectFailed:
			results[r.index] = first
		default:
			again = append(again, r.index)
		}
	}
	return again
}

// entryOf is the row that a message with this result has, as far as it is known.
func (r *Result) entryOf(m *Message) *Entry {
	switch {
	case r.Entry != nil:
		return r.Entry
	case r.Outcome == AbsorbedFilter:
		return &Entry{Key: m.Key, Fingerprint: r.Marker.Fingerprint}
	}
	return &Entry{Key: m.Key, Fingerprint: m.Fingerprint, Source: m.Source}
}

// batch is a set of claims of different keys on their way through the guard. They share one claim id through all their
// transactions, so that rows which a lost COMMIT has left behind are known as their own.
type batch struct {
	guard     *Guard
	id        ClaimID
	claims    []*claim
	effect    BatchEffect
	rehearsal bool
}

// claim is one message of a batch.
type claim struct {
	index int // among the caller's messages
	msg   *Message

	marker   Marker
	leased   bool // the lease is this claim's, and only then may it be released (invariant 4)
	degraded bool
	attempts int

	decided bool
	result  Result
}

func (c *claim) decide(r Result) {
	c.decided, c.result = true, r
}

func (c *claim) fail(err error) { c.decide(Result{Err: err}) }

func (c *claim) finished() Result {
	r := c.result
	r.Degraded, r.Marker, r.Attempts = c.degraded, c.marker, c.attempts
	return r
}

func (g *Guard) newBatch(ctx context.Context, messages []Message, indexes []int, effect BatchEffect, rehearsal bool) (*batch, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !rehearsal {
		if err := g.register(ctx); err != nil {
			return nil, err
		}
	}
	id, err := newClaimID()
	if err != nil {
		return nil, err
	}
	b := &batch{guard: g, id: id, effect: effect, rehearsal: rehearsal, claims: make([]*claim, len(indexes))}
	all := make([]claim, len(indexes))
	for n, i := range indexes {
		all[n] = claim{index: i, msg: &messages[i]}
		b.claims[n] = &all[n]
	}
	return b, nil
}

// run asks the filter, then the ledger, then settles the markers.
func (b *batch) run(ctx context.Context) {
	b.step(ctx, StepStart, b.claims)
	if err := b.askFilter(ctx); err != nil {
		failAll(undecided(b.claims), err)
	}
	b.step(ctx, StepLeased, undecided(b.claims))
	if err := b.waitForOwners(ctx); err != nil {
		failAll(undecided(b.claims), err)
	}
	open := undecided(b.claims)
	// Batches that meet lock in the same order.
	slices.SortFunc(open, func(a, c *claim) int { return strings.Compare(a.msg.Key.OrderID, c.msg.Key.OrderID) })
	b.transact(ctx, open)
	if !b.rehearsal {
		b.settleMarkers(ctx)
	}
}

// step reports a step of each claim to whoever watches.
func (b *batch) step(ctx context.Context, s Step, claims []*claim) {
	if b.rehearsal || b.guard.opts.OnStep == nil {
		return
	}
	for _, c := range claims {
		b.guard.opts.OnStep(ctx, s, *c.msg)
	}
}

func undecided(claims []*claim) []*claim {
	open := make([]*claim, 0, len(claims))
	for _, c := range claims {
		if !c.decided {
			open = append(open, c)
		}
	}
	return open
}

func failAll(claims []*claim, err error) {
	for _, c := range claims {
		c.fail(err)
	}
}

// waitForOwners answers for keys whose lease someone else holds. Such a marker is never a duplicate by itself: its owner
// may have died (hazard G1).
func (b *batch) waitForOwners(ctx context.Context) error {
	var waiting []*claim
	for _, c := range b.claims {
		if !c.decided && !c.leased && c.marker.State == MarkerProcessing {
			waiting = append(waiting, c)
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	rows, _, err := b.guard.lookRows(ctx, messagesOf(waiting))
	if err != nil {
		return err
	}
	for _, c := range waiting {
		if row := rows[c.msg.Key.OrderID]; row != nil {
			c.decide(b.existing(c, row))
			continue
		}
		taken := false
		if c.marker.TTL < 0 && !b.rehearsal {
			if taken, err = b.takeOver(ctx, c); err != nil {
				return err
			}
		}
		if !taken {
			c.decide(inFlight(c.marker))
		}
	}
	return nil
}

func messagesOf(claims []*claim) []*Message {
	messages := make([]*Message, len(claims))
	for i, c := range claims {
		messages[i] = c.msg
	}
	return messages
}

func inFlight(m Marker) Result {
	res := Result{Outcome: InFlight, RetryAfter: max(0, m.TTL), Reason: fmt.Sprintf("another owner holds the lease for %v", m.TTL)}
	if m.TTL < 0 {
		res.Reason = "another owner holds a lease without end; it is taken over after one full lease"
	}
	return res
}

// existing answers for a key whose row is there.
func (b *batch) existing(c *claim, e *Entry) Result {
	if e.ClaimID != nil && *e.ClaimID == b.id {
		return Result{Outcome: Executed, Entry: e, Reason: "the COMMIT whose reply was lost had gone through"}
	}
	return b.guard.existing(c.msg, e, c.marker, b.guard.LedgerID())
}

// existing answers for a key that has a row and a marker: where both stores agree, the filter absorbs.
func (g *Guard) existing(m *Message, e *Entry, marker Marker, ledgerID string) Result {
	res := existing(m, e)
	if f := g.opts.Filter; res.Outcome == AbsorbedLedger && f != nil && f.trusts(marker, ledgerID) {
		res.Outcome = AbsorbedFilter
	}
	return res
}

func existing(m *Message, e *Entry) Result {
	if differs(m.Fingerprint, e.Fingerprint) {
		return Result{Outcome: Conflict, Entry: e, Reason: "the content differs from the delivery that was executed"}
	}
	return Result{Outcome: AbsorbedLedger, Entry: e}
}

// differs compares fingerprints where both sides have one.
func differs(a, b []byte) bool { return len(a) > 0 && len(b) > 0 && !bytes.Equal(a, b) }
