package kafka_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemctl/idemctl/pkg/replay"
	"github.com/idemctl/idemctl/pkg/replay/kafka"
)

func until(ends map[int32]int64) func(*kafka.ConsumerConfig) {
	return func(cfg *kafka.ConsumerConfig) { cfg.Until = ends }
}

// A bounded consumer ends although the last offsets of its partitions hold no record: a transaction's marker, an aborted tail,
// an empty partition, records that were deleted. What it commits is the end all the same. hazard R1
func TestConsumerUntilAnEndWithoutARecord(t *testing.T) {
	t.Parallel()
	onAll(t, func(t *testing.T, c *cluster) {
		topic := c.Topic(t, 5, nil)
		c.begin(t, topic, 0, "a", "b")(kgo.TryCommit)
		c.awaitStable(t, topic, 0, 3)
		c.produce(t, topic, 1, "a")
		c.begin(t, topic, 1, "x", "y")(kgo.TryAbort)
		c.awaitStable(t, topic, 1, 4)
		c.begin(t, topic, 2, "x")(kgo.TryAbort)
		c.awaitStable(t, topic, 2, 2)
		c.fill(t, topic, 3, 5)
		c.deleteBefore(t, topic, 3, 5)
		p := &passage{}
		m := c.join(t, topic, p, until(map[int32]int64{0: 3, 1: 4, 2: 2, 3: 5, 4: 0}))
		if err := m.wait(t); err != nil {
			t.Fatal(err)
		}
		wantPassed(t, p, 0, []int64{0, 1})
		wantPassed(t, p, 1, []int64{0})
		for _, none := range []int32{2, 3, 4} {
			wantPassed(t, p, none, nil)
		}
		c.wantCommitted(t, topic, map[int32]int64{0: 3, 1: 4, 2: 2, 3: 5})
	})
}

