package kafka_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemctl/idemctl/pkg/replay"
	"github.com/idemctl/idemctl/pkg/replay/kafka"
)

// A live group on the same topic sees nothing of a replay: no member more, no rebalance, its offsets where they were, and
// no group is left behind. hazard R6
func TestConformanceLiveGroupUndisturbed(t *testing.T) {
	t.Parallel()
	for _, c := range clusters(t) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			topic := c.Topic(t, 1, nil)
			c.produce(t, topic, 0, "a", "b", "c")
			group := "live-" + topic
			var rebalances atomic.Int32
			count := func(context.Context, *kgo.Client, map[string][]int32) { rebalances.Add(1) }
			live := newProducer(t, c.Brokers, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
				kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond),
				kgo.OnPartitionsAssigned(count), kgo.OnPartitionsRevoked(count), kgo.OnPartitionsLost(count))
			fetches := live.PollFetches(t.Context())
			if err := fetches.Err(); err != nil {
				t.Fatal(err)
			}
			if err := live.CommitRecords(t.Context(), fetches.Records()[0]); err != nil {
				t.Fatal(err)
			}
			before, rebalanced := groupState(t, c, group), rebalances.Load()

			src := c.open(t)
			wantValues(t, collect(t, src, topic, resolve(t, src, topic, "start")), 0, "a", "b", "c")

			after := groupState(t, c, group)
			if before.members != 1 || before.offset != 1 || after != before || rebalances.Load() != rebalanced {
				t.Errorf("the live group was %+v and is %+v, rebalanced %d and %d times", before, after, rebalanced, rebalances.Load())
			}
			groups, err := c.admin.ListGroups(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range groups.Groups() {
				if strings.HasSuffix(name, topic) && name != group || strings.Contains(name, kafka.DefaultClientID) {
					t.Errorf("group %s was left behind", name)
				}
			}
		})
	}
}

type state struct {
	members  int
	member   string
	protocol string
	offset   int64
}

func groupState(t *testing.T, c *cluster, group string) state {
	t.Helper()
	described, err := c.admin.DescribeGroups(t.Context(), group)
	if err == nil {
		err = described.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	offsets, err := c.admin.FetchOffsets(t.Context(), group)
	if err != nil {
		t.Fatal(err)
	}
	d := described[group]
	ids := make([]string, 0, len(d.Members))
	for _, m := range d.Members {
		ids = append(ids, m.MemberID)
	}
	slices.Sort(ids)
	s := state{members: len(ids), member: strings.Join(ids, ","), protocol: d.Protocol, offset: -1}
	offsets.Each(func(o kadm.OffsetResponse) { s.offset = o.At })
	return s
}

// A callback that does not return holds back its own partition only, and nothing is fetched beyond what one partition may
// hold: one answer with it, one waiting.
func TestConformanceBackPressure(t *testing.T) {
	t.Parallel()
	for _, c := range clusters(t) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			topic := c.Topic(t, 2, nil)
			cl := newProducer(t, c.Brokers)
			const n = 30
			for range n {
				produceWith(t, cl, topic, 0, strings.Repeat("x", 70_000))
				produceWith(t, cl, topic, 1, strings.Repeat("x", 70_000))
			}
			src := c.open(t, func(cfg *kafka.Config) { cfg.MaxBufferedBytes = 1 })
			bounds := resolve(t, src, topic, "start")
			var first atomic.Int64
			done := make(chan struct{})
			err := src.Read(t.Context(), topic, bounds, func(ctx context.Context, b replay.Batch) error {
				if b.Partition == 1 {
					if b.Next == bounds[1].End {
						close(done)
					}
					return nil
				}
				// Partition 0 stands still until all of partition 1 was read. Then everything it still had in the log is deleted:
				// what it goes on to deliver can only have been fetched before.
				if first.Add(1) == 1 {
					select {
					case <-done:
					case <-ctx.Done():
						return ctx.Err()
					}
					c.deleteBefore(t, topic, 0, n)
				}
				return nil
			})
			if err == nil {
				t.Fatal("the deleted records were delivered: they had all been fetched while the callback stood still")
			}
			if got := first.Load(); got > 2 {
				t.Errorf("%d answers of the waiting partition were in memory, want at most 2", got)
			}
		})
	}
}
