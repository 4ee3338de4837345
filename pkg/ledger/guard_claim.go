package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/partition"
)

// claim is one message on its way through the guard. It keeps one claim id through all of its transactions, so that a row
// which a lost COMMIT has left behind is known as its own.
type claim struct {
	guard     *Guard
	msg       Message
	id        ClaimID
	effect    Effect
	rehearsal bool

	marker   Marker
	leased   bool // the lease is this claim's, and only then may it be released (invariant 4)
	degraded bool
	attempts int
}

// errStale says that the catalog in hand is not the catalog any more.
var errStale = errors.New("the catalog has changed")

// errDecided rolls a transaction back in which the answer was found without running the effect.
var errDecided = errors.New("decided")

func (c *claim) step(ctx context.Context, s Step) {
	if !c.rehearsal {
		c.guard.opts.OnStep(ctx, s, c.msg)
	}
}

// run asks the filter, then the ledger, then settles the marker.
func (c *claim) run(ctx context.Context) (Result, error) {
	if err := c.askFilter(ctx); err != nil {
		return Result{}, err
	}
	c.step(ctx, StepLeased)
	if res, done := c.absorbedByFilter(); done {
		return res, nil
	}
	res, done, err := c.waitForOwner(ctx)
	if err == nil && !done {
		res, err = c.transact(ctx)
	}
	if !c.rehearsal {
		c.settleMarker(ctx, res, err)
	}
	return res, err
}

// askFilter claims the lease; a rehearsal only looks. A Redis that is away degrades the claim, and decides nothing.
func (c *claim) askFilter(ctx context.Context) error {
	f := c.guard.opts.Filter
	if f == nil {
		return nil
	}
	var err error
	if c.rehearsal {
		var markers []Marker
		if markers, err = f.Look(ctx, []Key{c.msg.Key}); err == nil {
			c.marker = markers[0]
		}
	} else {
		c.marker, c.leased, err = f.Claim(ctx, c.msg.Key, c.id)
	}
	if err != nil && !errors.Is(err, ErrFilterAway) {
		return err
	}
	c.degraded = err != nil
	return nil
}

// absorbedByFilter trusts a COMPLETED marker of this very ledger, which was written after a commit here.
func (c *claim) absorbedByFilter() (Result, bool) {
	g := c.guard
	if c.rehearsal || g.opts.AlwaysLook || g.opts.Filter == nil || !g.opts.Filter.trusts(c.marker, g.LedgerID()) {
		return Result{}, false
	}
	if differs(c.msg.Fingerprint, c.marker.Fingerprint) {
		return Result{}, false // a conflict is the ledger's to tell
	}
	return Result{Outcome: AbsorbedFilter}, true
}

// waitForOwner answers for a key whose lease someone else holds. The marker is never a duplicate by itself: its owner may
// have died (hazard G1).
func (c *claim) waitForOwner(ctx context.Context) (Result, bool, error) {
	if c.leased || c.marker.State != MarkerProcessing {
		return Result{}, false, nil
	}
	entry, err := c.guard.findAnywhere(ctx, c.msg.Key)
	if err != nil {
		return Result{}, true, err
	}
	if entry != nil {
		return c.existing(entry), true, nil
	}
	if c.marker.TTL < 0 && !c.rehearsal {
		taken, err := c.takeOver(ctx)
		if err != nil {
			return Result{}, true, err
		}
		if taken {
			return Result{}, false, nil
		}
	}
	return inFlight(c.marker), true, nil
}

func inFlight(m Marker) Result {
	res := Result{Outcome: InFlight, RetryAfter: max(0, m.TTL), Reason: "another owner holds the lease for " + m.TTL.Round(time.Millisecond).String()}
	if m.TTL < 0 {
		res.Reason = "another owner holds a lease without end; it is taken over after one full lease"
	}
	return res
}

// existing answers for a key whose row is there.
func (c *claim) existing(e *Entry) Result {
	if e.ClaimID != nil && *e.ClaimID == c.id {
		return Result{Outcome: Executed, Entry: e, Reason: "the COMMIT whose reply was lost had gone through"}
	}
	return existing(c.msg, e)
}

