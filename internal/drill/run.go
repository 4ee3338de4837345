package drill

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/ledger"
)

const (
	// connections is how many of each kind one process may have: as many as it has partitions in a burst.
	connections = burstPartitions/2 + mainPartitions
	// standstill is how long nothing may pass before the run is given up.
	standstill = 30 * time.Second
	// pollEvery is how often a condition is looked at that nobody signals.
	pollEvery = 2 * time.Millisecond
)

// errStandstill says that a strategy does not get on any more.
var errStandstill = errors.New("nothing has passed for half a minute")

// run is one strategy's way through the stream.
type run struct {
	servers  *Servers
	strategy Strategy
	traits   Traits
	stream   *stream
	broker   *broker
	schema   string
	prefix   string
	boundary time.Time
	records  []Record
	now      func() time.Time
	logger   *slog.Logger
	fail     context.CancelCauseFunc

	tally  tally
	turned atomic.Bool // the month
	gate   *gate       // shut while a burst has the consumers to itself
	busy   sync.WaitGroup
	// stragglers are the goroutines of processes that were killed: they can reach nothing any more.
	stragglers *sync.WaitGroup

	staffing sync.Mutex // members, and which of them has which partition
	members  [2]*member
	parts    []*part
	ended    bool

	mu        sync.Mutex
	counted   []Injection        // by count, in order; those behind next are due later
	bound     map[int]*Injection // by record
	next      int
	seen      []bool
	finished  []int // how often a record was handled to its end
	delivered int   // different ordinary records
	passed    int
	active    int // injections under way
	issued    int // turns given out to injections that come one at a time, and whose turn it is
	turn      int
	turns     *sync.Cond
	resumeAt  int
	fired     map[Action]int
	missed    map[Action]int
	snapshots map[Fault]map[int32]int64
	burst     passage
	said      error // what a strategy complained about last
}

func newRun(s *Servers, strategy Strategy, schedule *Schedule, id string, boundary time.Time, now func() time.Time) *run {
	t := strategy.Traits()
	r := &run{
		servers: s, strategy: strategy, traits: t, stream: schedule.stream, boundary: boundary, now: now,
		schema: "drill_" + id + "_" + strings.ReplaceAll(t.Name, "-", "_"), prefix: "drill:" + id + ":" + t.Name + ":",
		records: schedule.stream.records(), bound: map[int]*Injection{}, fired: map[Action]int{}, missed: map[Action]int{}, snapshots: map[Fault]map[int32]int64{},
	}
	r.turns, r.gate = sync.NewCond(&r.mu), newGate()
	r.seen, r.finished = make([]bool, len(r.records)), make([]int, len(r.records))
	for i := range schedule.Injections {
		inj := schedule.Injections[i]
		switch {
		case !inj.OnRecord:
			r.counted = append(r.counted, inj)
		case inj.Action == actSlow: // whichever publication of the order comes first
			r.bound[inj.At], r.bound[schedule.stream.copyOf(inj.At)] = &inj, &inj
		default:
			r.bound[inj.At] = &inj
		}
	}
	return r
}

// world is what a strategy prepares and operates on.
func (r *run) world() (*World, func(), error) {
	r.servers.mu.Lock()
	dsn := r.servers.Databases[0].DSN(r.schema)
	r.servers.mu.Unlock()
	db, err := mysqlx.Open(mysqlx.Options{DSN: dsn})
	if err != nil {
		return nil, nil, err
	}
	tokens, err := newTokens(r.servers.cache(), r.prefix)
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return &World{DB: db, DSN: dsn, Prefix: r.prefix, Records: r.records, Issue: tokens, Boundary: r.boundary}, func() { _ = db.Close() }, nil
}

// prepare makes schema, tables and topic, and publishes the stream.
func (r *run) prepare(ctx context.Context) error {
	if err := r.servers.replicate(ctx); err != nil {
		return err
	}
	if _, err := r.servers.db().ExecContext(ctx, "CREATE DATABASE `"+r.schema+"`"); err != nil {
		return fmt.Errorf("make schema %s: %w", r.schema, err)
	}
	w, done, err := r.world()
	if err != nil {
		return err
	}
	defer done()
	if err := businessTables(ctx, w.DB); err != nil {
		return err
	}
	if err := r.strategy.Prepare(ctx, w); err != nil {
		return fmt.Errorf("prepare %s: %w", r.traits.Name, err)
	}
	if r.broker, err = newBroker(r.servers.Kafka.Brokers(), strings.ReplaceAll(r.schema, "_", "-")); err != nil {
		return err
	}
	if err := r.broker.create(ctx, r.stream.partitions()); err != nil {
		return err
	}
	if err := r.broker.publish(ctx, r.records); err != nil {
		return err
	}
	if err := r.broker.join(ctx, r.stream.partitions()); err != nil {
		return err
	}
	for p := range r.stream.partitions() {
		r.parts = append(r.parts, &part{id: p, slot: int(p % 2), open: p < mainPartitions})
	}
	for i := range r.records {
		r.parts[r.records[i].Partition].end++
	}
	return nil
}

