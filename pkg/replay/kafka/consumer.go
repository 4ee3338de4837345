package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemctl/idemctl/pkg/replay"
)

// Defaults of ConsumerConfig.
const (
	// DefaultBatch is small: what a rebalance must wait for, and what comes again after a crash, is one batch a partition.
	DefaultBatch = 20
	// DefaultSessionTimeout is how long the group waits for a member that has stopped heartbeating.
	DefaultSessionTimeout = 45 * time.Second
	// DefaultRebalanceTimeout is how long the group waits for a member to give partitions up.
	DefaultRebalanceTimeout = 60 * time.Second
	// DefaultCommitInterval is how often offsets that have passed are committed.
	DefaultCommitInterval = time.Second
)

const (
	// readAhead is how many records of a partition may be queued: beyond it the partition is not fetched from until half of them
	// have passed. readAheadBytes is the same for the bytes of keys and values, of all the member's partitions together; one of
	// them is given no less than minReadAheadBytes and no more than maxReadAheadBytes.
	readAhead         = 2000
	readAheadBytes    = 64 << 20
	minReadAheadBytes = 256 << 10
	maxReadAheadBytes = 8 << 20
	// fetchWait bounds how long a broker keeps a fetch that finds nothing: a partition that is taken up again is asked for
	// only when the fetch under way has come back.
	fetchWait = 500 * time.Millisecond
	// A member shows at least heartbeats signs of life within its session, and one every maxHeartbeat.
	heartbeats   = 3
	maxHeartbeat = 3 * time.Second
)

// Passage is what decides which records may pass. A *replay.Gate is one.
type Passage interface {
	Admit(r replay.Record) *replay.Pending
	Pass(ctx context.Context, batch []*replay.Pending) (n int, wait replay.Wait)
}

// ConsumerConfig says what to consume, and as which group.
type ConsumerConfig struct {
	Config

	Group string
	Topic string
	// InstanceID makes the member a static one; empty: it is not.
	InstanceID string
	// FromEnd begins a partition without a committed offset at its end instead of its start.
	FromEnd bool
	// Batch is how many records of a partition are decided at once; 0 means DefaultBatch.
	Batch int
	// The group's timeouts; 0 means the defaults.
	SessionTimeout, RebalanceTimeout, CommitInterval time.Duration
	// Until are offsets, exclusive, at which partitions end; a partition without one is not consumed. nil: all are, until the
	// consumer is told to stop.
	Until map[int32]int64
	// Starts are offsets at which partitions begin where the group has committed none. One that the log does not have any more
	// is ErrOffsetGone, as a committed one would be.
	Starts map[int32]int64
	// GivenUp is told of a partition that has gone to another member, after its last batch; not of those that it has when it
	// leaves. nil: nobody is.
	GivenUp func(partition int32)
	// Now is this machine's clock; nil means time.Now.
	Now func() time.Time
}

