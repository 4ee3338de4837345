package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// handlerConfig is what the lab's configuration needs besides.
const handlerConfig = `handlers:
  coupon:
    topic: ` + topic + `
    biz_type: ` + bizType + `
    key: orderId
    event_time: paidAt
`

// writeConfig writes the file that the binary takes.
func (b *bench) writeConfig() error {
	if err := os.WriteFile(b.config(), []byte(b.lab.ConfigIn("UTC")+handlerConfig), 0o600); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	return nil
}

func (b *bench) config() string { return filepath.Join(b.dir, "idemctl.yaml") }

// value is a record of about 100 bytes.
func (s *shop) value(n int) []byte {
	return fmt.Appendf(nil, `{"orderId":"%s","userId":%d,"amount":%d,"paidAt":"%s"}`,
		s.messages[n].Key.OrderID, userID, amount, s.now.Format("2006-01-02T15:04:05.000Z"))
}

// publish makes the topic and puts every order into it once: order n at offset n/partitions of partition n%partitions.
func (b *bench) publish(ctx context.Context) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(b.lab.Brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		return fmt.Errorf("publish the orders: %w", err)
	}
	defer client.Close()
	forever := "-1"
	if _, err := kadm.NewClient(client).CreateTopic(ctx, partitions, 1, map[string]*string{"retention.ms": &forever}, topic); err != nil {
		return fmt.Errorf("create topic %s: %w", topic, err)
	}
	first := kgo.AbortingFirstErrPromise(client)
	for n := range b.shop.messages {
		m := &b.shop.messages[n]
		client.Produce(ctx, &kgo.Record{
			Topic: topic, Partition: m.Source.Partition, Timestamp: b.shop.now, Key: []byte(m.Key.OrderID), Value: b.shop.value(n),
		}, first.Promise())
	}
	if err := client.Flush(ctx); err != nil {
		return fmt.Errorf("publish the orders: %w", err)
	}
	if err := first.Err(); err != nil {
		return fmt.Errorf("publish the orders: %w", err)
	}
	return nil
}
