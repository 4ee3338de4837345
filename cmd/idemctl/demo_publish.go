package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemctl/idemctl/internal/lab"
	"github.com/idemctl/idemctl/internal/render"
)

// demoEffect is the business write. The coupon table has no unique key of its own, so a second run of it would show.
const demoEffect = `-- Grants the coupon for a paid order. Runs in the ledger's transaction.
INSERT INTO coupon (order_id, user_id, amount, source)
VALUES (:orderId, :userId, :amount, 'guarded');
`

// demoHandler is what the lab's configuration needs besides.
const demoHandler = `handlers:
  coupon:
    topic: order-paid
    biz_type: COUPON
    key: orderId
    event_time: paidAt
    effect: grant.sql
`

func (d *demo) showServers(t *render.Table) error {
	for _, s := range []*lab.Server{d.lab.DB, d.lab.Redis, d.lab.Kafka} {
		addServer(t, s)
	}
	return t.WriteText(d.out, 0)
}

// writeFiles writes the configuration that every command takes, and the effect it names.
func (d *demo) writeFiles() error {
	config := d.lab.ConfigIn(demoZone) + demoHandler
	for name, text := range map[string]string{configName: config, "grant.sql": demoEffect} {
		if err := os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o600); err != nil {
			return fmt.Errorf("write the demo's files: %w", err)
		}
	}
	return nil
}

// publish makes the topic and puts the incident's records into it, at their offsets.
func (d *demo) publish(ctx context.Context) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(d.lab.Brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return fmt.Errorf("publish the incident: %w", err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	// The records bear the incident's times, whatever the year: Kafka must neither expire those of the past nor refuse
	// those of the future.
	forever, anyTime := "-1", "9223372036854775807"
	configs := map[string]*string{"retention.ms": &forever, "message.timestamp.after.max.ms": &anyTime}
	if _, err := admin.CreateTopic(ctx, demoPartitions, 1, configs, demoTopic); err != nil {
		return fmt.Errorf("create topic %s: %w", demoTopic, err)
	}
	if err := d.incident.fillUp(ctx, client, admin); err != nil {
		return fmt.Errorf("fill topic %s up to the incident: %w", demoTopic, err)
	}
	records := make([]*kgo.Record, len(d.incident.records))
	for i, r := range d.incident.records {
		value, err := r.value(d.incident.zone)
		if err != nil {
			return fmt.Errorf("write %s: %w", r.coordinates(), err)
		}
		records[i] = &kgo.Record{Topic: demoTopic, Partition: r.partition, Timestamp: r.published, Key: []byte(r.order.id), Value: value}
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("publish the incident: %w", err)
	}
	for i, r := range d.incident.records {
		if records[i].Offset != r.offset {
			return fmt.Errorf("publish the incident: %s came out at offset %d", r.coordinates(), records[i].Offset)
		}
	}
	return nil
}

// fillUp brings each partition to the offset at which the incident begins, and removes what it was filled with.
func (in *demoIncident) fillUp(ctx context.Context, client *kgo.Client, admin *kadm.Client) error {
	var filler []*kgo.Record
	starts := kadm.Offsets{}
	for p, first := range in.first {
		for range first {
			filler = append(filler, &kgo.Record{Topic: demoTopic, Partition: int32(p), Timestamp: in.begin.Add(-time.Hour)})
		}
		starts.AddOffset(demoTopic, int32(p), first, -1)
	}
	if err := client.ProduceSync(ctx, filler...).FirstErr(); err != nil {
		return err
	}
	removed, err := admin.DeleteRecords(ctx, starts)
	if err != nil {
		return err
	}
	return removed.Error()
}
