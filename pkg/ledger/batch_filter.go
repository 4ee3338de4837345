package ledger

import (
	"context"
	"errors"
	"time"
)

// lookFirst is from how many keys on a batch looks before it claims, where the last ones were mostly duplicates.
const lookFirst = 16

// expectShare: a batch of which more than one in so many was a duplicate lets the guard look first in the next one.
const expectShare = 8

// askFilter claims the leases; a rehearsal only looks. While the guard keeps meeting duplicates it reads the markers, or
// the rows, before it claims: a SET NX or an INSERT that is bound to fail costs far more. A Redis that is away degrades the
// batch, and decides nothing.
func (b *batch) askFilter(ctx context.Context) error {
	g := b.guard
	f := g.opts.Filter
	if f != nil && (b.rehearsal || len(b.claims) >= lookFirst && g.expectMarkers.Load()) {
		markers, err := f.Look(ctx, keysOf(b.claims))
		if err != nil {
			return degrade(b.claims, err)
		}
		for i, c := range b.claims {
			c.marker = markers[i]
		}
		b.absorbByFilter(b.claims)
	}
	open := undecided(b.claims)
	if err := b.lookAhead(ctx, open); err != nil {
		return err
	}
	open = undecided(open)
	if f == nil || b.rehearsal || len(open) == 0 {
		return nil
	}
	markers, acquired, err := f.Claim(ctx, keysOf(open), b.id)
	if err != nil {
		return degrade(open, err)
	}
	for i, c := range open {
		c.marker, c.leased = markers[i], acquired[i]
	}
	b.absorbByFilter(open)
	absorbed := 0
	for _, c := range b.claims {
		if c.decided && c.result.Outcome == AbsorbedFilter {
			absorbed++
		}
	}
	g.expectMarkers.Store(absorbed > len(b.claims)/expectShare)
	return nil
}

// lookAhead decides claims that have a row by plain reads, while the guard keeps meeting duplicates that Redis does not
// know: it was flushed, or failed over.
func (b *batch) lookAhead(ctx context.Context, set []*claim) error {
	g := b.guard
	if len(set) < lookFirst || !g.expectRows.Load() {
		return nil
	}
	rows, _, err := g.lookRows(ctx, messagesOf(set))
	if err != nil {
		return err
	}
	found := 0
	for _, c := range set {
		if row := rows[c.msg.Key.OrderID]; row != nil {
			c.decide(b.existing(c, row))
			found++
		}
	}
	g.expectRows.Store(found > len(set)/expectShare)
	return nil
}

// degrade lets claims go on without the filter, unless the error is another than that it is away.
func degrade(claims []*claim, err error) error {
	if !errors.Is(err, ErrFilterAway) {
		return err
	}
	for _, c := range claims {
		c.degraded = true
	}
	return nil
}

func keysOf(claims []*claim) []Key {
	keys := make([]Key, len(claims))
	for i, c := range claims {
		keys[i] = c.msg.Key
	}
	return keys
}

// absorbByFilter trusts COMPLETED markers of this very ledger, which were written after a commit here.
func (b *batch) absorbByFilter(claims []*claim) {
	g := b.guard
	if b.rehearsal || g.opts.AlwaysLook {
		return
	}
	id := g.LedgerID()
	for _, c := range claims {
		// A conflict is the ledger's to tell.
		if g.opts.Filter.trusts(c.marker, id) && !differs(c.msg.Fingerprint, c.marker.Fingerprint) {
			c.decide(Result{Outcome: AbsorbedFilter})
		}
	}
}

// settleMarkers brings Redis in line with what the ledger has decided. It changes nothing about the outcomes: Redis may be
// away, or slow, or empty.
func (b *batch) settleMarkers(ctx context.Context) {
	g := b.guard
	f := g.opts.Filter
	if f == nil {
		return
	}
	// The markers are settled even when the caller is on its way out, or the keys stay leased for the whole lease.
	ctx = context.WithoutCancel(ctx)
	var done, lost []*claim
	for _, c := range b.claims {
		switch {
		case c.result.Outcome == Executed || c.result.Outcome == AbsorbedLedger:
			done = append(done, c)
		case errors.Is(c.result.Err, ErrCommitUnknown):
			// The effect may be in; the lease ends by itself.
		case c.leased || c.degraded:
			// Where the reply of SET NX was lost the lease may be this claim's all the same; releasing compares.
			lost = append(lost, c)
		}
	}
	id, now := g.LedgerID(), g.opts.Now()
	marks := make([]Completion, len(done))
	for i, c := range done {
		marks[i] = g.completion(c, id, now)
	}
	b.note(ctx, done, f.Complete(ctx, marks))
	b.step(ctx, StepMarked, done)
	b.note(ctx, lost, f.Release(ctx, keysOf(lost), b.id))
}

func (b *batch) note(ctx context.Context, claims []*claim, err error) {
	if err == nil {
		return
	}
	for _, c := range claims {
		c.degraded = true
	}
	b.guard.opts.Logger.DebugContext(ctx, "markers not settled", "keys", len(claims), "error", err)
}

// completion is the COMPLETED marker of a claim whose row is there. It never outlives the row.
func (g *Guard) completion(c *claim, ledgerID string, now time.Time) Completion {
	left, fingerprint := g.opts.Retention, c.msg.Fingerprint
	if e := c.result.Entry; e != nil {
		left, fingerprint = e.ExpireAt.Sub(now), e.Fingerprint
	}
	return Completion{Key: c.msg.Key, Value: g.opts.Filter.completed(ledgerID, fingerprint), TTL: left, Held: c.leased}
}

// sighting is a PROCESSING marker without a TTL, and since when it has been the same.
type sighting struct {
	raw   string
	since time.Time
}

// maxSightings bounds the memory of such markers; beyond it the oldest is forgotten, which only delays a take-over.
const maxSightings = 10_000

// takeOver takes the lease of a key whose marker has no TTL, after the same value was seen for one full lease: its owner
// had as long as anyone gets.
func (b *batch) takeOver(ctx context.Context, c *claim) (bool, error) {
	g := b.guard
	if !g.seenForALease(c.msg.Key, c.marker.Raw) {
		return false, nil
	}
	taken, err := g.opts.Filter.TakeOver(ctx, c.msg.Key, c.marker.Raw, b.id)
	if errors.Is(err, ErrFilterAway) {
		c.degraded = true
		return false, nil
	}
	c.leased = taken
	return taken, err
}

func (g *Guard) seenForALease(key Key, raw string) bool {
	now := g.opts.Now()
	name := g.opts.Filter.opts.Template.Name(key)
	g.mu.Lock()
	defer g.mu.Unlock()
	if seen, ok := g.sightings[name]; ok && seen.raw == raw {
		if now.Sub(seen.since) < g.opts.Filter.Lease() {
			return false
		}
		delete(g.sightings, name)
		return true
	}
	if len(g.sightings) >= maxSightings {
		g.forgetOldestSighting()
	}
	g.sightings[name] = sighting{raw: raw, since: now}
	return false
}

func (g *Guard) forgetOldestSighting() {
	oldest := ""
	for name, s := range g.sightings {
		if oldest == "" || s.since.Before(g.sightings[oldest].since) {
			oldest = name
		}
	}
	delete(g.sightings, oldest)
}
