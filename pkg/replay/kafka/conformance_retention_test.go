package kafka_test

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemctl/idemctl/pkg/replay"
	"github.com/idemctl/idemctl/pkg/replay/kafka"
)

// hazard P16: how far back a topic can be replayed is what its settings promise, or its oldest record where that is older.
func TestConformanceRetention(t *testing.T) {
	t.Parallel()
	for _, c := range clusters(t) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			src := c.open(t)
			for name, tc := range map[string]struct {
				configs map[string]string
				want    kafka.TopicRetention
			}{
				"by time":            {map[string]string{"retention.ms": "259200000"}, kafka.TopicRetention{Retention: 72 * time.Hour}},
				"the default":        {nil, kafka.TopicRetention{Retention: 7 * 24 * time.Hour}},
				"for ever":           {map[string]string{"retention.ms": "-1"}, kafka.TopicRetention{Unlimited: true}},
				"compacted":          {map[string]string{"cleanup.policy": "compact"}, kafka.TopicRetention{Unlimited: true}},
				"compacted, by time": {map[string]string{"cleanup.policy": "compact,delete", "retention.ms": "3600000"}, kafka.TopicRetention{Retention: time.Hour}},
			} {
				got, err := src.Retention(t.Context(), c.Topic(t, 2, tc.configs))
				if err != nil || got != tc.want {
					t.Errorf("%s: %+v, %v; want %+v", name, got, err, tc.want)
				}
			}
			topic := c.Topic(t, 3, map[string]string{"retention.ms": "259200000", "message.timestamp.before.max.ms": "9223372036854775807"})
			cl := newProducer(t, c.Brokers)
			old := time.Now().Add(-100 * 24 * time.Hour).UTC().Truncate(time.Millisecond)
			for p, at := range map[int32]time.Time{0: old.Add(time.Hour), 2: old} {
				for _, then := range []time.Time{at, time.Now()} {
					if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: p, Timestamp: then, Value: []byte("v")}).FirstErr(); err != nil {
						t.Fatal(err)
					}
				}
			}
			got, err := src.Retention(t.Context(), topic)
			if want := (kafka.TopicRetention{Retention: 72 * time.Hour, OldestRecord: old}); err != nil || got != want {
				t.Errorf("%+v, %v; want %+v", got, err, want)
			}
			if reach := got.Reach(old.Add(100 * time.Hour)); reach != 100*time.Hour {
				t.Errorf("an oldest record of 100 h reaches %v", reach)
			}
			if reach := got.Reach(old.Add(time.Hour)); reach != 72*time.Hour {
				t.Errorf("a retention of 72 h reaches %v", reach)
			}
			_, err = src.Retention(t.Context(), "no-such-topic")
			if _, ok := errors.AsType[*replay.TopicError](err); !ok {
				t.Errorf("an unknown topic gives %v", err)
			}
		})
	}
}

func TestRetentionUnreachable(t *testing.T) {
	t.Parallel()
	src, err := kafka.Open(kafka.Config{Brokers: []string{closedPort(t)}, ConnectTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(src.Close)
	if _, err := src.Retention(t.Context(), "orders"); !errors.Is(err, kafka.ErrUnreachable) {
		t.Errorf("%v, want ErrUnreachable", err)
	}
}