// do takes the stream through the strategy and counts.
func (r *run) do(ctx context.Context) (_ *passage, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	r.fail = cancel
	defer cancel(nil)
	if err := r.prepare(ctx); err != nil {
		return nil, cause(ctx, err)
	}
	defer r.broker.close()
	start := r.tally.mark(r.servers.mysql.statements.Load(), r.now())
	for slot := range r.members {
		r.hire(ctx, slot)
	}
	if err = r.drain(ctx); err != nil {
		cancel(err)
	}
	end := r.tally.mark(r.servers.mysql.statements.Load(), r.now())
	if strike := r.servers.mysql.disarm(); strike != nil {
		strike.fn() // nobody committed any more
	}
	r.dismiss()
	if err := errors.Join(r.servers.resumeRedis(), r.servers.settled()); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, cause(ctx, err)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	r.leftovers()
	all := r.tally.since(start, end)
	return &all, nil
}

// cause is why ctx ended, where err is a mere consequence of that.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// drain waits until every offset is committed to the end, and no fault is under way.
func (r *run) drain(ctx context.Context) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	last, since := -1, r.now()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		r.mu.Lock()
		passed, active := r.passed, r.active
		due := r.next < len(r.counted)
		r.mu.Unlock()
		if passed != last {
			last, since = passed, r.now()
		}
		if r.now().Sub(since) > standstill {
			return r.stuck()
		}
		if active == 0 && !due && r.drained(r.parts) && r.idle() {
			return nil
		}
	}
}

// trouble remembers an error that is no news by itself: a server may be away, on purpose.
func (r *run) trouble(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = err
}

// stuck says why nothing gets on.
func (r *run) stuck() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.said == nil {
		return errStandstill
	}
	return fmt.Errorf("%w; the last complaint: %w", errStandstill, r.said)
}

// idle reports that no injection has begun since the partitions were looked at.
func (r *run) idle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.active == 0
}

func (r *run) drained(parts []*part) bool {
	for _, p := range parts {
		if p.left() > 0 {
			return false
		}
	}
	return true
}

// arrive notes a delivery that is about to be handled, and does what is due at it.
func (r *run) arrive(ctx context.Context, d *Delivery) {
	i := d.Record.Index
	var due []Injection
	r.mu.Lock()
	first := !r.seen[i]
	r.seen[i] = true
	if first && !d.Record.burst {
		r.delivered++
	}
	for r.next < len(r.counted) && r.counted[r.next].At <= r.delivered {
		due = append(due, r.counted[r.next])
		r.next++
	}
	if inj := r.bound[i]; first && inj != nil && (inj.Action == actForeign || inj.Action == actRival) {
		delete(r.bound, i)
		due = append(due, *inj)
	}
	r.active += len(due)
	turn := r.issued
	r.issued += len(due)
	resume := r.resumeAt > 0 && r.delivered >= r.resumeAt
	r.mu.Unlock()
	if resume {
		r.resume()
	}
	for i := range due {
		r.inTurn(turn+i, func() { r.settle(&due[i], r.inject(ctx, d, &due[i])) })
	}
}

// inTurn runs fn when it is its turn: injections strike in the order of the schedule.
func (r *run) inTurn(turn int, fn func()) {
	r.mu.Lock()
	for r.turn != turn {
		r.turns.Wait()
	}
	r.mu.Unlock()
	fn()
	r.mu.Lock()
	r.turn++
	r.turns.Broadcast()
	r.mu.Unlock()
}

// settle notes the end of an injection.
func (r *run) settle(inj *Injection, err error) {
	if err != nil && !errors.Is(err, errMissed) {
		r.fail(fmt.Errorf("%s: %s: %w", r.traits.Name, inj.Action, err))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.active--
	r.logger.Debug("injected", "strategy", r.traits.Name, "action", string(inj.Action), "at", inj.At, "step", string(inj.Step), "error", err)
	if errors.Is(err, errMissed) {
		r.missed[inj.Action]++
	} else {
		r.fired[inj.Action]++
	}
}

// reached does what is due at a step of a message.
func (r *run) reached(ctx context.Context, step ledger.Step, d *Delivery) {
	r.mu.Lock()
	inj := r.bound[d.Record.Index]
	if inj == nil || stepIndex(step) < stepIndex(inj.Step) {
		r.mu.Unlock()
		return
	}
	if inj.Action == actSlow && step != inj.Step {
		r.mu.Unlock()
		return // this one was absorbed; the other is slow
	}
	for i, other := range r.bound {
		if other == inj {
			delete(r.bound, i)
		}
	}
	r.active++
	r.mu.Unlock()
	r.settle(inj, r.amid(ctx, d, inj, step))
}

// leftovers counts the faults that are still waiting for their message's step: they missed.
func (r *run) leftovers() {
	r.mu.Lock()
	defer r.mu.Unlock()
	waiting := map[*Injection]bool{}
	for _, inj := range r.bound {
		waiting[inj] = true
	}
	for inj := range waiting {
		r.missed[inj.Action]++
	}
}

// stepAfter is behind all steps: the message was handled, its offset is not committed.
const stepAfter ledger.Step = "after"

func stepIndex(s ledger.Step) int {
	for i, known := range steps() {
		if s == known {
			return i
		}
	}
	return len(steps())
}

// finish notes that a delivery was handled to its end.
func (r *run) finish(d *Delivery) {
	r.tally.took(r.now().Sub(d.began))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.passed++
	r.finished[d.Record.Index]++
}
