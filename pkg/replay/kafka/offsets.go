package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The timestamps that ask ListOffsets for a place instead of a time.
const (
	atEnd        int64 = -1
	atStart      int64 = -2
	atLocalStart int64 = -4 // where the leader's own disk starts; what lies before is in tiered storage
)

const (
	readUncommitted int8 = 0
	readCommitted   int8 = 1
)

// listOffsets asks the leaders of the partitions for the offset at a timestamp (milliseconds, or one of the constants
// above). A partition without a record at or after the time has -1.
func (c *Client) listOffsets(ctx context.Context, topic string, partitions []int32, at int64, isolation int8) (map[int32]int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	req.IsolationLevel = isolation
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = topic
	for _, p := range partitions {
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition = p
		rp.CurrentLeaderEpoch = -1
		rp.Timestamp = at
		rt.Partitions = append(rt.Partitions, rp)
	}
	req.Topics = append(req.Topics, rt)

	resp, err := req.RequestWith(ctx, c.kgo)
	if err != nil {
		return nil, fmt.Errorf("list offsets of %s: %w", topic, err)
	}
	out := make(map[int32]int64, len(partitions))
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return nil, fmt.Errorf("list offsets of %s[%d]: %w", topic, p.Partition, err)
			}
			out[p.Partition] = p.Offset
		}
	}
	for _, p := range partitions {
		if _, ok := out[p]; !ok {
			return nil, fmt.Errorf("list offsets of %s[%d]: the brokers gave no answer for it", topic, p)
		}
	}
	return out, nil
}
