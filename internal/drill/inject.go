package drill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/idemctl/idemctl/pkg/ledger"
)

// errMissed says that a fault found nothing to strike at: the strategy has no such part, or the database was down itself.
var errMissed = errors.New("nothing to strike at")

const (
	// stallFor is how many messages a stalled Redis stays so, where messages get on at all; stallAtMost ends it where none do.
	stallFor    = 15
	stallAtMost = 800 * time.Millisecond
	// rewindBy is how many messages of a partition are read again after a fault that shows only then.
	rewindBy = 10
	// zombieAtMost bounds the stall of an owner that has lost its partition, while the new one does not get on: it may be
	// waiting for the very lock that the old one holds.
	zombieAtMost = 200 * time.Millisecond
	// slowFor is an effect that outlives the lease.
	slowFor = lease + lease/2
)

// inject does what is due before a message is handled. Injections come one at a time.
func (r *run) inject(ctx context.Context, d *Delivery, inj *Injection) error {
	switch inj.Action {
	case actRewind:
		return r.rewind(ctx, r.partOf(d), rewindBy)
	case actMoveAll:
		return r.moveAll(ctx)
	case actFlush:
		if err := r.servers.flushRedis(ctx); err != nil {
			return err
		}
		return r.rewindAll(ctx)
	case actStall:
		return r.stall(ctx)
	case actDetachRedis:
		return r.detach(ctx, inj.Fault, r.servers.detachRedis)
	case actSwitchRedis:
		if err := r.servers.switchRedis(); err != nil {
			return err
		}
		return r.recall(ctx, inj.Fault)
	case actForeign:
		return r.foreign(ctx, d)
	case actRival:
		return r.rival(ctx, d)
	case actDetachMySQL:
		return r.detach(ctx, inj.Fault, r.servers.detachMySQL)
	case actSwitchMySQL:
		return r.failover(ctx, inj.Fault)
	case actKillBefore, actKillAfter:
		r.servers.mysql.strikeAtCommit(inj.Action == actKillBefore, func() {
			if err := r.servers.killMySQL(context.WithoutCancel(ctx)); err != nil {
				r.fail(err)
			}
		})
		return nil
	case actHoldRows:
		return r.holdRows(ctx)
	case actTurn:
		r.turned.Store(true)
		return r.rewindAll(ctx)
	case actBurst:
		return r.runBurst(ctx)
	case actCrash, actZombie, actDeadlock, actSlow: // amid does them
	}
	return nil
}

// amid does what is due in the midst of a message.
func (r *run) amid(ctx context.Context, d *Delivery, inj *Injection, at ledger.Step) error {
	switch inj.Action {
	case actCrash:
		return r.crash(ctx, d.process)
	case actZombie:
		return r.zombie(ctx, d)
	case actDeadlock:
		if at != StepWritten {
			return errMissed // the order was absorbed
		}
		return r.deadlock(ctx, d)
	case actSlow:
		pause(ctx, slowFor)
	default:
		return errMissed
	}
	return nil
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// rewind has a partition read again from some messages before what is committed, by the consumer that has it: the commits of
// these got lost. What is in flight goes on.
func (r *run) rewind(ctx context.Context, p *part, by int64) error {
	p.mu.Lock()
	to := max(0, p.committed-by)
	p.mu.Unlock()
	return r.move(ctx, p, r.slotOf(p), to)
}

func (r *run) slotOf(p *part) int {
	r.staffing.Lock()
	defer r.staffing.Unlock()
	return p.slot
}

// ordinary are the partitions of the ordinary stream.
func (r *run) ordinary() []*part { return r.parts[:mainPartitions] }

func (r *run) rewindAll(ctx context.Context) error {
	for _, p := range r.ordinary() {
		if err := r.rewind(ctx, p, rewindBy); err != nil {
			return err
		}
	}
	return nil
}

// moveAll gives every partition to the other consumer, while messages are in flight. The old owners finish these as zombies.
func (r *run) moveAll(ctx context.Context) error {
	for _, p := range r.ordinary() {
		if err := r.move(ctx, p, 1-r.slotOf(p), -1); err != nil {
			return err
		}
	}
	return nil
}

// zombie moves the partition of a message away from a consumer that is at it, and holds that consumer until the new owner has
// handled the message.
func (r *run) zombie(ctx context.Context, d *Delivery) error {
	p := r.partOf(d)
	before := r.handled(d)
	if err := r.move(ctx, p, 1-r.slotOf(p), -1); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, zombieAtMost)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for r.handled(d) == before {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
	return nil
}

func (r *run) handled(d *Delivery) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.finished[d.Record.Index]
}