// Compaction may take the last records before the end. On kfake alone, which compacts when told to. hazard R1
func TestConsumerUntilACompactedTail(t *testing.T) {
	t.Parallel()
	fake, c := newFake(t)
	topic := c.Topic(t, 1, map[string]string{"cleanup.policy": "compact", "delete.retention.ms": "0"})
	cl := newProducer(t, c.Brokers)
	for _, r := range []*kgo.Record{
		{Key: []byte("k"), Value: []byte("0")}, {Key: []byte("l"), Value: []byte("1")}, {Key: []byte("m"), Value: []byte("2")},
		{Key: []byte("m"), Value: nil}, {Key: []byte("z"), Value: []byte("4")},
	} {
		r.Topic = topic
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	fake.Compact()
	p := &passage{}
	if err := c.join(t, topic, p, until(map[int32]int64{0: 4})).wait(t); err != nil {
		t.Fatal(err)
	}
	wantPassed(t, p, 0, []int64{0, 1})
	c.wantCommitted(t, topic, map[int32]int64{0: 4})
}

// Until ends a partition though the log goes on, Starts begins one that the group knows nothing of, and one without an end is
// left alone. A second run finds it done.
func TestConsumerStartsAndUntil(t *testing.T) {
	t.Parallel()
	onAll(t, func(t *testing.T, c *cluster) {
		topic := c.Topic(t, 3, nil)
		for part := range int32(3) {
			c.fill(t, topic, part, 5000)
		}
		p := &passage{}
		bounds := func(cfg *kafka.ConsumerConfig) {
			cfg.Starts, cfg.Until = map[int32]int64{0: 10, 1: 4990}, map[int32]int64{0: 30, 1: 5000}
		}
		for range 2 {
			if err := c.join(t, topic, p, bounds).wait(t); err != nil {
				t.Fatal(err)
			}
			wantPassed(t, p, 0, upTo(30)[10:])
			wantPassed(t, p, 1, upTo(5000)[4990:])
			wantPassed(t, p, 2, nil)
			c.wantCommitted(t, topic, map[int32]int64{0: 30, 1: 5000})
		}
	})
}

// Two bounded members end together: each sees what the other has done.
func TestConsumerUntilOfTwoMembers(t *testing.T) {
	t.Parallel()
	onAll(t, func(t *testing.T, c *cluster) {
		topic := c.Topic(t, 2, nil)
		c.fill(t, topic, 0, 100)
		c.begin(t, topic, 1, "a")(kgo.TryAbort)
		c.awaitStable(t, topic, 1, 2)
		slow := &passage{decide: func(context.Context, replay.Record) replay.Wait { time.Sleep(time.Millisecond); return replay.Wait{} }}
		ends := until(map[int32]int64{0: 100, 1: 2})
		a, b := c.join(t, topic, slow, ends), c.join(t, topic, slow, ends)
		if errA, errB := a.wait(t), b.wait(t); errA != nil || errB != nil {
			t.Errorf("ended with %v and %v", errA, errB)
		}
		wantPassed(t, slow, 0, upTo(100))
		c.wantCommitted(t, topic, map[int32]int64{0: 100, 1: 2})
	})
}

// A bounded consumer whose every partition is done, or held by a record that only somebody can let pass, ends and says so.
func TestConsumerBlocked(t *testing.T) {
	t.Parallel()
	onAll(t, func(t *testing.T, c *cluster) {
		topic := c.Topic(t, 2, nil)
		c.fill(t, topic, 0, 10)
		c.fill(t, topic, 1, 10)
		p := &passage{decide: func(_ context.Context, r replay.Record) replay.Wait {
			if r.Partition == 0 && r.Offset == 3 {
				return replay.Wait{After: 10 * time.Millisecond, Blocked: true, Reason: "conflict"}
			}
			return replay.Wait{}
		}}
		if err := c.join(t, topic, p, until(map[int32]int64{0: 10, 1: 10})).wait(t); !errors.Is(err, kafka.ErrBlocked) {
			t.Errorf("ended with %v", err)
		}
		c.wantCommitted(t, topic, map[int32]int64{0: 3, 1: 10})
	})
}

// A group that begins at the end commits where that is, before a record has come: after a restart it goes on from there, and
// not from an end that has moved past records nobody has seen.
func TestConsumerFromEndIsRemembered(t *testing.T) {
	t.Parallel()
	onAll(t, func(t *testing.T, c *cluster) {
		topic := c.Topic(t, 1, nil)
		c.fill(t, topic, 0, 10)
		fromEnd := func(cfg *kafka.ConsumerConfig) { cfg.FromEnd = true }
		p := &passage{}
		m := c.join(t, topic, p, fromEnd)
		await(t, "the end is committed", func() bool { return c.committed(t, topic)[0] == 10 })
		_ = m.stop()
		c.fill(t, topic, 0, 5) // while nobody consumes
		m = c.join(t, topic, p, fromEnd)
		await(t, "all is committed", func() bool { return c.committed(t, topic)[0] == 15 })
		_ = m.stop()
		wantPassed(t, p, 0, upTo(15)[10:])
	})
}

// The committed offset is not in the log any more: the consumer says so with the numbers, skips nothing, and leaves the group's
// offset where it was.
func TestConsumerOffsetGone(t *testing.T) {
	t.Parallel()
	onAll(t, func(t *testing.T, c *cluster) {
		topic := c.Topic(t, 1, nil)
		c.fill(t, topic, 0, 20)
		p := &passage{}
		if err := c.join(t, topic, p, until(map[int32]int64{0: 5})).wait(t); err != nil {
			t.Fatal(err)
		}
		c.deleteBefore(t, topic, 0, 12)
		err := c.join(t, topic, p).wait(t)
		if !errors.Is(err, kafka.ErrOffsetGone) || !strings.Contains(err.Error(), "go on at 5, and the log begins at 12") {
			t.Errorf("ended with %v", err)
		}
		wantPassed(t, p, 0, upTo(5))
		c.wantCommitted(t, topic, map[int32]int64{0: 5})
	})
}

// hazard R4
func TestConsumerUnknownTopic(t *testing.T) {
	t.Parallel()
	onAll(t, func(t *testing.T, c *cluster) {
		began := time.Now()
		err := c.consumer(t, "no-such-topic", &passage{}).Run(t.Context())
		var unknown *replay.TopicError
		if !errors.As(err, &unknown) || unknown.Topic != "no-such-topic" {
			t.Errorf("ended with %v", err)
		}
		if took := time.Since(began); took > 2*kafka.DefaultConnectTimeout {
			t.Errorf("it took %v", took)
		}
		if view, err := c.open(t).ViewGroup(t.Context(), "group-no-such-topic"); err != nil || view.Exists() {
			t.Errorf("a group was left behind: %+v, %v", view, err)
		}
	})
}
