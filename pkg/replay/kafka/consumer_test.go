package kafka_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idemctl/idemctl/pkg/replay"
	"github.com/idemctl/idemctl/pkg/replay/kafka"
)

// onAll runs a test on every Kafka.
func onAll(t *testing.T, test func(t *testing.T, c *cluster)) {
	t.Helper()
	for _, c := range clusters(t) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			test(t, newCluster(t, c.Cluster))
		})
	}
}

// An offset is committed when its record and all before it have passed, and not while its effect runs. hazard G15
func TestConsumerCommitsTheDonePrefix(t *testing.T) {
	t.Parallel()
	onAll(t, func(t *testing.T, c *cluster) {
		topic := c.Topic(t, 2, nil)
		c.fill(t, topic, 0, 50)
		c.fill(t, topic, 1, 50)
		early := make(chan int64, 1)
		p := &passage{decide: func(_ context.Context, r replay.Record) replay.Wait {
			if at := c.committed(t, topic)[r.Partition]; at > r.Offset {
				select {
				case early <- at:
				default:
				}
			}
			if r.Partition == 0 && r.Offset == 37 {
				return holds
			}
			return replay.Wait{}
		}}
		m := c.join(t, topic, p)
		// A partition that is held does not hold the others.
		await(t, "the other partition's end is committed", func() bool { return c.committed(t, topic)[1] == 50 })
		await(t, "what is before the held record is committed", func() bool { return c.committed(t, topic)[0] == 37 })
		await(t, "it is tried again", func() bool {
			for _, s := range m.States() {
				if s.Partition == 0 && s.Tries > 3 && s.Held == "held" && s.Waiting == 13 && s.Next == 37 && s.HighWatermark == 50 {
					return true
				}
			}
			return false
		})
		if err := m.stop(); !errors.Is(err, errTold) {
			t.Errorf("ended with %v", err)
		}
		c.wantCommitted(t, topic, map[int32]int64{0: 37, 1: 50})
		select {
		case at := <-early:
			t.Errorf("%d was committed before it was done", at)
		default:
		}
		// The next member goes on with the held record.
		p.decide = nil
		rest := c.join(t, topic, p)
		await(t, "all is committed", func() bool { return c.committed(t, topic)[0] == 50 })
		_ = rest.stop()
		wantPassed(t, p, 0, upTo(50))
		wantPassed(t, p, 1, upTo(50))
	})
}

// A batch is never larger than asked for.
func TestConsumerBatch(t *testing.T) {
	t.Parallel()
	c := newCluster(t, clusters(t)[0].Cluster)
	topic := c.Topic(t, 1, nil)
	c.fill(t, topic, 0, 100)
	p := &passage{}
	m := c.join(t, topic, p, func(cfg *kafka.ConsumerConfig) { cfg.Batch, cfg.Until = 7, map[int32]int64{0: 100} })
	if err := m.wait(t); err != nil {
		t.Fatal(err)
	}
	wantPassed(t, p, 0, upTo(100))
	if p.max != 7 {
		t.Errorf("a batch of %d", p.max)
	}
}

// A queue that is full stops its partition's fetches, by records and by bytes, and no record is lost or comes twice when they go
// on, also after the partition was given up while it was paused.
func TestConsumerPausesALongQueue(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"records": 1, "bytes": 20_000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onAll(t, func(t *testing.T, c *cluster) {
				topic := c.Topic(t, 1, nil)
				n := 10_000
				if size > 1 {
					n = 1500 // 30 MB
				}
				value := strings.Repeat("x", size)
				values := make([]string, n)
				for i := range values {
					values[i] = value
				}
				c.produce(t, topic, 0, values...)
				var open atomic.Bool
				p := &passage{decide: func(context.Context, replay.Record) replay.Wait {
					if !open.Load() {
						return holds
					}
					return replay.Wait{}
				}}
				m := c.join(t, topic, p, func(cfg *kafka.ConsumerConfig) { cfg.Batch = 500 })
				most := 0
				enough := 2000
				if size > 1 {
					enough = (8 << 20) / size
				}
				tries := 0
				await(t, "the queue is full", func() bool {
					for _, s := range m.States() {
						most, tries = max(most, s.Waiting), max(tries, s.Tries)
					}
					return most >= enough && tries > 30 // and it has been for a while
				})
				// What is polled at once comes on top.
				if limit := enough + 2000; most > limit || most >= n {
					t.Errorf("%d records of %d are in memory", most, n)
				}
				_ = m.stop()
				open.Store(true)
				m = c.join(t, topic, p, func(cfg *kafka.ConsumerConfig) { cfg.Until = map[int32]int64{0: int64(n)} })
				if err := m.wait(t); err != nil {
					t.Fatal(err)
				}
				wantPassed(t, p, 0, upTo(int64(n)))
			})
		})
	}
}

