package kafka_test

import (
	"bytes"
	"context"
	"crypto/sha512"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemctl/idemctl/pkg/replay"
	"github.com/idemctl/idemctl/pkg/replay/kafka"
)

// What a record is made of arrives as it was written: null is not empty, header keys repeat, times keep milliseconds.
// hazard R5
func TestConformanceRecordsAsWritten(t *testing.T) {
	t.Parallel()
	for _, c := range clusters(t) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			topic := c.Topic(t, 1, nil)
			at := time.UnixMilli(1_794_326_412_345).UTC()
			written := []*kgo.Record{
				{Topic: topic, Timestamp: at, Key: nil, Value: nil},
				{Topic: topic, Timestamp: at, Key: []byte{}, Value: []byte{}},
				{Topic: topic, Timestamp: at, Key: []byte("k\x00\xff"), Value: []byte("v\x00\xff"), Headers: []kgo.RecordHeader{
					{Key: "h", Value: []byte("1")}, {Key: "g", Value: nil}, {Key: "h", Value: []byte{}},
				}},
			}
			cl := newProducer(t, c.Brokers)
			if err := cl.ProduceSync(t.Context(), written...).FirstErr(); err != nil {
				t.Fatal(err)
			}
			src := c.open(t)
			got := collect(t, src, topic, resolve(t, src, topic, "start")).records[0]
			if len(got) != len(written) {
				t.Fatalf("read %d records, want %d", len(got), len(written))
			}
			for i, r := range got {
				w := written[i]
				if !r.Timestamp.Equal(at) || r.Timestamp.Location() != time.UTC {
					t.Errorf("record %d: time %v, want %v in UTC", i, r.Timestamp, at)
				}
				if !same(r.Key, w.Key) || !same(r.Value, w.Value) {
					t.Errorf("record %d: key %#v value %#v, want %#v and %#v", i, r.Key, r.Value, w.Key, w.Value)
				}
				if !slices.EqualFunc(r.Headers, w.Headers, func(a replay.Header, b kgo.RecordHeader) bool {
					return a.Key == b.Key && same(a.Value, b.Value)
				}) {
					t.Errorf("record %d: headers %#v, want %#v", i, r.Headers, w.Headers)
				}
			}
		})
	}
}

// same tells null from empty.
func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// Every compression is read, in order within each partition, across many fetches.
func TestConformanceOrderAndCompression(t *testing.T) {
	t.Parallel()
	for _, c := range clusters(t) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			topic := c.Topic(t, 3, nil)
			var want [3][]string
			for i, codec := range []kgo.CompressionCodec{
				kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
			} {
				cl := newProducer(t, c.Brokers, kgo.ProducerBatchCompression(codec), kgo.ProducerBatchMaxBytes(20_000))
				var records []*kgo.Record
				for n := range 3000 {
					p := n % 3
					// What no codec makes much smaller: a hash.
					v := fmt.Sprintf("%d-%d-%x", i, n, sha512.Sum512(fmt.Append(nil, i, n)))
					want[p] = append(want[p], v)
					records = append(records, &kgo.Record{Topic: topic, Partition: int32(p), Value: []byte(v)})
				}
				if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			src := c.open(t, func(cfg *kafka.Config) { cfg.MaxBufferedBytes = 1 })
			got := collect(t, src, topic, resolve(t, src, topic, "start"))
			for p := range want {
				if !slices.Equal(got.values(int32(p)), want[p]) {
					t.Errorf("partition %d: %d records, not the %d that were written, in order", p, len(got.records[int32(p)]), len(want[p]))
				}
			}
			if got.calls < 9 {
				t.Errorf("all of it came in %d batches: this test wants many fetches", got.calls)
			}
		})
	}
}

