package kafka_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/idemctl/idemctl/pkg/replay"
	"github.com/idemctl/idemctl/pkg/replay/kafka"
)

func openLetters(t *testing.T, c *cluster) *kafka.DeadLetters {
	t.Helper()
	d, err := kafka.OpenDeadLetters(kafka.Config{Brokers: c.Brokers})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func headersOf(r replay.Record) []string {
	var out []string
	for _, h := range r.Headers {
		out = append(out, h.Key+"="+string(h.Value))
	}
	return out
}

// A dead letter is the record itself, with why and whence; read again, it has the record's own time, and parked again it keeps
// where it came from first. hazard G16
func TestDeadLetter(t *testing.T) {
	t.Parallel()
	onAll(t, func(t *testing.T, c *cluster) {
		topic := c.Topic(t, 2, nil)
		d := openLetters(t, c)
		if err := d.Check(t.Context(), topic); err != nil {
			t.Fatal(err)
		}
		at := time.Date(2026, 11, 11, 0, 0, 12, 345e6, time.UTC)
		letter := replay.DeadLetter{
			Topic: topic, Handler: "coupon", OrderID: "A-1", Outcome: "conflict", Reason: "other content", Attempts: 2,
			Record: replay.Record{
				Topic: "order-paid", Partition: 3, Offset: 10234, Timestamp: at, Key: []byte("k"), Value: []byte(`{"id":"A-1"}`),
				Headers: []replay.Header{{Key: "trace", Value: []byte("1")}, {Key: "trace", Value: []byte("2")}, {Key: "null"}},
			},
		}
		if err := d.Park(t.Context(), letter); err != nil {
			t.Fatal(err)
		}
		src := c.open(t)
		read := func() []replay.Record {
			got := collect(t, src, topic, resolve(t, src, topic, "start"))
			return append(got.records[0], got.records[1]...)
		}
		first := read()[0]
		if string(first.Key) != "k" || string(first.Value) != `{"id":"A-1"}` || !first.Timestamp.Equal(at) {
			t.Errorf("parked as %+v", first)
		}
		want := []string{
			"trace=1", "trace=2", "null=", "idemctl-attempts=2", "idemctl-handler=coupon", "idemctl-order-id=A-1", "idemctl-outcome=conflict",
			"idemctl-reason=other content", "idemctl-source=order-paid[3]@10234", "idemctl-time=2026-11-11T00:00:12.345Z",
		}
		if got := headersOf(first); !slices.Equal(got, want) {
			t.Errorf("headers %q, want %q", got, want)
		}
		if first.Headers[2].Value != nil {
			t.Error("a null header has become an empty one")
		}

		letter.Record, letter.Outcome, letter.Reason, letter.OrderID, letter.Attempts = first, "invalid", "no key", "", 1
		if err := d.Park(t.Context(), letter); err != nil {
			t.Fatal(err)
		}
		all := read()
		again := all[slices.IndexFunc(all, func(r replay.Record) bool { return slices.Contains(headersOf(r), "idemctl-outcome=invalid") })]
		want = []string{
			"trace=1", "trace=2", "null=", "idemctl-attempts=1", "idemctl-handler=coupon", "idemctl-outcome=invalid",
			"idemctl-reason=no key", "idemctl-source=order-paid[3]@10234", "idemctl-time=2026-11-11T00:00:12.345Z",
		}
		if got := headersOf(again); !slices.Equal(got, want) || !again.Timestamp.Equal(at) {
			t.Errorf("headers %q at %v, want %q", got, again.Timestamp, want)
		}
	})
}

func TestDeadLetterTopicMissing(t *testing.T) {
	t.Parallel()
	onAll(t, func(t *testing.T, c *cluster) {
		var unknown *replay.TopicError
		if err := openLetters(t, c).Check(t.Context(), "no-such-topic"); !errors.As(err, &unknown) {
			t.Errorf("the check says %v", err)
		}
	})
}
