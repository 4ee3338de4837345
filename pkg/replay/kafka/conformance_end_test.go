package kafka_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemctl/idemctl/pkg/replay"
)

// The end offset of each of these logs is never delivered as a record: the read must end there all the same, at once, and
// with nothing missing. hazard R1
func TestConformanceEndThatHoldsNoRecord(t *testing.T) {
	t.Parallel()
	for _, c := range clusters(t) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			for name, tc := range map[string]struct {
				write func(t *testing.T, topic string)
				want  []string
				start int64
				end   int64
			}{
				"transaction marker": {
					write: func(t *testing.T, topic string) {
						t.Helper()
						c.begin(t, topic, 0, "a", "b")(kgo.TryCommit)
						c.awaitStable(t, topic, 0, 3)
					},
					want: []string{"a", "b"}, end: 3,
				},
				"aborted tail": {
					write: func(t *testing.T, topic string) {
						t.Helper()
						c.produce(t, topic, 0, "a")
						c.begin(t, topic, 0, "x", "y")(kgo.TryAbort)
						c.awaitStable(t, topic, 0, 4)
					},
					want: []string{"a"}, end: 4,
				},
				"nothing but aborted": {
					write: func(t *testing.T, topic string) {
						t.Helper()
						c.begin(t, topic, 0, "x")(kgo.TryAbort)
						c.awaitStable(t, topic, 0, 2)
					},
					end: 2,
				},
				"aborted in the middle": {
					write: func(t *testing.T, topic string) {
						t.Helper()
						c.begin(t, topic, 0, "x", "y")(kgo.TryAbort)
						c.awaitStable(t, topic, 0, 3)
						c.produce(t, topic, 0, "a")
					},
					want: []string{"a"}, end: 4,
				},
				"never written": {write: func(*testing.T, string) {}},
				"all deleted": {
					write: func(t *testing.T, topic string) {
						t.Helper()
						c.produce(t, topic, 0, "a", "b")
						c.deleteBefore(t, topic, 0, 2)
					},
					start: 2, end: 2,
				},
				"head deleted within a batch": {
					write: func(t *testing.T, topic string) {
						t.Helper()
						c.produce(t, topic, 0, "a", "b", "c")
						c.deleteBefore(t, topic, 0, 1)
					},
					want: []string{"b", "c"}, start: 1, end: 3,
				},
			} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					topic := c.Topic(t, 1, nil)
					tc.write(t, topic)
					src := c.open(t)
					bounds := resolve(t, src, topic, "start")
					wantBounds(t, bounds, replay.Bounds{Start: tc.start, End: tc.end, LogStart: tc.start, HighWatermark: tc.end})
					wantValues(t, collect(t, src, topic, bounds), 0, tc.want...)
				})
			}
		})
	}
}

// An open transaction holds back its own records and everything after them. hazard R3
func TestConformanceOpenTransactionHoldsBack(t *testing.T) {
	t.Parallel()
	for _, c := range clusters(t) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			topic := c.Topic(t, 1, nil)
			early := &kgo.Record{Topic: topic, Value: []byte("a"), Timestamp: time.Now().Add(-time.Hour)}
			if err := newProducer(t, c.Brokers).ProduceSync(t.Context(), early).FirstErr(); err != nil {
				t.Fatal(err)
			}
			end := c.begin(t, topic, 0, "b", "c")
			c.produce(t, topic, 0, "d")
			src := c.open(t)

			bounds := resolve(t, src, topic, "start")
			wantBounds(t, bounds, replay.Bounds{End: 1, HighWatermark: 4, HeldBack: 3})
			wantValues(t, collect(t, src, topic, bounds), 0, "a")
			wantBounds(t, resolve(t, src, topic, "2:3"), replay.Bounds{Start: 2, End: 2, HighWatermark: 4, HeldBack: 1})
			// A time that only records of the transaction have finds them, and counts them as held back.
			wantBounds(t, resolve(t, src, topic, "@-30m"), replay.Bounds{Start: 1, End: 1, HighWatermark: 4, HeldBack: 3})

			end(kgo.TryCommit)
			c.awaitStable(t, topic, 0, 5)
			bounds = resolve(t, src, topic, "start")
			wantBounds(t, bounds, replay.Bounds{End: 5, HighWatermark: 5})
			wantValues(t, collect(t, src, topic, bounds), 0, "a", "b", "c", "d")
		})
	}
}

// The ends are pinned: what is written during the run is not part of it. hazard R1
func TestConformanceEndsArePinnedOnce(t *testing.T) {
	t.Parallel()
	for _, c := range clusters(t) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			topic := c.Topic(t, 1, nil)
			c.produce(t, topic, 0, "a", "b")
			src := c.open(t)
			bounds := resolve(t, src, topic, "start")
			c.produce(t, topic, 0, "later")
			wantValues(t, collect(t, src, topic, bounds), 0, "a", "b")
		})
	}
}
