package kafka_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/idemctl/idemctl/pkg/replay"
	"github.com/idemctl/idemctl/pkg/replay/kafka"
)

// fetchKey and listKey are the requests that these tests answer in the broker's place.
var fetchKey, listKey = int16(kmsg.Fetch), int16(kmsg.ListOffsets)

// emptyAnswer is a broker's answer to a fetch: no error, and no records.
func emptyAnswer(req *kmsg.FetchRequest, high, stable int64) *kmsg.FetchResponse {
	resp, ok := req.ResponseKind().(*kmsg.FetchResponse)
	if !ok {
		return nil
	}
	topic := kmsg.NewFetchResponseTopic()
	topic.Topic, topic.TopicID = req.Topics[0].Topic, req.Topics[0].TopicID
	p := kmsg.NewFetchResponseTopicPartition()
	p.Partition = req.Topics[0].Partitions[0].Partition
	p.HighWatermark, p.LastStableOffset = high, stable
	p.RecordBatches = []byte{}
	topic.Partitions = append(topic.Partitions, p)
	resp.Topics = append(resp.Topics, topic)
	return resp
}

// answerFetch makes the broker answer fetches by fn; where it gives nil, the broker answers itself.
func answerFetch(fake *kfake.Cluster, fn func(n int, req *kmsg.FetchRequest) *kmsg.FetchResponse) *atomic.Int32 {
	var n atomic.Int32
	fake.ControlKey(fetchKey, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		req, ok := kreq.(*kmsg.FetchRequest)
		if !ok {
			return nil, nil, false
		}
		if resp := fn(int(n.Add(1)), req); resp != nil {
			return resp, nil, true
		}
		return nil, nil, false
	})
	return &n
}

// An answer without records is believed only from a leader that has the whole range, and has it at hand. hazard R1
func TestEmptyAnswer(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answer func(n int, req *kmsg.FetchRequest) *kmsg.FetchResponse
		local  int64 // the leader's local log start; 0: its own
		want   []string
	}{
		"nothing is left up to the end": {
			answer: func(_ int, req *kmsg.FetchRequest) *kmsg.FetchResponse { return emptyAnswer(req, 2, 2) },
		},
		"a new leader has not caught up": {
			answer: func(n int, req *kmsg.FetchRequest) *kmsg.FetchResponse {
				if n <= 2 {
					return emptyAnswer(req, 1, 1)
				}
				return nil
			},
			want: []string{"a", "b"},
		},
		"throttled: no partition in the answer": {
			answer: func(n int, req *kmsg.FetchRequest) *kmsg.FetchResponse {
				if n <= 2 {
					resp := emptyAnswer(req, 2, 2)
					resp.Topics = nil
					return resp
				}
				return nil
			},
			want: []string{"a", "b"},
		},
		"tiered storage gave no answer in time": {
			answer: func(n int, req *kmsg.FetchRequest) *kmsg.FetchResponse {
				if n <= 2 {
					return emptyAnswer(req, 2, 2)
				}
				return nil
			},
			local: 1,
			want:  []string{"a", "b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake, c := newFake(t)
			topic := c.Topic(t, 1, nil)
			c.produce(t, topic, 0, "a", "b")
			src := c.open(t)
			bounds := resolve(t, src, topic, "start")
			answerFetch(fake, tc.answer)
			if tc.local > 0 {
				answerLocalStart(fake, tc.local)
			}
			wantValues(t, collect(t, src, topic, bounds), 0, tc.want...)
		})
	}
}

// answerLocalStart makes the broker say that its own disk starts at an offset.
func answerLocalStart(fake *kfake.Cluster, offset int64) {
	fake.ControlKey(listKey, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		req, ok := kreq.(*kmsg.ListOffsetsRequest)
		if !ok || req.Topics[0].Partitions[0].Timestamp != -4 {
			return nil, nil, false
		}
		resp, ok := req.ResponseKind().(*kmsg.ListOffsetsResponse)
		if !ok {
			return nil, nil, false
		}
		topic := kmsg.NewListOffsetsResponseTopic()
		topic.Topic = req.Topics[0].Topic
		p := kmsg.NewListOffsetsResponseTopicPartition()
		p.Offset = offset
		topic.Partitions = append(topic.Partitions, p)
		resp.Topics = append(resp.Topics, topic)
		return resp, nil, true
	})
}

