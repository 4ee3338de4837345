package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
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
	// readAhead is how many records of a partition are queued at most; beyond it the partition is not fetched from until half
	// of them have passed.
	readAhead = 2000
	// fetchWait bounds how long a broker keeps a fetch that finds nothing: a partition that is taken up again is asked for
	// only when the fetch under way has come back.
	fetchWait = 500 * time.Millisecond
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
	// Until are offsets, exclusive, at which partitions end: all of the topic's. nil: the consumer goes on until it is told to
	// stop.
	Until map[int32]int64
	// GivenUp is told of a partition that has gone to another member, after its last batch. nil: nobody is.
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

// ErrOffsetGone says that the group's committed offset is not in the log any more: records were removed before they were
// consumed. Nothing is skipped without a word; the partition stays where it is.
var ErrOffsetGone = errors.New("the committed offset is gone from the log")

// Consumer is one member of a group. It commits, for each partition, only what has passed without a gap, after it has
// passed; a partition that is taken away stops between two batches, and nothing is committed for what is not done.
type Consumer struct {
	cfg    ConsumerConfig
	pass   Passage
	client *Client // for looks that no group is needed for
	kgo    *kgo.Client

	mu      sync.Mutex
	workers map[int32]*worker
	ended   map[int32]bool // partitions known to have reached Until, here or at another member
	fatal   error
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
	return &Consumer{cfg: cfg, pass: pass, client: client, workers: map[int32]*worker{}, ended: map[int32]bool{}}, nil
}

// Run joins the group and consumes until ctx ends, every partition has reached Until, or the group cannot be consumed any
// more. It returns after the batches under way have ended, what has passed is committed, and the group has been left. nil
// means that Until was reached; the context's cause, that it was told to stop.
func (c *Consumer) Run(ctx context.Context) (err error) {
	defer c.client.Close()
	if err := c.client.firstContact(ctx, "consume "+c.cfg.Topic, func(ctx context.Context) error {
		_, err := c.client.describe(ctx, c.cfg.Topic)
		return err
	}); err != nil {
		return err
	}
	if err := c.join(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.leave(ctx)) }()
	polling, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ends := make(chan error, 1)
	go func() { ends <- c.watchEnds(polling, stop) }()
	c.poll(polling)
	stop(nil)
	endErr := <-ends
	c.mu.Lock()
	fatal := c.fatal
	c.mu.Unlock()
	switch {
	case fatal != nil:
		return fatal
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		return endErr
	}
}

// join makes the member. Records come by polls, offsets go by marks: what is marked is committed at every interval and
// before a partition is given up.
func (c *Consumer) join() error {
	opts, err := c.cfg.options()
	if err != nil {
		return err
	}
	start := kgo.NewOffset().AtStart()
	if c.cfg.FromEnd {
		start = kgo.NewOffset().AtEnd()
	}
	opts = append(opts,
		kgo.ConsumerGroup(c.cfg.Group),
		kgo.ConsumeTopics(c.cfg.Topic),
		kgo.ConsumeStartOffset(start),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), // a committed offset that is gone is an error, not a jump
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(fetchWait),
		kgo.FetchMaxBytes(int32(min(c.cfg.MaxBufferedBytes, 1<<30))), //nolint:gosec // bounded in this line
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.SessionTimeout(c.cfg.SessionTimeout),
		kgo.RebalanceTimeout(c.cfg.RebalanceTimeout),
		kgo.AutoCommitMarks(),
		kgo.AutoCommitInterval(c.cfg.CommitInterval),
		kgo.OnPartitionsAssigned(func(ctx context.Context, _ *kgo.Client, parts map[string][]int32) { c.assigned(ctx, parts[c.cfg.Topic]) }),
		kgo.OnPartitionsRevoked(func(ctx context.Context, cl *kgo.Client, parts map[string][]int32) { c.revoked(ctx, cl, parts[c.cfg.Topic]) }),
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
		if fetches.IsClientClosed() {
			return
		}
		fetches.EachError(func(_ string, partition int32, err error) { c.fetchError(ctx, partition, err) })
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			if w := c.worker(p.Partition); w != nil {
				w.deliver(p.Records, p.HighWatermark)
			}
		})
	}
}

// fetchError notes an error that will not go away by itself. The others the client tries again.
func (c *Consumer) fetchError(ctx context.Context, partition int32, err error) {
	switch {
	case ctx.Err() != nil || errors.Is(err, context.Canceled):
		return
	case errors.Is(err, kerr.OffsetOutOfRange):
		err = fmt.Errorf("consume %s[%d]: %w (consume it as another group from where the log begins, after you have looked at what is missing)",
			c.cfg.Topic, partition, ErrOffsetGone)
	case retriable(err):
		c.cfg.Logger.Warn("fetch", "topic", c.cfg.Topic, "partition", partition, "error", err)
		return
	default:
		err = fmt.Errorf("consume %s[%d]: %w", c.cfg.Topic, partition, err)
	}
	c.fail(err)
}

// fail ends Run with err.
func (c *Consumer) fail(err error) {
	c.mu.Lock()
	if c.fatal == nil {
		c.fatal = err
	}
	c.mu.Unlock()
	c.kgo.CloseAllowingRebalance()
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
		if c.workers[p] != nil {
			continue
		}
		c.cfg.Logger.Info("partition assigned", "topic", c.cfg.Topic, "partition", p)
		w := newWorker(c, p)
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
	c.stop(partitions)
	for _, p := range partitions {
		c.cfg.Logger.Info("partition given up", "topic", c.cfg.Topic, "partition", p)
		if c.cfg.GivenUp != nil {
			c.cfg.GivenUp(p)
		}
	}
}

// stop ends the workers of partitions and waits for the batches they are at.
func (c *Consumer) stop(partitions []int32) {
	var stopped []*worker
	c.mu.Lock()
	for _, p := range partitions {
		if w := c.workers[p]; w != nil {
			stopped = append(stopped, w)
			delete(c.workers, p)
		}
	}
	c.mu.Unlock()
	for _, w := range stopped {
		w.halt()
	}
	for _, w := range stopped {
		<-w.done
	}
}

// leaveTimeout bounds the last commit and the good-bye.
const leaveTimeout = 10 * time.Second

// leave stops all workers, commits what has passed and leaves the group, also when ctx has ended.
func (c *Consumer) leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	c.mu.Lock()
	var all []int32
	for p := range c.workers {
		all = append(all, p)
	}
	c.mu.Unlock()
	c.stop(all)
	err := c.kgo.CommitMarkedOffsets(ctx)
	c.kgo.CloseAllowingRebalance()
	if err != nil && !errors.Is(err, kgo.ErrClientClosed) {
		return fmt.Errorf("commit the last offsets of group %s: %w (what is not committed comes again, and is absorbed)", c.cfg.Group, err)
	}
	return nil
}
