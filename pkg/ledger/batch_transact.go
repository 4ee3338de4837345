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

var (
	// errStale says that the catalog in hand is not the catalog any more.
	errStale = errors.New("the catalog has changed")
	// errDecided rolls a transaction back in which answers were found without running the effect.
	errDecided = errors.New("decided")
)

// splitAfter is how often a transaction of several messages is tried as a whole before it is cut in two.
const splitAfter = 3

// transact decides every claim: in one transaction where that works, in halves where it does not, so that in the end a
// message that cannot go through stands alone (hazard G17).
func (b *batch) transact(ctx context.Context, set []*claim) {
	g := b.guard
	tried := 0
	for len(set) > 0 {
		if tried > 0 {
			if err := pause(ctx, tried); err != nil {
				failAll(set, err)
				return
			}
		}
		tried++
		for _, c := range set {
			c.attempts++
		}
		err := b.attempt(ctx, set)
		set = undecided(set)
		if err == nil || len(set) == 0 {
			continue
		}
		if errors.Is(err, errDecided) {
			tried = 0 // some were decided: that is progress
			continue
		}
		alone := len(set) == 1
		// Halves help where a message is to blame, or where there are too many locks. A server that is away is away for both.
		divisible := isEffect(err) || errors.Is(err, ErrNotDuplicate) || mysqlx.IsRetryable(err) || errors.Is(err, errTransactionGone)
		again, err := b.afterError(ctx, set, err)
		set = undecided(set)
		switch {
		case len(set) == 0:
		case again && tried < g.opts.Attempts && (alone || !divisible || tried < splitAfter):
		case again && (alone || !divisible):
			failAll(set, fmt.Errorf("gave up after %d transactions: %w", tried, err))
			return
		case alone || !divisible || ctx.Err() != nil:
			failAll(set, err)
			return
		default:
			b.transact(ctx, set[:len(set)/2])
			b.transact(ctx, set[len(set)/2:])
			return
		}
	}
}

// afterError says whether a transaction that ended in err may be tried again, after doing what makes that sensible.
func (b *batch) afterError(ctx context.Context, set []*claim, err error) (again bool, _ error) {
	var unknown *mysqlx.CommitError
	switch {
	case errors.As(err, &unknown), errors.Is(err, errTransactionGone):
		b.settle(ctx, set, err)
		return true, err
	case ctx.Err() != nil:
		return false, ctx.Err()
	case isEffect(err):
		return false, err
	case errors.Is(err, errStale), mysqlx.Number(err) == mysqlx.ErrNoSuchTable:
		if rerr := b.guard.reload(ctx); rerr != nil {
			failAll(set, rerr)
			return false, rerr
		}
		return true, err
	}
	// Without an answer before COMMIT the server rolls back by itself.
	return mysqlx.IsRetryable(err) || mysqlx.IsConnLost(err), err
}

func isEffect(err error) bool {
	var e *EffectError
	return errors.As(err, &e)
}

// attempt is one transaction on one snapshot of the catalog. Claims that it decides are marked so; those that are left
// undecided want another one.
func (b *batch) attempt(ctx context.Context, set []*claim) error {
	g := b.guard
	snap := g.current()
	t := &transaction{batch: b, snap: snap}
	var looked []*claim
	for _, c := range set {
		home, ok := snap.Home(g.month(c.msg))
		if !ok || !g.mayRun(c.msg, c.marker, snap) {
			looked = append(looked, c)
			continue
		}
		t.add(home, c)
	}
	if err := b.lookOnly(ctx, snap, looked); err != nil {
		return err
	}
	if len(t.claims) == 0 {
		return nil
	}
	err := mysqlx.WithTx(ctx, g.opts.Store.tx, func(tx *sql.Tx) error { return t.run(ctx, tx) })
	if err != nil {
		return err
	}
	b.step(ctx, StepCommitted, t.claims)
	for _, c := range t.claims {
		c.decide(Result{Outcome: Executed})
	}
	return nil
}

// mayRun reports whether the message could run at all if its row is not there.
func (g *Guard) mayRun(m *Message, marker Marker, snap *snapshot) bool {
	if !snap.covers(m.Time) && g.opts.BeyondHorizon != Run {
		return false
	}
	return marker.State != MarkerCompleted || g.opts.Phantom == Run
}