// A leader that moves in mid-run is followed; nothing is lost or repeated.
func TestLeaderMoves(t *testing.T) {
	t.Parallel()
	fake, c := newFake(t, kfake.NumBrokers(3))
	topic := c.Topic(t, 1, nil)
	cl := newProducer(t, c.Brokers)
	const n = 20
	for range n {
		produceWith(t, cl, topic, 0, strings.Repeat("x", 70_000))
	}
	src := c.open(t, func(cfg *kafka.Config) { cfg.MaxBufferedBytes = 1 })
	bounds := resolve(t, src, topic, "start")
	var want int64
	err := src.Read(t.Context(), topic, bounds, func(_ context.Context, b replay.Batch) error {
		for _, r := range b.Records {
			if r.Offset != want {
				t.Errorf("read offset %d, want %d", r.Offset, want)
			}
			want++
		}
		return fake.MoveTopicPartition(topic, 0, (fake.LeaderFor(topic, 0)+1)%3)
	})
	if err != nil || want != n {
		t.Errorf("read %d of %d records, ended with %v", want, n, err)
	}
}

// Errors that the broker calls passing are ridden out; others end the run at once, with the position.
func TestBrokerErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fault *kerr.Error
		count int
		want  error
	}{
		"passing":   {fault: kerr.KafkaStorageError, count: 3},
		"for good":  {fault: kerr.TopicAuthorizationFailed, count: -1, want: kerr.TopicAuthorizationFailed},
		"ever anew": {fault: kerr.KafkaStorageError, count: -1, want: kerr.KafkaStorageError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake, c := newFake(t)
			topic := c.Topic(t, 1, nil)
			c.produce(t, topic, 0, "a")
			src := c.open(t, func(cfg *kafka.Config) {
				if tc.count < 0 {
					cfg.RetryTimeout = 300 * time.Millisecond
				}
			})
			bounds := resolve(t, src, topic, "start")
			fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: topic, Err: tc.fault, Count: tc.count})
			err := src.Read(t.Context(), topic, bounds, func(context.Context, replay.Batch) error { return nil })
			if !errors.Is(err, tc.want) {
				t.Fatalf("the read ended with %v, want %v", err, tc.want)
			}
			if err != nil && !strings.Contains(err.Error(), topic+"[0] at 0") {
				t.Errorf("%q does not say where", err)
			}
		})
	}
}

// A batch that does not match its checksum is never passed over.
func TestCorruptBatch(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func([]byte) []byte{
		"none":      nil, // the batch itself is sound: what the others are refused for is their damage
		"checksum":  func(b []byte) []byte { b[len(b)-1] ^= 0xff; return b },
		"truncated": func(b []byte) []byte { return b[:len(b)-3] },
		"magic":     func(b []byte) []byte { b[16] = 9; return b },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake, c := newFake(t)
			topic := c.Topic(t, 1, nil)
			c.produce(t, topic, 0, "a", "b")
			src := c.open(t)
			bounds := resolve(t, src, topic, "start")
			answerFetch(fake, func(_ int, req *kmsg.FetchRequest) *kmsg.FetchResponse {
				resp := emptyAnswer(req, 2, 2)
				resp.Topics[0].Partitions[0].RecordBatches = oneBatch()
				if damage != nil {
					resp.Topics[0].Partitions[0].RecordBatches = damage(oneBatch())
				}
				return resp
			})
			if damage == nil {
				wantValues(t, collect(t, src, topic, bounds), 0, "a")
				return
			}
			err := src.Read(t.Context(), topic, bounds, func(_ context.Context, b replay.Batch) error {
				t.Errorf("delivered %d records up to %d", len(b.Records), b.Next)
				return nil
			})
			if !errors.Is(err, kafka.ErrCorrupt) || !strings.Contains(err.Error(), topic+"[0] at 0") {
				t.Errorf("the read ended with %v, want ErrCorrupt and the position", err)
			}
		})
	}
}