func existing(m Message, e *Entry) Result {
	if differs(m.Fingerprint, e.Fingerprint) {
		return Result{Outcome: Conflict, Entry: e, Reason: "the content differs from the delivery that was executed"}
	}
	return Result{Outcome: AbsorbedLedger, Entry: e}
}

// differs compares fingerprints where both sides have one.
func differs(a, b []byte) bool { return len(a) > 0 && len(b) > 0 && string(a) != string(b) }

// transact tries whole transactions until one decides, bounded.
func (c *claim) transact(ctx context.Context) (Result, error) {
	g := c.guard
	var last error
	for c.attempts < g.opts.Attempts {
		if c.attempts > 0 {
			if err := pause(ctx, c.attempts); err != nil {
				return Result{}, err
			}
		}
		c.attempts++
		snap := g.current()
		res, err := c.attempt(ctx, snap)
		if err == nil {
			return res, nil
		}
		last = err
		var unknown *mysqlx.CommitError
		switch {
		case errors.As(err, &unknown), errors.Is(err, errTransactionGone):
			res, settled, serr := c.settle(ctx, err)
			if settled || serr != nil {
				return res, serr
			}
		case errors.Is(err, errStale), mysqlx.Number(err) == mysqlx.ErrNoSuchTable && !isEffect(err):
			if _, rerr := g.reload(ctx); rerr != nil {
				return Result{}, rerr
			}
		case ctx.Err() != nil:
			return Result{}, fmt.Errorf("%s: %w", c.msg.Key.OrderID, ctx.Err())
		case mysqlx.IsRetryable(err), mysqlx.IsConnLost(err) && !isEffect(err): // the server rolls back what was not committed
		default:
			return Result{}, err
		}
	}
	return Result{}, fmt.Errorf("gave up after %d transactions: %w", c.attempts, last)
}

func isEffect(err error) bool {
	var e *EffectError
	return errors.As(err, &e)
}

// attempt is one transaction on one snapshot of the catalog.
func (c *claim) attempt(ctx context.Context, snap *snapshot) (Result, error) {
	g := c.guard
	home, ok := snap.Home(g.month(c.msg))
	if !ok || !c.mayRun(snap) {
		return c.withoutHome(ctx, snap, ok)
	}
	a := &attempt{claim: c, snap: snap, home: home}
	err := mysqlx.WithTx(ctx, g.opts.Store.tx, func(tx *sql.Tx) error {
		a.tx = tx
		for _, step := range g.sequence {
			if err := step(ctx, a); err != nil {
				return err
			}
		}
		if err := runEffect(ctx, tx, c.effect); err != nil {
			return err
		}
		c.step(ctx, StepEffect)
		if c.rehearsal {
			a.result = Result{Outcome: Executed}
			return errDecided
		}
		return nil
	})
	switch {
	case errors.Is(err, errDecided):
		return a.result, nil
	case err != nil:
		return Result{}, err
	}
	c.step(ctx, StepCommitted)
	return Result{Outcome: Executed}, nil
}

// mayRun reports whether the message could run at all if its row is not there.
func (c *claim) mayRun(snap *snapshot) bool {
	g := c.guard
	if !snap.covers(c.msg.Time) && g.opts.BeyondHorizon != Run {
		return false
	}
	return c.marker.State != MarkerCompleted || g.opts.Phantom == Run
}

// withoutHome answers for a message that will not run, by looks alone: an existing row decides before the horizon is
// asked, and the horizon before phantom.
func (c *claim) withoutHome(ctx context.Context, snap *snapshot, home bool) (Result, error) {
	entry, err := c.guard.findIn(ctx, snap, c.msg.Key)
	if err != nil {
		return Result{}, err
	}
	if entry != nil {
		return c.existing(entry), nil
	}
	gen, err := c.guard.opts.Store.generation(ctx, c.guard.opts.Store.read)
	if err != nil {
		return Result{}, err
	}
	if gen != snap.Generation {
		return Result{}, errStale
	}
	return c.guard.absent(c.msg, snap, home, c.marker)
}

