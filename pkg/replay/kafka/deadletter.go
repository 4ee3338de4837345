package kafka

import (
	"context"
	"fmt"
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
	HeaderTime     = "idemctl-time"     // the record's own timestamp, RFC 3339: the dead letter has one of its own
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
// that it can be replayed from where it lies.
func (d *DeadLetters) Park(ctx context.Context, l replay.DeadLetter) error {
	r := &kgo.Record{Topic: l.Topic, Key: l.Record.Key, Value: l.Record.Value}
	for _, h := range l.Record.Headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	source := replay.Position{Topic: l.Record.Topic, Partition: l.Record.Partition, Offset: l.Record.Offset}
	for _, h := range [][2]string{
		{HeaderReason, l.Reason}, {HeaderOutcome, l.Outcome}, {HeaderSource, source.String()}, {HeaderHandler, l.Handler},
		{HeaderAttempts, strconv.Itoa(l.Attempts)}, {HeaderKey, l.OrderID}, {HeaderTime, l.Record.Timestamp.UTC().Format(time.RFC3339Nano)},
	} {
		if h[1] != "" {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: h[0], Value: []byte(h[1])})
		}
	}
	if err := d.client.kgo.ProduceSync(ctx, r).FirstErr(); err != nil {
		return fmt.Errorf("write a dead letter for %s to %s: %w", source, l.Topic, err)
	}
	return nil
}

// Close ends all connections.
func (d *DeadLetters) Close() { d.client.Close() }