// lookOnly answers for messages that will not run, by looks alone: an existing row decides before the horizon is asked,
// and the horizon before phantom.
func (b *batch) lookOnly(ctx context.Context, snap *snapshot, claims []*claim) error {
	if len(claims) == 0 {
		return nil
	}
	g := b.guard
	rows, seen, err := g.lookRows(ctx, messagesOf(claims))
	if err != nil {
		return err
	}
	if seen != snap {
		return errStale
	}
	for _, c := range claims {
		if row := rows[c.msg.Key.OrderID]; row != nil {
			c.decide(b.existing(c, row))
			continue
		}
		_, home := snap.Home(g.month(c.msg))
		res := g.absent(c.msg, snap, home, c.marker)
		c.decide(res)
	}
	return nil
}

// absent answers for a key that has no row, when it may not run or has no home.
func (g *Guard) absent(m *Message, snap *snapshot, home bool, marker Marker) Result {
	switch {
	case !snap.covers(m.Time) && (g.opts.BeyondHorizon != Run || !home):
		return Result{Outcome: OutsideHorizon, Reason: horizonReason(m, snap)}
	case !home:
		if m.Time.Sub(g.opts.Now()).Abs() > 365*24*time.Hour {
			return Result{Outcome: Invalid, Reason: fmt.Sprintf("time %s is more than a year away", stamp(m.Time))}
		}
		month := g.month(m)
		return Result{Err: fmt.Errorf("%w: %s, for a message of %s (run: idemctl partition create --from %s)", ErrMonthMissing,
			g.opts.Store.scheme.Table(month), stamp(m.Time), month)}
	default:
		return Result{Outcome: Phantom, Reason: "Redis says " + marker.Raw + ", the ledger has no row: the work may never have been done"}
	}
}

// transaction is the state of one transaction: its claims by home month.
type transaction struct {
	*batch

	snap   *snapshot
	homes  []homeGroup
	claims []*claim
	tx     *sql.Tx
}

// homeGroup are the claims of one home month.
type homeGroup struct {
	table  partition.Table
	claims []*claim
}

func (t *transaction) add(home partition.Table, c *claim) {
	t.claims = append(t.claims, c)
	for i := range t.homes {
		if t.homes[i].table.Name == home.Name {
			t.homes[i].claims = append(t.homes[i].claims, c)
			return
		}
	}
	t.homes = append(t.homes, homeGroup{table: home, claims: []*claim{c}})
}

// run does the transaction's part before COMMIT.
func (t *transaction) run(ctx context.Context, tx *sql.Tx) error {
	t.tx = tx
	for _, step := range t.guard.sequence {
		if err := step(ctx, t); err != nil {
			return err
		}
	}
	indexes := make([]int, len(t.claims))
	for i, c := range t.claims {
		indexes[i] = c.index
	}
	if err := runEffect(ctx, tx, func(ctx context.Context, tx Tx) error { return t.effect(ctx, tx, indexes) }); err != nil {
		return err
	}
	t.step(ctx, StepEffect, t.claims)
	if t.rehearsal {
		for _, c := range t.claims {
			c.decide(Result{Outcome: Executed})
		}
		return errDecided
	}
	return nil
}

// claimStep is a part of the transaction before the effect.
type claimStep func(ctx context.Context, t *transaction) error

// stepInsert claims the keys in their home months: the ledger rows first, the effect second.
func stepInsert(ctx context.Context, t *transaction) error {
	s := t.guard.opts.Store
	for _, home := range t.homes {
		err := s.insert(ctx, t.tx, home.table.Name, t.guard.opts.BizType, messagesOf(home.claims), t.id, t.guard.opts.Retention)
		switch {
		case mysqlx.Number(err) == mysqlx.ErrDupEntry:
			return t.learn(ctx, home, err)
		case err != nil:
			return fmt.Errorf("insert into %s: %w", home.table.Name, err)
		}
	}
	t.step(ctx, StepInserted, t.claims)
	return nil
}