func (c ConsumerConfig) withDefaults() (ConsumerConfig, error) {
	switch {
	case c.Group == "":
		return c, fmt.Errorf("%w: no group", ErrConfig)
	case c.Topic == "":
		return c, fmt.Errorf("%w: no topic", ErrConfig)
	case c.Batch < 0 || c.SessionTimeout < 0 || c.RebalanceTimeout < 0 || c.CommitInterval < 0:
		return c, fmt.Errorf("%w: a negative batch or timeout", ErrConfig)
	}
	if c.Batch == 0 {
		c.Batch = DefaultBatch
	}
	for value, fallback := range map[*time.Duration]time.Duration{
		&c.SessionTimeout: DefaultSessionTimeout, &c.RebalanceTimeout: DefaultRebalanceTimeout, &c.CommitInterval: DefaultCommitInterval,
	} {
		if *value == 0 {
			*value = fallback
		}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	var err error
	c.Config, err = c.Config.withDefaults()
	return c, err
}

// Errors that end a consumer.
var (
	// ErrOffsetGone says that the offset to go on from is not in the log any more: records were removed before they were
	// consumed. Nothing is skipped without a word; the group's offset stays where it is.
	ErrOffsetGone = errors.New("the offset is gone from the log")
	// ErrBlocked says that a bounded consumer cannot reach its end: in every partition of it that has not ended there stands a
	// record that only somebody can let pass.
	ErrBlocked = errors.New("records that cannot pass hold their partitions")
)

// Consumer is one member of a group. It commits, for each partition, only what has passed without a gap, after it has
// passed; a partition that is taken away stops between two batches, and nothing is committed for what is not done.
type Consumer struct {
	cfg    ConsumerConfig
	pass   Passage
	client *Client // for looks that no group is needed for
	kgo    *kgo.Client

	mu      sync.Mutex
	workers map[int32]*worker
	leaving bool
	stopped context.CancelCauseFunc // ends the polls
	quit    <-chan struct{}         // closed when the polls end
}

// OpenConsumer checks cfg and prepares the member. It joins nothing before Run.
func OpenConsumer(cfg ConsumerConfig, pass Passage) (*Consumer, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	client, err := Open(cfg.Config)
	if err != nil {
		return nil, err
	}
	return &Consumer{cfg: cfg, pass: pass, client: client, workers: map[int32]*worker{}}, nil
}

// errEnded ends the polls of a bounded consumer.
var errEnded = errors.New("every partition has reached its end")

// Run joins the group and consumes until ctx ends, every partition has reached Until, or the group cannot be consumed any
// more. It returns after the batches under way have ended, what has passed is committed, and the group has been left. nil
// means that Until was reached; ErrBlocked, that it cannot be; the context's cause, that it was told to stop. A topic that
// does not exist is a *replay.TopicError. It can be called once.
func (c *Consumer) Run(ctx context.Context) (err error) {
	defer c.client.Close()
	if err := c.client.firstContact(ctx, "consume "+c.cfg.Topic, func(ctx context.Context) error {
		_, err := c.client.describe(ctx, c.cfg.Topic)
		return err
	}); err != nil {
		return err
	}
	polling, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	c.stopped, c.quit = stop, polling.Done()
	if err := c.join(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.leave(ctx)) }()
	var watch sync.WaitGroup
	if c.cfg.Until != nil {
		watch.Go(func() { newEndWatch(c).run(polling) })
	}
	c.poll(polling)
	stop(errEnded)
	watch.Wait()
	if err := context.Cause(polling); !errors.Is(err, errEnded) {
		return err
	}
	return nil
}

// join makes the member. Records come by polls, offsets go by marks: what is marked is committed at every interval and
// before a partition is given up.
func (c *Consumer) join() error {
	opts, err := c.cfg.options()
	if err != nil {
		return err
	}
	opts = append(opts,
		kgo.ConsumerGroup(c.cfg.Group),
		kgo.ConsumeTopics(c.cfg.Topic),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.AdjustFetchOffsetsFn(c.begin),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), // a committed offset that is gone is an error, not a jump
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(fetchWait),
		kgo.FetchMaxBytes(int32(min(c.cfg.MaxBufferedBytes, 1<<30))), //nolint:gosec // bounded in this line
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.SessionTimeout(c.cfg.SessionTimeout),
		kgo.HeartbeatInterval(min(maxHeartbeat, c.cfg.SessionTimeout/heartbeats)),
		kgo.RebalanceTimeout(c.cfg.RebalanceTimeout),
		kgo.AutoCommitMarks(),
		kgo.AutoCommitInterval(c.cfg.CommitInterval),
		// Between a poll and the delivery of its records nothing is assigned or taken: records of an earlier assignment must not
		// reach the worker of a later one, which begins at another offset.
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(func(ctx context.Context, _ *kgo.Client, parts map[string][]int32) {
			c.assigned(ctx, parts[c.cfg.Topic])
		}),
		kgo.OnPartitionsRevoked(func(ctx context.Context, cl *kgo.Client, parts map[string][]int32) {
			c.revoked(ctx, cl, parts[c.cfg.Topic])
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, parts map[string][]int32) { c.giveUp(parts[c.cfg.Topic]) }),
	)
	if c.cfg.InstanceID != "" {
		opts = append(opts, kgo.InstanceID(c.cfg.InstanceID))
	}
	if c.kgo, err = kgo.NewClient(opts...); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return nil
}

