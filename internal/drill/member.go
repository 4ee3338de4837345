package drill

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// commitEvery is how many messages may have passed before their offset is committed: what a killed consumer leaves to be
	// delivered again.
	commitEvery = 5
	// reopenEvery is how often a process that does not come up is started again.
	reopenEvery = 30 * time.Millisecond
)

// member is one consumer process in its place of the group.
type member struct {
	slot     int
	process  *Process
	consumer Consumer // nil until it is up
	workers  sync.WaitGroup
}

// part is a partition, and who has it.
type part struct {
	id   int32
	end  int64
	slot int
	open bool // its records may be fetched

	mu        sync.Mutex // of whoever commits or moves it
	committed int64
	worker    *worker // nil: nobody has it at this moment
}

// left is how many offsets are not committed yet.
func (p *part) left() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.end - p.committed
}

// take takes the partition away from its owner. to is the offset that the next one begins at; below 0, what is committed.
// The owner ends after what it is at, and can commit no more.
func (p *part) take(ctx context.Context, b *broker, to int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.worker != nil {
		p.worker.revoke()
		p.worker = nil
	}
	if to < 0 || to >= p.committed {
		return nil
	}
	if err := b.commit(ctx, p.id, to); err != nil {
		return err
	}
	p.committed = to
	return nil
}

// worker is a member's hand at one partition.
type worker struct {
	run      *run
	part     *part
	member   *member
	next     int64 // the first offset that is not passed
	stopping chan struct{}
	wake     chan struct{}
	once     sync.Once

	mu    sync.Mutex
	queue []*Delivery
}

func (w *worker) revoke() { w.once.Do(func() { close(w.stopping) }) }

func (w *worker) revoked() bool {
	select {
	case <-w.stopping:
		return true
	default:
		return false
	}
}

// hire starts a process in a slot. It has the slot's partitions when it is up.
func (r *run) hire(ctx context.Context, slot int) {
	m := &member{slot: slot, process: newProcess(r, connections)}
	r.staffing.Lock()
	r.members[slot] = m
	r.staffing.Unlock()
	r.busy.Go(func() {
		tick := time.NewTicker(reopenEvery)
		defer tick.Stop()
		for {
			consumer, err := r.strategy.Open(ctx, m.process)
			if err == nil {
				r.staffing.Lock()
				m.consumer = consumer
				r.staffing.Unlock()
				r.staff(ctx, slot)
				return
			}
			r.trouble(err)
			m.process.close() // what it has opened; it dials again
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if m.process.killed() {
				return
			}
		}
	})
}

// staff has the member of a slot begin at those of its partitions that nobody has, at their committed offsets.
func (r *run) staff(ctx context.Context, slot int) {
	r.staffing.Lock()
	defer r.staffing.Unlock()
	m := r.members[slot]
	if r.ended || m.consumer == nil || m.process.killed() {
		return
	}
	workers := map[int32]*worker{}
	for _, p := range r.parts {
		p.mu.Lock()
		if p.open && p.slot == slot && p.worker == nil {
			p.worker = &worker{
				run: r, part: p, member: m, stopping: make(chan struct{}), wake: make(chan struct{}, 1),
			}
			workers[p.id] = p.worker
		}
		p.mu.Unlock()
	}
	if len(workers) == 0 {
		return
	}
	offsets, err := r.broker.committed(ctx)
	if err != nil {
		r.fail(err)
	}
	for id, w := range workers {
		w.next = offsets[id]
		m.workers.Add(1)
		r.stragglers.Add(1)
		go w.work(ctx)
	}
	r.busy.Go(func() {
		if err := r.broker.feed(ctx, workers); err != nil {
			r.fail(err)
		}
	})
}

// part of a delivery.
func (r *run) partOf(d *Delivery) *part { return r.parts[d.Record.Partition] }

// move gives a partition to a slot, at an offset (below 0: what is committed).
func (r *run) move(ctx context.Context, p *part, slot int, to int64) error {
	r.staffing.Lock()
	p.slot = slot
	r.staffing.Unlock()
	if err := p.take(ctx, r.broker, to); err != nil {
		return err
	}
	r.staff(ctx, slot)
	return nil
}

// crash kills a process, and starts another one in its place.
func (r *run) crash(ctx context.Context, p *Process) error {
	slot, err := r.bury(ctx, p)
	if err != nil || slot < 0 {
		return err
	}
	r.hire(ctx, slot)
	return nil
}

