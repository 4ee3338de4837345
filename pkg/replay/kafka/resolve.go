package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/idemctl/idemctl/pkg/replay"
)

// Resolve implements replay.Source: it looks at the log's ends once, and pins r to them. All of it ends within the connect
// timeout.
//
// The error is a *replay.TopicError for a topic or partition that the cluster does not have, a *replay.RangeError for
// offsets that the log lacks (unless the Config or the Range allows clipping), an *UnreachableError when no broker answered.
func (c *Client) Resolve(ctx context.Context, topic string, partitions []int32, r replay.Range) ([]replay.Bounds, error) {
	for _, b := range []replay.Bound{r.From, r.To} {
		if b.Kind == replay.BoundTime && b.Time.UnixMilli() < 0 {
			return nil, fmt.Errorf("pin the range of %s: %s: a time before 1970", topic, r) // a negative one asks for something else
		}
	}
	var logs []replay.PartitionLog
	err := c.firstContact(ctx, "pin the range of "+topic, func(ctx context.Context) error {
		meta, err := c.describe(ctx, topic)
		if err != nil {
			return err
		}
		wanted, err := meta.choose(topic, partitions)
		if err != nil {
			return err
		}
		c.pin(topic, meta.id)
		logs, err = c.snapshot(ctx, topic, wanted, r)
		return err
	})
	if err != nil {
		return nil, err
	}
	r.AllowClipped = r.AllowClipped || c.cfg.AllowClipped
	return r.Resolve(topic, logs)
}

// snapshot asks for the ends of the partitions, and for the offsets of r's times. The high watermark is asked for before the
// last stable offset: a transaction that ends in between then holds nothing back, and none that begins later can.
func (c *Client) snapshot(ctx context.Context, topic string, partitions []int32, r replay.Range) ([]replay.PartitionLog, error) {
	var look struct{ start, high, stable, from, to map[int32]int64 }
	for _, q := range []struct {
		into      *map[int32]int64
		at        int64
		isolation int8
		skip      bool
	}{
		{into: &look.high, at: atEnd, isolation: readUncommitted},
		{into: &look.stable, at: atEnd, isolation: readCommitted},
		{into: &look.start, at: atStart, isolation: readUncommitted},
		// Times look at all records: those of an open transaction are counted as held back, not passed over.
		{into: &look.from, at: r.From.Time.UnixMilli(), isolation: readUncommitted, skip: r.From.Kind != replay.BoundTime},
		{into: &look.to, at: r.To.Time.UnixMilli(), isolation: readUncommitted, skip: r.To.Kind != replay.BoundTime},
	} {
		if q.skip {
			continue
		}
		offsets, err := c.listOffsets(ctx, topic, partitions, q.at, q.isolation)
		if err != nil {
			return nil, err
		}
		*q.into = offsets
	}
	logs := make([]replay.PartitionLog, 0, len(partitions))
	for _, p := range partitions {
		high := look.high[p]
		logs = append(logs, replay.PartitionLog{
			Partition:     p,
			LogStart:      min(look.start[p], high), // records may be deleted between the two questions
			HighWatermark: high,
			LastStable:    min(look.stable[p], high),
			FromTime:      look.from[p],
			ToTime:        look.to[p],
		})
	}
	return logs, nil
}

// choose gives the partitions asked for, or all of them, each once and in order.
func (m topicMeta) choose(topic string, asked []int32) ([]int32, error) {
	if len(asked) == 0 {
		return m.partitions(), nil
	}
	if err := m.has(topic, asked); err != nil {
		return nil, err
	}
	return slices.Compact(slices.Sorted(slices.Values(asked))), nil
}

// has refuses partitions that the topic does not have, with a *replay.TopicError.
func (m topicMeta) has(topic string, asked []int32) error {
	var missing []int32
	for _, p := range asked {
		if _, ok := m.leaders[p]; !ok {
			missing = append(missing, p)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return &replay.TopicError{Topic: topic, Missing: slices.Compact(missing), Partitions: m.partitions(), Where: where}
}

func (m topicMeta) partitions() []int32 {
	out := make([]int32, 0, len(m.leaders))
	for p := range m.leaders {
		out = append(out, p)
	}
	slices.Sort(out)
	return out
}

// where names this source in a *replay.TopicError.
const where = "the cluster"

func unknownTopic(topic string) error { return &replay.TopicError{Topic: topic, Where: where} }

// isUnknownTopic includes names that no topic can have: for the one who typed it, that is the same.
func isUnknownTopic(err error) bool {
	return errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID) || errors.Is(err, kerr.InvalidTopicException)
}

// pin remembers which topic the range belongs to: a name can be given to another topic later.
func (c *Client) pin(topic string, id topicID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pinned[topic] = id
}

func (c *Client) pinnedID(topic string) (topicID, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id, ok := c.pinned[topic]
	return id, ok
}
