package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// begin decides where partitions of a new assignment begin: at what the group has committed, else at Starts, else at the
// log's start or end. A partition that it leaves out is not fetched.
func (c *Consumer) begin(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	var fromEnd []int32
	ours := offsets[c.cfg.Topic]
	for p, o := range ours {
		at := o.EpochOffset().Offset
		fresh := at < 0
		start, pinned := c.cfg.Starts[p]
		if fresh && pinned {
			at = start
			ours[p] = kgo.NewOffset().At(start)
		}
		until, wanted := c.cfg.Until[p]
		switch {
		case c.cfg.Until != nil && (!wanted || at >= until):
			delete(ours, p)
		case fresh && !pinned && c.cfg.FromEnd:
			fromEnd = append(fromEnd, p)
		case at >= 0:
			c.worker(p).goOnFrom(at)
		}
	}
	if len(fromEnd) == 0 {
		return offsets, nil
	}
	// The end is committed before the first record is waited for: after a restart the group goes on from here, and not from an
	// end that has moved past records nobody has seen.
	ends, err := c.client.listOffsets(ctx, c.cfg.Topic, fromEnd, atEnd, readCommitted)
	if err != nil {
		return nil, fmt.Errorf("begin at the end: %w", err)
	}
	for p, end := range ends {
		ours[p] = kgo.NewOffset().At(end)
		c.worker(p).goOnFrom(end)
	}
	return offsets, c.commit(ctx, ends)
}

// commit commits offsets as a member, and waits for the answer. They carry the epoch of the last record: the client compares
// epochs first, and without one the next commit of what is marked would take them back.
func (c *Consumer) commit(ctx context.Context, at map[int32]int64) error {
	offsets := make(map[int32]kgo.EpochOffset, len(at))
	for p, o := range at {
		offsets[p] = kgo.EpochOffset{Epoch: c.epoch(p), Offset: o}
	}
	var err error
	c.kgo.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{c.cfg.Topic: offsets},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, cerr error) {
			err = errors.Join(cerr, commitError(resp))
		})
	if err != nil {
		return fmt.Errorf("commit the offsets of group %s: %w", c.cfg.Group, err)
	}
	return nil
}

// commitError is the first partition's error in an answer.
func commitError(resp *kmsg.OffsetCommitResponse) error {
	if resp == nil {
		return nil
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return fmt.Errorf("partition %d: %w", p.Partition, err)
			}
		}
	}
	return nil
}

// epoch is the leader's, as of the last record that was delivered; -1: none was.
func (c *Consumer) epoch(partition int32) int32 {
	w := c.worker(partition)
	if w == nil {
		return -1
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.epoch
}