// bury kills a process and takes its partitions. It returns its slot, or -1 where it was dead already.
func (r *run) bury(ctx context.Context, p *Process) (int, error) {
	if !p.kill() {
		return -1, nil
	}
	r.gate.wake()
	r.staffing.Lock()
	var m *member
	for _, candidate := range r.members {
		if candidate.process == p {
			m = candidate
		}
	}
	var parts []*part
	for _, part := range r.parts {
		if m != nil && part.slot == m.slot {
			parts = append(parts, part)
		}
	}
	r.staffing.Unlock()
	if m == nil {
		return -1, nil
	}
	for _, part := range parts {
		if err := part.take(ctx, r.broker, -1); err != nil {
			return -1, err
		}
	}
	r.retire(m)
	return m.slot, nil
}

// retire closes a member's process when its last worker has ended.
func (r *run) retire(m *member) {
	r.stragglers.Go(func() {
		m.workers.Wait()
		m.process.close()
	})
}

// dismiss ends both members in order.
func (r *run) dismiss() {
	r.staffing.Lock()
	r.ended = true
	members := r.members
	r.staffing.Unlock()
	for _, p := range r.parts {
		p.mu.Lock()
		if p.worker != nil {
			p.worker.revoke()
			p.worker = nil
		}
		p.mu.Unlock()
	}
	r.busy.Wait()
	for _, m := range members {
		if m != nil {
			m.workers.Wait()
			m.process.close()
		}
	}
}

// deliver queues what the feed has fetched.
func (w *worker) deliver(records []*kgo.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range records {
		var body struct {
			Index int `json:"index"`
		}
		if err := json.Unmarshal(k.Value, &body); err != nil || body.Index < 0 || body.Index >= len(w.run.records) {
			w.run.fail(fmt.Errorf("%s[%d]@%d is no record of the drill", k.Topic, k.Partition, k.Offset))
			return
		}
		w.queue = append(w.queue, &Delivery{Record: &w.run.records[body.Index], Kafka: k, process: w.member.process})
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// work handles records until the partition is taken away.
func (w *worker) work(ctx context.Context) {
	defer w.run.stragglers.Done()
	defer w.member.workers.Done()
	defer w.revoke()
	for uncommitted := 0; ; {
		batch := w.batch(ctx)
		if len(batch) == 0 {
			return
		}
		passed, wait, ok := w.handle(ctx, batch)
		if !ok {
			return
		}
		uncommitted += passed
		if uncommitted >= commitEvery || uncommitted > 0 && w.waiting() == 0 {
			w.commit(ctx)
			uncommitted = 0
		}
		if wait <= 0 {
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-w.stopping:
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

// batch waits for the next records. None: the worker is to end.
func (w *worker) batch(ctx context.Context) []*Delivery {
	for {
		if w.revoked() || ctx.Err() != nil {
			return nil
		}
		w.mu.Lock()
		n := min(len(w.queue), w.run.traits.Batch)
		batch := w.queue[:n:n]
		w.mu.Unlock()
		if n > 0 {
			return batch
		}
		select {
		case <-w.stopping:
			return nil
		case <-ctx.Done():
			return nil
		case <-w.wake:
		}
	}
}

func (w *worker) waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queue)
}

// handle takes a batch through the consumer. ok is false when the partition is not this worker's any more.
func (w *worker) handle(ctx context.Context, batch []*Delivery) (passed int, wait time.Duration, ok bool) {
	for _, d := range batch {
		if d.began.IsZero() {
			w.run.arrive(ctx, d)
			d.began = w.run.now()
		}
	}
	if w.revoked() || ctx.Err() != nil {
		return 0, 0, false
	}
	passed, wait = w.consume(ctx, batch)
	for _, d := range batch[:passed] {
		w.run.finish(d)
		d.process.At(ctx, stepAfter, d)
	}
	w.mu.Lock()
	w.queue = w.queue[passed:]
	w.mu.Unlock()
	w.next += int64(passed)
	return passed, wait, true
}

// consume is the call of the strategy. A burst has the consumers to itself.
func (w *worker) consume(ctx context.Context, batch []*Delivery) (int, time.Duration) {
	if !batch[0].Record.burst {
		w.run.gate.enter(w.member.process)
		defer w.run.gate.leave(w.member.process)
	}
	return w.member.consumer.Handle(ctx, batch)
}

// commit commits what has passed, unless the partition has been taken away: the group would fence it.
func (w *worker) commit(ctx context.Context) {
	w.part.mu.Lock()
	defer w.part.mu.Unlock()
	if w.part.worker != w {
		return
	}
	if err := w.run.broker.commit(ctx, w.part.id, w.next); err != nil {
		if ctx.Err() == nil {
			w.run.fail(err)
		}
		return
	}
	w.part.committed = w.next
}