// poll hands records to the workers of their partitions until the context ends.
func (c *Consumer) poll(ctx context.Context) {
	for ctx.Err() == nil {
		fetches := c.kgo.PollRecords(ctx, readAhead)
		fetches.EachError(func(_ string, partition int32, err error) { c.fetchError(ctx, partition, err) })
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			if w := c.worker(p.Partition); w != nil {
				w.deliver(p.Records, p.HighWatermark)
			}
		})
		c.kgo.AllowRebalance()
	}
}

// queueBytes is how many bytes one partition may queue.
func (c *Consumer) queueBytes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return min(max(readAheadBytes/max(1, len(c.workers)), minReadAheadBytes), maxReadAheadBytes)
}

func (c *Consumer) worker(partition int32) *worker {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.workers[partition]
}

// assigned starts a worker for each partition.
func (c *Consumer) assigned(ctx context.Context, partitions []int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range partitions {
		if c.workers[p] != nil || c.leaving {
			continue
		}
		c.cfg.Logger.Info("partition assigned", "topic", c.cfg.Topic, "partition", p)
		w := newWorker(c, p)
		// A pause outlives the assignment that it was made in.
		c.kgo.ResumeFetchPartitions(w.topicPartition())
		c.workers[p] = w
		go w.run(ctx)
	}
}

// revoked stops the workers between two batches, and commits what has passed before the partitions go to others.
func (c *Consumer) revoked(ctx context.Context, cl *kgo.Client, partitions []int32) {
	c.giveUp(partitions)
	if len(partitions) == 0 {
		return
	}
	if err := cl.CommitMarkedOffsets(ctx); err != nil {
		// What is not committed comes again, and is absorbed.
		c.cfg.Logger.Warn("commit before a partition is given up", "topic", c.cfg.Topic, "error", err)
	}
}

// giveUp stops the workers of partitions that go to other members.
func (c *Consumer) giveUp(partitions []int32) {
	for _, p := range c.stop(partitions) {
		c.cfg.Logger.Info("partition given up", "topic", c.cfg.Topic, "partition", p)
		if c.cfg.GivenUp != nil {
			c.cfg.GivenUp(p)
		}
	}
}

// stop ends the workers of partitions, waits for the batches they are at, and returns the partitions that had one.
func (c *Consumer) stop(partitions []int32) []int32 {
	var workers []*worker
	c.mu.Lock()
	for _, p := range partitions {
		if w := c.workers[p]; w != nil {
			workers = append(workers, w)
			delete(c.workers, p)
		}
	}
	c.mu.Unlock()
	for _, w := range workers {
		w.halt()
	}
	var stopped []int32
	for _, w := range workers {
		<-w.done
		stopped = append(stopped, w.partition)
	}
	return stopped
}

// leaveTimeout bounds the last commit and the good-bye.
const leaveTimeout = 10 * time.Second

// leave stops all workers, commits what has passed and leaves the group, also when ctx has ended.
func (c *Consumer) leave(ctx context.Context) error {
	c.mu.Lock()
	c.leaving = true
	var all []int32
	for p := range c.workers {
		all = append(all, p)
	}
	c.mu.Unlock()
	c.stop(all) // a batch takes its time, which its deadline bounds
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	err := c.kgo.CommitMarkedOffsets(ctx)
	c.kgo.CloseAllowingRebalance()
	if err != nil && !errors.Is(err, kgo.ErrClientClosed) {
		return fmt.Errorf("commit the last offsets of group %s: %w (what is not committed comes again, and is absorbed)", c.cfg.Group, err)
	}
	return nil
}