// stall stops Redis for some messages.
func (r *run) stall(ctx context.Context) error {
	if err := r.servers.pauseRedis(); err != nil {
		return err
	}
	r.mu.Lock()
	r.resumeAt = r.delivered + stallFor
	r.mu.Unlock()
	r.busy.Go(func() {
		pause(ctx, stallAtMost)
		r.resume()
	})
	return nil
}

func (r *run) resume() {
	r.mu.Lock()
	r.resumeAt = 0
	r.mu.Unlock()
	if err := r.servers.resumeRedis(); err != nil {
		r.fail(err)
	}
}

// foreign has another service's marker say that the order is done. Its transaction then fails: there is no row.
func (r *run) foreign(ctx context.Context, d *Delivery) error {
	if r.traits.Marker == "" {
		return errMissed
	}
	if err := r.servers.resumeRedis(); err != nil {
		return err
	}
	if err := r.servers.cache().Set(ctx, r.prefix+r.traits.Marker+d.Record.Order, "COMPLETED", markerTTL).Err(); err != nil {
		return fmt.Errorf("write a foreign marker: %w", err)
	}
	return nil
}

// detach cuts a replica off, while nothing is handled: what it lacks later is what is done from now on, and no more.
func (r *run) detach(ctx context.Context, f Fault, cut func(context.Context) error) error {
	if err := r.servers.resumeRedis(); err != nil {
		return err
	}
	r.gate.close()
	defer r.gate.open()
	r.remember(f)
	return cut(ctx)
}

// remember keeps the offsets that are committed before a replica is detached: all that is done behind them may be lost.
func (r *run) remember(f Fault) {
	offsets := make(map[int32]int64, len(r.parts))
	for _, p := range r.parts {
		p.mu.Lock()
		offsets[p.id] = p.committed
		p.mu.Unlock()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.snapshots[f] = offsets
}

// recall has all partitions read again from the offsets remembered.
func (r *run) recall(ctx context.Context, f Fault) error {
	r.mu.Lock()
	offsets := r.snapshots[f]
	r.mu.Unlock()
	for _, p := range r.parts {
		if err := r.move(ctx, p, r.slotOf(p), offsets[p.id]); err != nil {
			return err
		}
	}
	return nil
}

// failover has the database fail over to the replica that lacks the last commits, and does what operators do: the consumers
// are stopped, the strategy's own step is taken, and the topic is read again from before the failover.
func (r *run) failover(ctx context.Context, f Fault) error {
	var slots []int
	r.staffing.Lock()
	members := r.members
	r.staffing.Unlock()
	for _, m := range members {
		slot, err := r.bury(ctx, m.process)
		if err != nil {
			return err
		}
		if slot >= 0 {
			slots = append(slots, slot)
		}
	}
	err := r.servers.switchMySQL(context.WithoutCancel(ctx), func() error {
		w, done, err := r.world()
		if err != nil {
			return err
		}
		defer done()
		return r.strategy.Operate(ctx, w)
	})
	if err != nil {
		return err
	}
	if err := r.recall(ctx, f); err != nil {
		return err
	}
	for _, slot := range slots {
		r.hire(ctx, slot)
	}
	return nil
}

// runBurst lets the burst in, through many partitions at once, while the ordinary stream rests, and measures it.
func (r *run) runBurst(ctx context.Context) error {
	if err := r.servers.resumeRedis(); err != nil {
		return err
	}
	if err := r.servers.settled(); err != nil {
		return err
	}
	r.gate.close()
	defer r.gate.open()
	r.staffing.Lock()
	members := r.members
	r.staffing.Unlock()
	for _, m := range members {
		m.process.warm(ctx)
	}
	start := r.tally.mark(r.servers.mysql.statements.Load(), r.now())
	parts := r.parts[mainPartitions:]
	r.staffing.Lock()
	for _, p := range parts {
		p.open = true
	}
	r.staffing.Unlock()
	for slot := range r.members {
		r.staff(ctx, slot)
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for !r.drained(parts) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
	r.burst = r.tally.since(start, r.tally.mark(r.servers.mysql.statements.Load(), r.now()))
	return nil
}
