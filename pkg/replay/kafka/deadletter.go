package kafka

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemctl/idemctl/pkg/replay"
)

// The headers that a dead letter carries besides those of its record.
const (
	HeaderReason   = "idemctl-reason"   // for people
	HeaderOutcome  = "idemctl-outcome"  // conflict, outside_horizon, phantom, invalid or failed
	HeaderSource   = "idemctl-source"   // topic[partition]@offset
	HeaderHandler  = "idemctl-handler"  // its name in the configuration
	HeaderAttempts = "idemctl-attempts" // how often it was tried
	HeaderKey      = "idemctl-order-id" // the order id; missing where the record has none
	HeaderTime     = "idemctl-time"     // the record's own timestamp, RFC 3339; a reader of this package takes it for the dead letter's
)

// DeadLetters writes records that are parked.
type DeadLetters struct{ client *Client }

// OpenDeadLetters checks cfg. It connects to nothing before the first call.
func OpenDeadLetters(cfg Config) (*DeadLetters, error) {
	c, err := Open(cfg)
	if err != nil {
		return nil, err
	}
	return &DeadLetters{client: c}, nil
}

// Check returns a *replay.TopicError for a topic that does not exist: the first dead letter would have nowhere to go.
func (d *DeadLetters) Check(ctx context.Context, topic string) error {
	return d.client.firstContact(ctx, "look for "+topic, func(ctx context.Context) error {
		_, err := d.client.describe(ctx, topic)
		return err
	})
}

// Park writes one dead letter and returns when all in-sync replicas have it. Key, value and headers are the record's own, so
// that it can be replayed from where it lies. A dead letter that is parked again keeps the source and the time of its first
// parking.
func (d *DeadLetters) Park(ctx context.Context, l replay.DeadLetter) error {
	source := replay.Position{Topic: l.Record.Topic, Partition: l.Record.Partition, Offset: l.Record.Offset}
	own := map[string]string{
		HeaderReason: l.Reason, HeaderOutcome: l.Outcome, HeaderHandler: l.Handler, HeaderAttempts: strconv.Itoa(l.Attempts), HeaderKey: l.OrderID,
		HeaderSource: source.String(), HeaderTime: l.Record.Timestamp.UTC().Format(time.RFC3339Nano),
	}
	r := &kgo.Record{Topic: l.Topic, Key: l.Record.Key, Value: l.Record.Value}
	for _, h := range l.Record.Headers {
		if _, ours := own[h.Key]; ours {
			if h.Key == HeaderSource || h.Key == HeaderTime {
				own[h.Key] = string(h.Value)
			}
			continue
		}
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	for _, key := range slices.Sorted(maps.Keys(own)) {
		if own[key] != "" {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: key, Value: []byte(own[key])})
		}
	}
	if err := d.client.kgo.ProduceSync(ctx, r).FirstErr(); err != nil {
		return fmt.Errorf("write a dead letter for %s to %s: %w", source, l.Topic, err)
	}
	return nil
}

// originalTime is the record's timestamp; of a dead letter, that of the record which was parked. Its own would make what is
// older than the ledger's memory look new, where a handler has no business time.
func originalTime(r *kgo.Record) time.Time {
	for _, h := range r.Headers {
		if h.Key != HeaderTime {
			continue
		}
		if t, err := time.Parse(time.RFC3339Nano, string(h.Value)); err == nil {
			return t.UTC()
		}
	}
	return r.Timestamp.UTC()
}

// Close ends all connections.
func (d *DeadLetters) Close() { d.client.Close() }
