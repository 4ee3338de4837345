package drill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemctl/idemctl/pkg/replay"
)

// fetchWait bounds how long the broker keeps a fetch that finds nothing.
const fetchWait = 200 * time.Millisecond

// broker is one run's topic and group.
type broker struct {
	addrs  []string
	client *kgo.Client
	admin  *kadm.Client
	topic  string
	group  string
}

func newBroker(addrs []string, topic string) (*broker, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return nil, fmt.Errorf("open Kafka: %w", err)
	}
	return &broker{addrs: addrs, client: client, admin: kadm.NewClient(client), topic: topic, group: topic}, nil
}

func (b *broker) close() { b.client.Close() }

// deadLetters is the topic that the run parks in.
func (b *broker) deadLetters() string { return b.topic + ".dlq" }

// create makes the run's topics.
func (b *broker) create(ctx context.Context, partitions int32) error {
	for topic, n := range map[string]int32{b.topic: partitions, b.deadLetters(): 1} {
		if _, err := b.admin.CreateTopic(ctx, n, 1, nil, topic); err != nil {
			return fmt.Errorf("create topic %s: %w", topic, err)
		}
	}
	return nil
}

// joinTimeout bounds the wait until a new topic can be committed for.
const joinTimeout = 15 * time.Second

// join makes the group: every partition begins at its start. A broker that has just made a topic may not know it yet.
func (b *broker) join(ctx context.Context, partitions int32) error {
	os := kadm.Offsets{}
	for p := range partitions {
		os.AddOffset(b.topic, p, 0, -1)
	}
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		responses, err := b.admin.CommitOffsets(ctx, b.group, os)
		if err == nil {
			err = responses.Error()
		}
		switch {
		case err == nil:
			return nil
		case !kerr.IsRetriable(err):
			return fmt.Errorf("make group %s: %w", b.group, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("make group %s: %w", b.group, err)
		case <-tick.C:
		}
	}
}

// publish writes the records, and returns when all are acknowledged.
func (b *broker) publish(ctx context.Context, records []Record) error {
	out := make([]*kgo.Record, len(records))
	for i := range records {
		value, err := json.Marshal(&records[i])
		if err != nil {
			return fmt.Errorf("write record %d: %w", i, err)
		}
		out[i] = &kgo.Record{Topic: b.topic, Partition: records[i].Partition, Key: []byte(records[i].Order), Value: value}
	}
	if err := b.client.ProduceSync(ctx, out...).FirstErr(); err != nil {
		return fmt.Errorf("publish to %s: %w", b.topic, err)
	}
	return nil
}

// commit sets the group's offset of a partition.
func (b *broker) commit(ctx context.Context, partition int32, offset int64) error {
	os := kadm.Offsets{}
	os.AddOffset(b.topic, partition, offset, -1)
	responses, err := b.admin.CommitOffsets(ctx, b.group, os)
	if err == nil {
		err = responses.Error()
	}
	if err != nil {
		return fmt.Errorf("commit %s[%d]@%d: %w", b.topic, partition, offset, err)
	}
	return nil
}

// committed are the group's offsets.
func (b *broker) committed(ctx context.Context) (map[int32]int64, error) {
	responses, err := b.admin.FetchOffsets(ctx, b.group)
	if err == nil {
		err = responses.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("read the offsets of group %s: %w", b.group, err)
	}
	offsets := map[int32]int64{}
	responses.Each(func(r kadm.OffsetResponse) {
		if r.Topic == b.topic {
			offsets[r.Partition] = r.At
		}
	})
	return offsets, nil
}

// parked counts the dead letters.
func (b *broker) parked(ctx context.Context) (int, error) {
	ends, err := b.admin.ListEndOffsets(ctx, b.deadLetters())
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return 0, fmt.Errorf("count dead letters: %w", err)
	}
	n := 0
	ends.Each(func(o kadm.ListedOffset) { n += int(o.Offset) })
	return n, nil
}

// feed fetches partitions from their offsets on and hands what comes to their workers, until all of these are told to stop.
func (b *broker) feed(ctx context.Context, workers map[int32]*worker) error {
	from := map[int32]kgo.Offset{}
	for p, w := range workers {
		from[p] = kgo.NewOffset().At(w.next)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(b.addrs...), kgo.FetchMaxWait(fetchWait), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{b.topic: from}))
	if err != nil {
		return fmt.Errorf("open Kafka: %w", err)
	}
	defer client.CloseAllowingRebalance()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		for _, w := range workers {
			select {
			case <-w.stopping:
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil // nobody waits for records any more
		}
		if err := fetches.Err(); err != nil && !errors.Is(err, context.Canceled) {
			return fmt.Errorf("fetch from %s: %w", b.topic, err)
		}
		fetches.EachPartition(func(p kgo.FetchTopicPartition) { workers[p.Partition].deliver(p.Records) })
	}
}

// record is a Kafka record as a gate takes it.
func record(r *kgo.Record) replay.Record {
	return replay.Record{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp.UTC(), Key: r.Key, Value: r.Value}
}