// A second member takes partitions over at a boundary between two batches: the batch under way is brought to its end and
// committed first, so that nothing comes twice, and what is not done is not committed. hazard G21
func TestConsumerRebalance(t *testing.T) {
	t.Parallel()
	onAll(t, func(t *testing.T, c *cluster) {
		const partitions, n = 4, 60
		topic := c.Topic(t, partitions, nil)
		for p := range int32(partitions) {
			c.fill(t, topic, p, n)
		}
		inside, release := make(chan struct{}), make(chan struct{})
		var once sync.Once
		first := &passage{decide: func(_ context.Context, r replay.Record) replay.Wait {
			if r.Offset == 25 { // in the middle of the second batch
				once.Do(func() { close(inside) })
				<-release
			}
			return replay.Wait{}
		}}
		var gone sync.Map
		a := c.join(t, topic, first, func(cfg *kafka.ConsumerConfig) {
			cfg.GivenUp = func(p int32) { gone.Store(p, true) }
			cfg.CommitInterval = time.Hour // what is committed is so because the partition is given up
		})
		a.reach(t, inside)
		second := &passage{}
		b := c.join(t, topic, second)
		// Partitions are being taken from the first one, which is still at their batches.
		await(t, "the rebalance", func() bool { return len(a.States()) < partitions })
		if n := second.count(); n > 0 {
			t.Errorf("the second member has passed %d records of batches under way", n)
		}
		close(release)
		await(t, "all have passed", func() bool { return first.count()+second.count() >= partitions*n })
		errA, errB := a.stop(), b.stop()
		if !errors.Is(errA, errTold) || !errors.Is(errB, errTold) {
			t.Errorf("ended with %v and %v", errA, errB)
		}
		for p := range int32(partitions) {
			one, two := first.offsets(p), second.offsets(p)
			if len(one)+len(two) != n || len(two) > 0 && (two[0] != int64(len(one)) || len(one)%20 != 0) {
				t.Errorf("partition %d: the first passed %v, the second %v", p, one, two)
			}
			if _, told := gone.Load(p); told != (len(two) > 0 && len(one) > 0) && len(one) < n {
				t.Errorf("partition %d: given up is %v", p, told)
			}
		}
		if second.count() == 0 {
			t.Error("the second member got nothing")
		}
		c.wantCommitted(t, topic, map[int32]int64{0: n, 1: n, 2: n, 3: n})
	})
}

// A pause ends with the assignment it was made in: a partition that was given up while its queue was full, and comes back, is
// fetched from again.
func TestConsumerTakesAPausedPartitionBack(t *testing.T) {
	t.Parallel()
	c := newCluster(t, clusters(t)[0].Cluster)
	const n = 5000
	topic := c.Topic(t, 2, nil)
	c.fill(t, topic, 0, n)
	c.fill(t, topic, 1, n)
	var open atomic.Bool
	hold := func(context.Context, replay.Record) replay.Wait {
		if !open.Load() {
			return holds
		}
		return replay.Wait{}
	}
	p := &passage{decide: hold}
	a := c.join(t, topic, p)
	await(t, "both queues are full", func() bool {
		full := 0
		for _, s := range a.States() {
			if s.Waiting >= 2000 {
				full++
			}
		}
		return full == 2
	})
	b := c.join(t, topic, &passage{decide: hold})
	await(t, "each has one", func() bool { return len(a.States()) == 1 && len(b.States()) == 1 })
	_ = b.stop()
	await(t, "the first has both again", func() bool { return len(a.States()) == 2 })
	open.Store(true)
	await(t, "all have passed", func() bool { return p.count() == 2*n })
	_ = a.stop()
	wantPassed(t, p, 0, upTo(n))
	wantPassed(t, p, 1, upTo(n))
}

// A partition that had nothing to do for long is not late when something comes: it is so from then on. hazard G21
func TestConsumerIdleIsNotLate(t *testing.T) {
	t.Parallel()
	c := newCluster(t, clusters(t)[0].Cluster)
	topic := c.Topic(t, 1, nil)
	began := time.Date(2026, 11, 11, 0, 0, 0, 0, time.UTC)
	var later atomic.Int64
	m := c.join(t, topic, &passage{decide: func(context.Context, replay.Record) replay.Wait { return holds }}, func(cfg *kafka.ConsumerConfig) {
		cfg.Now = func() time.Time { return began.Add(time.Duration(later.Load())) }
	})
	await(t, "it has the partition", func() bool { return len(m.States()) == 1 })
	later.Store(int64(time.Hour))
	c.fill(t, topic, 0, 1)
	var s kafka.PartitionState
	held := func() bool {
		states := m.States()
		if len(states) == 1 {
			s = states[0]
		}
		return s.Tries > 0
	}
	await(t, "it is held", held)
	if want := began.Add(time.Hour); !s.Progress.Equal(want) {
		t.Errorf("no progress since %v, want %v", s.Progress, want)
	}
	later.Store(int64(2 * time.Hour))
	tries := s.Tries
	await(t, "it is held on", func() bool { return held() && s.Tries > tries+1 })
	if want := began.Add(time.Hour); !s.Progress.Equal(want) {
		t.Errorf("no progress since %v, want %v still", s.Progress, want)
	}
}

// Told to stop, the consumer brings the batch under way to its end, commits it, and begins no other.
func TestConsumerStopsAtABoundary(t *testing.T) {
	t.Parallel()
	onAll(t, func(t *testing.T, c *cluster) {
		topic := c.Topic(t, 1, nil)
		c.fill(t, topic, 0, 60)
		inside, release := make(chan struct{}), make(chan struct{})
		p := &passage{decide: func(ctx context.Context, r replay.Record) replay.Wait {
			if r.Offset == 25 {
				close(inside)
				<-release
				if ctx.Err() != nil {
					t.Error("the batch under way was cut off")
				}
			}
			return replay.Wait{}
		}}
		m := c.join(t, topic, p)
		m.reach(t, inside)
		m.cancel(errTold)
		close(release)
		if err := m.wait(t); !errors.Is(err, errTold) {
			t.Errorf("ended with %v", err)
		}
		wantPassed(t, p, 0, upTo(40))
		c.wantCommitted(t, topic, map[int32]int64{0: 40})
	})
}
