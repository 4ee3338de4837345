package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/partition"
)

// snapshot is a catalog that was checked against the tables it lists. It is never changed, only replaced.
type snapshot struct {
	partition.Catalog
	// edge is the horizon plus slack: a business time after it is within the ledger's memory.
	edge       time.Time
	registered bool
}

// covers reports whether the ledger's memory is complete for this time.
func (s *snapshot) covers(t time.Time) bool { return t.After(s.edge) }

// current returns the snapshot in hand.
func (g *Guard) current() *snapshot { return g.snap.Load() }

// reload reads the catalog again and checks the tables it lists (invariant 5).
//
// A table that is moved or dropped between the two reads looks as if it were missing, or in pieces. So a complaint counts
// when it is made twice about one generation.
func (g *Guard) reload(ctx context.Context) error {
	var err error
	seen := int64(-1)
	for range lookAttempts {
		var s *snapshot
		s, err = g.readSnapshot(ctx)
		switch {
		case err == nil:
			g.snap.Store(s)
			return nil
		case s == nil || s.Generation == seen:
			return err
		}
		seen = s.Generation
	}
	return err
}

// readSnapshot returns a snapshot with an error when it was the tables that did not fit the catalog.
func (g *Guard) readSnapshot(ctx context.Context) (*snapshot, error) {
	cat, err := g.opts.Store.catalog(ctx, g.opts.Zone)
	if err != nil {
		return nil, err
	}
	if cat.TimeZone != g.opts.Zone.String() {
		return nil, fmt.Errorf("%w: the catalog says %s, this guard says %s", ErrTimeZone, cat.TimeZone, g.opts.Zone)
	}
	s := &snapshot{Catalog: cat}
	if err := s.setEdge(ctx, g); err != nil {
		return nil, err
	}
	var names []string
	for _, t := range cat.Tables {
		names = append(names, t.Names()...)
	}
	found, err := g.opts.Store.verifyTables(ctx, names)
	if err != nil {
		return s, err
	}
	for _, t := range cat.Tables {
		if t.State == partition.Live && !found[t.Name] {
			return s, fmt.Errorf("%w: %s is in the catalog, but not there or not to be seen by this user (run: idemctl partition create)", ErrMonthMissing, t.Name)
		}
	}
	return s, nil
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// setEdge takes the horizon from the catalog, or, for a biz_type that has never claimed, what it would be from now on.
func (s *snapshot) setEdge(ctx context.Context, g *Guard) error {
	h, ok := s.Horizon(g.opts.BizType)
	s.registered = ok
	if !ok {
		now, err := mysqlx.Now(ctx, g.opts.Store.read)
		if err != nil {
			return err
		}
		h = s.FirstHorizon(g.opts.BizType, now, g.opts.MemorySince)
	}
	if g.opts.Store.scheme.Columns().BizType == "" {
		// A purge of such rows cannot tell whose they were: it has written their times down for no biz_type.
		h = latest(h, s.Biz[""].Purged)
	}
	s.edge = h.Add(g.opts.Slack)
	return nil
}

// register writes down since when the ledger remembers this guard's biz_type, once.
func (g *Guard) register(ctx context.Context) error {
	if g.current().registered {
		return nil
	}
	if _, err := partition.Register(ctx, g.opts.Store.read, g.opts.Store.scheme, g.opts.BizType, g.opts.MemorySince); err != nil {
		return fmt.Errorf("first claim of %s: %w", g.opts.BizType, err)
	}
	return g.reload(ctx)
}

// Horizon is up to when the ledger's memory of this guard's biz_type may be incomplete, slack included.
func (g *Guard) Horizon() time.Time { return g.current().edge }

// LedgerID is the id that this ledger's COMPLETED markers carry.
func (g *Guard) LedgerID() string { return g.current().LedgerID }
