package kafka

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemctl/idemctl/pkg/replay"
)

// queued is a record that waits for its turn.
type queued struct {
	pending *replay.Pending
	record  *kgo.Record
}

// worker takes the records of one partition, in order, through the passage.
type worker struct {
	consumer  *Consumer
	partition int32
	stopping  chan struct{}   // closed: no other batch is begun, for the partition is given up
	quit      <-chan struct{} // closed: the same, for the consumer has been told to stop
	done      chan struct{}   // closed: the worker has ended
	wake      chan struct{}   // something was delivered
	once      sync.Once

	mu     sync.Mutex
	queue  []queued
	bytes  int   // of keys and values in the queue
	limit  int   // of bytes
	paused bool  // nothing is fetched until the queue is shorter
	ended  bool  // nothing is fetched any more: Until was read
	epoch  int32 // the leader's, of the last record delivered; -1: none was
	state  PartitionState
}

// PartitionState is how one partition of the member is doing.
type PartitionState struct {
	Partition int32 `json:"partition"`
	// Next is the offset behind the last one that has passed, or that the group goes on from; -1: it is not known yet.
	Next int64 `json:"next"`
	// HighWatermark is the log's end as the last fetch with records saw it; -1 before the first.
	HighWatermark int64 `json:"high_watermark"`
	// Waiting counts records that were read and have not passed.
	Waiting int `json:"waiting"`
	// Busy is when the batch under way began; zero: none is.
	Busy time.Time `json:"busy,omitzero"`
	// Progress is when a record last passed, or came to an empty queue.
	Progress time.Time `json:"progress"`
	// Held says why the first record waiting was not let pass the last time; empty: it was not tried, or nothing waits.
	Held string `json:"held,omitempty"`
	// Tries counts the tries of it so far.
	Tries int `json:"tries,omitempty"`
	// Blocked says that no time will let it pass: somebody has to act.
	Blocked bool `json:"blocked,omitempty"`
}

func newWorker(c *Consumer, partition int32) *worker {
	return &worker{
		consumer: c, partition: partition, stopping: make(chan struct{}), quit: c.quit, done: make(chan struct{}), wake: make(chan struct{}, 1), epoch: -1,
		state: PartitionState{Partition: partition, Next: -1, HighWatermark: -1, Progress: c.cfg.Now()},
	}
}

// halt has the worker end after the batch it is at.
func (w *worker) halt() { w.once.Do(func() { close(w.stopping) }) }

// deliver appends records; a partition that is far ahead is not fetched from until it has caught up.
func (w *worker) deliver(records []*kgo.Record, high int64) {
	until, bounded := w.consumer.cfg.Until[w.partition]
	limit := w.consumer.queueBytes()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limit = limit
	w.state.HighWatermark = high
	if len(w.queue) == 0 {
		w.state.Progress = w.consumer.cfg.Now() // what was idle is not late
	}
	if w.state.Next < 0 && len(records) > 0 {
		w.state.Next = records[0].Offset
	}
	for _, r := range records {
		if bounded && r.Offset >= until {
			w.ended = true
			break
		}
		w.queue = append(w.queue, queued{pending: w.consumer.pass.Admit(convertOne(r)), record: r})
		w.bytes += size(r)
		w.epoch = r.LeaderEpoch
	}
	if !w.paused && (w.ended || len(w.queue) >= readAhead || w.bytes >= w.limit) {
		w.paused = true
		w.consumer.kgo.PauseFetchPartitions(w.topicPartition())
	}
	w.signal()
}

// goOnFrom notes where the partition begins; a worker that is gone again needs no note.
func (w *worker) goOnFrom(offset int64) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state.Next = offset
}

func size(r *kgo.Record) int { return len(r.Key) + len(r.Value) }

// drop takes the first n records out of the queue.
func (w *worker) drop(n int) {
	for i := range w.queue[:n] {
		w.bytes -= size(w.queue[i].record)
	}
	clear(w.queue[:n])
	w.queue = w.queue[n:]
	if w.paused && !w.ended && len(w.queue) < readAhead/2 && w.bytes < w.limit/2 {
		w.paused = false
		w.consumer.kgo.ResumeFetchPartitions(w.topicPartition())
	}
}

func (w *worker) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *worker) topicPartition() map[string][]int32 {
	return map[string][]int32{w.consumer.cfg.Topic: {w.partition}}
}

// run works until halted. ctx is the client's: it ends when the client closes.
func (w *worker) run(ctx context.Context) {
	defer close(w.done)
	for !w.halted(ctx) {
		batch := w.take()
		if len(batch) == 0 {
			w.sleep(ctx, nil)
			continue
		}
		if wait := w.pass(ctx, batch); wait > 0 {
			timer := time.NewTimer(wait)
			w.sleep(ctx, timer.C)
			timer.Stop()
		}
	}
}

// halted reports whether the worker is to end.
func (w *worker) halted(ctx context.Context) bool {
	select {
	case <-w.stopping:
		return true
	case <-w.quit:
		return true
	default:
		return ctx.Err() != nil
	}
}

// sleep waits for the worker's end, and for a timer, or without one for a delivery.
func (w *worker) sleep(ctx context.Context, timer <-chan time.Time) {
	wake := w.wake
	if timer != nil {
		wake = nil // a delivery shortens no wait
	}
	select {
	case <-w.stopping:
	case <-w.quit:
	case <-ctx.Done():
	case <-timer:
	case <-wake:
	}
}

// take returns the next batch, which stays in the queue until it has passed.
func (w *worker) take() []queued {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.queue[:min(len(w.queue), w.consumer.cfg.Batch)]
}

// pass takes a batch through the passage, marks what has passed, and returns how long to wait before the next try. The
// batch is brought to its end also when the partition is being given up: a boundary between messages is between batches.
func (w *worker) pass(ctx context.Context, batch []queued) time.Duration {
	w.mu.Lock()
	w.state.Busy = w.consumer.cfg.Now()
	w.mu.Unlock()
	pending := make([]*replay.Pending, len(batch))
	for i := range batch {
		pending[i] = batch[i].pending
	}
	n, wait := w.consumer.pass.Pass(context.WithoutCancel(ctx), pending)
	if n > 0 {
		w.consumer.kgo.MarkCommitRecords(batch[n-1].record)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &w.state
	s.Busy = time.Time{}
	if n > 0 {
		s.Next = batch[n-1].record.Offset + 1
		w.drop(n)
		s.Tries = 0
		s.Progress = w.consumer.cfg.Now()
	}
	s.Held, s.Blocked = wait.Reason, wait.Blocked
	if wait.After > 0 {
		s.Tries++
	}
	if wait.Err != nil || wait.Blocked && s.Tries == 1 {
		w.consumer.cfg.Logger.Warn("held", "topic", w.consumer.cfg.Topic, "partition", w.partition, "reason", wait.Reason, "again_in", wait.After.String())
	}
	return wait.After
}

func (w *worker) snapshot() PartitionState {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.state
	s.Waiting = len(w.queue)
	return s
}

// States are those of the partitions that the member has now, in no order.
func (c *Consumer) States() []PartitionState {
	c.mu.Lock()
	workers := make([]*worker, 0, len(c.workers))
	for _, w := range c.workers {
		workers = append(workers, w)
	}
	c.mu.Unlock()
	states := make([]PartitionState, len(workers))
	for i, w := range workers {
		states[i] = w.snapshot()
	}
	return states
}