// learn finds out which keys a duplicate-key error is about, by a locking read in the same transaction, where the row that
// raised it cannot go away. An error that no key of ours explains is not about duplicates (invariant 5).
func (t *transaction) learn(ctx context.Context, home homeGroup, cause error) error {
	found, err := t.find(ctx, home.table.Name, home.claims)
	switch {
	case err != nil:
		return fmt.Errorf("read back %s: %w", home.table.Name, err)
	case !found:
		return fmt.Errorf("%w: %s: %w", ErrNotDuplicate, home.table.Name, cause)
	}
	t.guard.expectRows.Store(len(home.claims)-len(undecided(home.claims)) > len(home.claims)/expectShare)
	return errDecided
}

// find decides the claims whose row a table has, by a locking read, and reports whether there were any.
func (t *transaction) find(ctx context.Context, table string, claims []*claim) (bool, error) {
	s := t.guard.opts.Store
	ids := make([]string, len(claims))
	for i, c := range claims {
		ids[i] = c.msg.Key.OrderID
	}
	rows, err := s.find(ctx, t.tx, table, t.guard.opts.BizType, ids, s.probeLock)
	if err != nil || len(rows) == 0 {
		return false, err
	}
	byKey := make(map[string]*Entry, len(rows))
	for i := range rows {
		byKey[rows[i].Key.OrderID] = &rows[i]
	}
	found := false
	for _, c := range claims {
		if row := byKey[c.msg.Key.OrderID]; row != nil { // byte-equal, whatever the column's collation
			c.decide(t.existing(c, row))
			found = true
		}
	}
	return found, nil
}

// stepProbe looks for the keys in every month that is not their home, held ones too, with a locking read: all have been
// inserted before anyone looks, so of two claims in two months one sees the other, or the server reports a deadlock.
func stepProbe(ctx context.Context, t *transaction) error {
	known := false
	for _, table := range t.snap.Tables {
		others := t.claims
		if len(t.homes) > 1 || t.homes[0].table.Name == table.Name {
			others = nil
			for _, home := range t.homes {
				if home.table.Name != table.Name {
					others = append(others, home.claims...)
				}
			}
		}
		if len(others) == 0 {
			continue
		}
		empty, err := t.empty(ctx, table)
		if empty {
			continue
		}
		found := false
		if err == nil {
			found, err = t.probe(ctx, table, others)
		}
		if err != nil {
			return fmt.Errorf("look into %s: %w", table.Name, err)
		}
		known = known || found
	}
	if known {
		return errDecided
	}
	t.step(ctx, StepProbed, t.claims)
	return nil
}

// emptyMatters is from how many keys on it pays to ask first whether a table has any row: most months ahead have none.
const emptyMatters = 16

// empty reports that a month has no row at all, which answers for every key. A month that has had one is not asked again.
func (t *transaction) empty(ctx context.Context, table partition.Table) (bool, error) {
	g := t.guard
	if len(t.claims) < emptyMatters || table.State != partition.Live || g.isFilled(table.Name) {
		return false, nil
	}
	empty, err := g.opts.Store.empty(ctx, t.tx, table.Name, g.shareNoWait)
	if empty {
		return true, nil
	}
	if err == nil || mysqlx.IsLocked(err) {
		g.setFilled(table.Name)
	}
	if mysqlx.IsLocked(err) {
		return false, errStale // begin again, now looking for the keys
	}
	return false, err
}

func (g *Guard) isFilled(table string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.filled[table]
}

func (g *Guard) setFilled(table string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.filled[table] = true
}

// probe reads one month under whichever of its names it has.
func (t *transaction) probe(ctx context.Context, table partition.Table, claims []*claim) (found bool, err error) {
	err = lookUnder(table, func(name string) (err error) {
		found, err = t.find(ctx, name, claims)
		return err
	})
	return found, err
}

// stepConfirm reads the generation in a statement after the look. A catalog that has changed since was perhaps missing a
// table, or a horizon: the whole transaction again.
func stepConfirm(ctx context.Context, t *transaction) error {
	gen, err := t.guard.opts.Store.generation(ctx, t.tx)
	switch {
	case err != nil:
		return fmt.Errorf("read generation: %w", err)
	case gen != t.snap.Generation:
		return errStale
	}
	t.step(ctx, StepConfirmed, t.claims)
	return nil
}

// pause waits before another try, longer each time, with jitter so that those who met do not meet again.
func pause(ctx context.Context, attempt int) error {
	limit := min(500*time.Millisecond, 2*time.Millisecond<<min(attempt, 10))
	t := time.NewTimer(time.Duration(rand.Int64N(int64(limit))))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
