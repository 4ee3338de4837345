package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// settle finds out what became of a COMMIT that was not answered, or of a transaction that an effect lost on the way: it
// reads the key's row again by claim id, on another connection. The read locks, so it waits for a transaction whose end the
// server has not seen yet. settled is false when the row is not there: nothing was committed, run again.
func (c *claim) settle(ctx context.Context, cause error) (res Result, settled bool, err error) {
	g := c.guard
	// The answer matters even if the caller has given up meanwhile: an effect may be in.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.opts.SettleTimeout)
	defer cancel()
	var entry *Entry
	for try := 1; ; try++ {
		entry, err = c.readBack(ctx)
		if err == nil {
			break
		}
		if perr := pause(ctx, try+4); perr != nil {
			return Result{}, false, fmt.Errorf("%w: %w", ErrCommitUnknown, errors.Join(cause, err))
		}
	}
	switch {
	case entry == nil:
		return Result{}, false, nil
	case errors.Is(cause, errTransactionGone) && entry.ClaimID != nil && *entry.ClaimID == c.id:
		return Result{Entry: entry}, true, ErrEffectEndedTransaction
	}
	return c.existing(entry), true, nil
}

func (c *claim) readBack(ctx context.Context) (*Entry, error) {
	var entry *Entry
	err := mysqlx.WithTx(ctx, c.guard.opts.Store.tx, func(tx *sql.Tx) error {
		snap := c.guard.current()
		for _, t := range snap.Tables {
			e, err := c.guard.probe(ctx, tx, snap, t, c.msg.Key)
			if mysqlx.Number(err) == mysqlx.ErrNoSuchTable {
				continue // dropped since: the next transaction reloads the catalog
			}
			if err != nil {
				return err
			}
			if e != nil {
				entry = e
				return errDecided
			}
		}
		return errDecided
	})
	if errors.Is(err, errDecided) {
		err = nil
	}
	return entry, err
}

// settleMarker brings Redis in line with what the ledger has decided. It changes nothing about the outcome: Redis may be
// away, or slow, or empty.
func (c *claim) settleMarker(ctx context.Context, res Result, err error) {
	f := c.guard.opts.Filter
	if f == nil {
		return
	}
	// The marker is settled even when the caller is on its way out, or its key stays leased for the whole lease.
	ctx = context.WithoutCancel(ctx)
	var ferr error
	switch {
	case res.Outcome == Executed || res.Outcome == AbsorbedLedger:
		ferr = c.complete(ctx, res)
		c.step(ctx, StepMarked)
	case errors.Is(err, ErrCommitUnknown):
		// The effect may be in; the lease ends by itself.
	case c.leased:
		ferr = f.Release(ctx, c.msg.Key, c.id)
	}
	if ferr != nil {
		c.degraded = true
		c.guard.opts.Logger.DebugContext(ctx, "marker not settled", "outcome", res.Outcome.String(), "error", ferr)
	}
}

func (c *claim) complete(ctx context.Context, res Result) error {
	g := c.guard
	left := g.opts.Retention
	print := c.msg.Fingerprint
	if res.Entry != nil {
		left = res.Entry.ExpireAt.Sub(g.opts.Now())
		print = res.Entry.Fingerprint
	}
	return g.opts.Filter.Complete(ctx, c.msg.Key, g.opts.Filter.completed(g.LedgerID(), print), left, c.leased)
}

// sighting is a PROCESSING marker without a TTL, and since when it has been the same.
type sighting struct {
	raw   string
	since time.Time
}

// maxSightings bounds the memory of such markers; beyond it the oldest are forgotten, which only delays a take-over.
const maxSightings = 10_000

// takeOver takes the lease of a key whose marker has no TTL, after the same value was seen for one full lease: its owner
// had as long as anyone gets.
func (c *claim) takeOver(ctx context.Context) (bool, error) {
	g := c.guard
	if !g.seenForALease(c.msg.Key, c.marker.Raw) {
		return false, nil
	}
	taken, err := g.opts.Filter.TakeOver(ctx, c.msg.Key, c.marker.Raw, c.id)
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
		oldest := name
		since := now
		for n, s := range g.sightings {
			if s.since.Before(since) {
				oldest, since = n, s.since
			}
		}
		delete(g.sightings, oldest)
	}
	g.sightings[name] = sighting{raw: raw, since: now}
	return false
}