// Partitions run beside each other: one waits for the other in both directions, which ends only if neither is read first.
func TestConformancePartitionsInterleave(t *testing.T) {
	t.Parallel()
	for _, c := range clusters(t) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			topic := c.Topic(t, 2, nil)
			for p := range int32(2) {
				c.produce(t, topic, p, "a", "b")
			}
			src := c.open(t)
			here := [2]chan struct{}{make(chan struct{}), make(chan struct{})}
			var active [2]atomic.Int32
			var once [2]sync.Once
			err := src.Read(t.Context(), topic, resolve(t, src, topic, "start"), func(ctx context.Context, b replay.Batch) error {
				if active[b.Partition].Add(1) != 1 {
					t.Errorf("partition %d: called from two goroutines at once", b.Partition)
				}
				defer active[b.Partition].Add(-1)
				once[b.Partition].Do(func() { close(here[b.Partition]) })
				select {
				case <-here[1-b.Partition]:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// The callback's error, and the caller's cancellation, end the run as they are.
func TestConformanceEndsEarly(t *testing.T) {
	t.Parallel()
	for _, c := range clusters(t) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			topic := c.Topic(t, 2, nil)
			for p := range int32(2) {
				c.produce(t, topic, p, "a", "b")
			}
			src := c.open(t)
			bounds := resolve(t, src, topic, "start")

			mine := errors.New("mine")
			err := src.Read(t.Context(), topic, bounds, func(ctx context.Context, b replay.Batch) error {
				if b.Partition == 0 {
					return mine
				}
				<-ctx.Done() // the other partition's callback is told
				return ctx.Err()
			})
			if err != mine { //nolint:errorlint // as it is, not wrapped
				t.Errorf("the callback's error came back as %v", err)
			}

			ctx, cancel := context.WithCancel(t.Context())
			err = src.Read(ctx, topic, bounds, func(ctx context.Context, _ replay.Batch) error {
				cancel()
				<-ctx.Done()
				return errors.New("the callback could not go on")
			})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("a cancelled run ended with %v", err)
			}
			if _, err := src.Resolve(ctx, topic, nil, parse(t, "start")); !errors.Is(err, context.Canceled) {
				t.Errorf("a cancelled resolve ended with %v", err)
			}
		})
	}
}

// Records that are deleted while the run is on its way to them are an error with both numbers, never a jump over them.
// hazard R2
func TestConformanceLostWhileReading(t *testing.T) {
	t.Parallel()
	for _, c := range clusters(t) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			topic := c.Topic(t, 1, nil)
			cl := newProducer(t, c.Brokers)
			const n = 40
			for range n { // a batch each, so large that a fetch holds one
				produceWith(t, cl, topic, 0, strings.Repeat("x", 70_000))
			}
			src := c.open(t, func(cfg *kafka.Config) { cfg.MaxBufferedBytes = 1 })
			var next int64
			err := src.Read(t.Context(), topic, resolve(t, src, topic, "start"), func(_ context.Context, b replay.Batch) error {
				if next == 0 {
					c.deleteBefore(t, topic, 0, n-1)
				}
				next = b.Next
				return nil
			})
			lost, ok := errors.AsType[*kafka.LostError](err)
			if !ok {
				t.Fatalf("the read ended with %v after offset %d, want a LostError", err, next)
			}
			if lost.Topic != topic || lost.Position < next || lost.Position >= n-1 || lost.LogStart != n-1 || lost.HighWatermark != n {
				t.Errorf("%+v: want a position from %d on, a log from %d to %d", lost, next, n-1, n)
			}
		})
	}
}

// A topic that is deleted in mid-run is named; one of the same name made since the range was pinned is another topic.
func TestConformanceTopicGone(t *testing.T) {
	t.Parallel()
	for _, c := range clusters(t) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			topic := c.Topic(t, 1, nil)
			cl := newProducer(t, c.Brokers)
			for range 10 {
				produceWith(t, cl, topic, 0, strings.Repeat("x", 70_000))
			}
			src := c.open(t, func(cfg *kafka.Config) { cfg.MaxBufferedBytes = 1 })
			bounds := resolve(t, src, topic, "start")
			var once sync.Once
			err := src.Read(t.Context(), topic, bounds, func(context.Context, replay.Batch) error {
				once.Do(func() {
					if _, err := c.admin.DeleteTopics(t.Context(), topic); err != nil {
						t.Errorf("delete %s: %v", topic, err)
					}
				})
				return nil
			})
			if te, ok := errors.AsType[*replay.TopicError](err); !ok || te.Topic != topic {
				t.Errorf("the read of a deleted topic ended with %v, want a TopicError", err)
			}

			for { // a deleted topic lingers for a moment
				if _, err = c.admin.CreateTopic(t.Context(), 1, 1, nil, topic); err == nil {
					break
				}
				if t.Context().Err() != nil {
					t.Fatal(err)
				}
			}
			c.produce(t, topic, 0, "another")
			err = src.Read(t.Context(), topic, []replay.Bounds{{End: 1}}, func(context.Context, replay.Batch) error { return nil })
			if _, ok := errors.AsType[*kafka.RecreatedError](err); !ok {
				t.Errorf("the read of a topic made again ended with %v, want a RecreatedError", err)
			}
		})
	}
}