// absent answers for a key that has no row, when it may not run or has no home.
func (g *Guard) absent(m Message, snap *snapshot, home bool, marker Marker) (Result, error) {
	switch {
	case !snap.covers(m.Time) && (g.opts.BeyondHorizon != Run || !home):
		return Result{Outcome: OutsideHorizon, Reason: horizonReason(m, snap)}, nil
	case !home:
		away := m.Time.Sub(g.opts.Now()).Abs()
		if away > 365*24*time.Hour {
			return Result{Outcome: Invalid, Reason: fmt.Sprintf("time %s is more than a year away", stamp(m.Time))}, nil
		}
		return Result{}, fmt.Errorf("%w: %s, for a message of %s", ErrMonthMissing, g.opts.Store.scheme.Table(g.month(m)), stamp(m.Time))
	default:
		return Result{Outcome: Phantom, Reason: "Redis says " + marker.Raw + ", the ledger has no row: the work may never have been done"}, nil
	}
}

// attempt is the state of one transaction.
type attempt struct {
	*claim
	snap   *snapshot
	home   partition.Table
	tx     *sql.Tx
	result Result
}

// claimStep is a part of the transaction before the effect.
type claimStep func(ctx context.Context, a *attempt) error

func (a *attempt) decide(r Result) error {
	a.result = r
	return errDecided
}

// stepInsert claims the key in its home month: the ledger row first, the effect second.
func stepInsert(ctx context.Context, a *attempt) error {
	s := a.guard.opts.Store
	err := s.insert(ctx, a.tx, a.home.Name, a.msg, a.id, a.guard.opts.Retention)
	switch {
	case mysqlx.Number(err) == mysqlx.ErrDupEntry:
		entry, ferr := s.find(ctx, a.tx, a.home.Name, a.msg.Key, s.probeLock)
		if ferr != nil {
			return fmt.Errorf("read back %s: %w", a.home.Name, ferr)
		}
		if entry == nil {
			return fmt.Errorf("%w: %s: %w", ErrNotDuplicate, a.home.Name, err)
		}
		return a.decide(a.existing(entry))
	case err != nil:
		return fmt.Errorf("insert into %s: %w", a.home.Name, err)
	}
	a.step(ctx, StepInserted)
	return nil
}

// stepProbe looks for the key in every other month, held ones too, with a locking read: it has inserted before it looks, so
// of two claims in two months one sees the other, or the server reports a deadlock.
func stepProbe(ctx context.Context, a *attempt) error {
	for _, t := range a.snap.Tables {
		if t.Name == a.home.Name {
			continue
		}
		entry, err := a.guard.probe(ctx, a.tx, a.snap, t, a.msg.Key)
		if err != nil {
			return fmt.Errorf("look into %s: %w", t.Name, err)
		}
		if entry != nil {
			return a.decide(a.existing(entry))
		}
	}
	a.step(ctx, StepProbed)
	return nil
}

// probe reads one month under whichever of its names it has.
func (g *Guard) probe(ctx context.Context, q mysqlx.Queryer, snap *snapshot, t partition.Table, key Key) (*Entry, error) {
	var entry *Entry
	var err error
	for _, name := range snap.names(t) {
		entry, err = g.opts.Store.find(ctx, q, name, key, g.opts.Store.probeLock)
		if mysqlx.Number(err) != mysqlx.ErrNoSuchTable {
			return entry, err
		}
	}
	return nil, err
}

// stepConfirm reads the generation in a statement after the look. A catalog that has changed since was perhaps missing a
// table, or a horizon: the whole transaction again.
func stepConfirm(ctx context.Context, a *attempt) error {
	gen, err := a.guard.opts.Store.generation(ctx, a.tx)
	switch {
	case err != nil:
		return fmt.Errorf("read generation: %w", err)
	case gen != a.snap.Generation:
		return errStale
	}
	a.step(ctx, StepConfirmed)
	return nil
}

// pause waits before another try, longer each time, with jitter so that those who met do not meet again.
func pause(ctx context.Context, attempt int) error {
	limit := min(500*time.Millisecond, 2*time.Millisecond<<min(attempt, 10))
	t := time.NewTimer(time.Duration(rand.Int64N(int64(limit)))) //nolint:gosec // jitter, not a secret
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
