package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemctl/idemctl/pkg/replay"
)

const (
	// lookAtEnds is how often a bounded consumer looks whether all of the topic has reached its end.
	lookAtEnds = 300 * time.Millisecond
	// silence is how long a partition must have delivered nothing before its tail is looked at: there may be no record left
	// in it, only transaction markers or what compaction has removed (hazard R1).
	silence = time.Second
)

// watchEnds stops the poll once every partition has reached Until, at this member or at another one.
func (c *Consumer) watchEnds(ctx context.Context, stop context.CancelCauseFunc) error {
	if c.cfg.Until == nil {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(lookAtEnds)
	defer tick.Stop()
	for {
		ended, err := c.allEnded(ctx)
		if err != nil && ctx.Err() == nil {
			c.cfg.Logger.Warn("look whether the range is done", "group", c.cfg.Group, "error", err)
		}
		if ended {
			stop(nil)
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// allEnded reports whether every partition is done.
func (c *Consumer) allEnded(ctx context.Context) (bool, error) {
	committed, err := c.committed(ctx)
	if err != nil {
		return false, err
	}
	states := map[int32]PartitionState{}
	for _, s := range c.States() {
		states[s.Partition] = s
	}
	all := true
	for p, until := range c.cfg.Until {
		at := committed[p]
		own, mine := states[p]
		if mine {
			at = max(at, own.Next)
		}
		switch {
		case c.ended[p], at >= until:
			c.ended[p] = true
			continue
		case mine && own.Waiting == 0 && c.cfg.Now().Sub(own.Progress) >= silence:
			empty, err := c.nothingLeft(ctx, p, at, until)
			if err != nil {
				return false, err
			}
			if empty {
				// The others learn it from the group.
				c.kgo.MarkCommitOffsets(map[string]map[int32]kgo.EpochOffset{c.cfg.Topic: {p: {Epoch: -1, Offset: until}}})
				c.ended[p] = true
				continue
			}
		}
		all = false
	}
	return all, nil
}

// committed are the group's offsets of the topic; a partition without one is not in it.
func (c *Consumer) committed(ctx context.Context) (map[int32]int64, error) {
	offsets, err := kadm.NewClient(c.client.kgo).FetchOffsetsForTopics(ctx, c.cfg.Group, c.cfg.Topic)
	switch {
	case errors.Is(err, kerr.GroupIDNotFound): // nobody has joined or committed yet
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("offsets of group %s: %w", c.cfg.Group, err)
	}
	at := map[int32]int64{}
	offsets.Each(func(o kadm.OffsetResponse) {
		if o.Err == nil && o.Topic == c.cfg.Topic && o.At >= 0 {
			at[o.Partition] = o.At
		}
	})
	return at, nil
}

// errSomething leaves a read at its first record.
var errSomething = errors.New("there is a record")

// nothingLeft reports that a partition has no record from an offset on up to its end.
func (c *Consumer) nothingLeft(ctx context.Context, partition int32, from, until int64) (bool, error) {
	logs, err := c.client.Resolve(ctx, c.cfg.Topic, []int32{partition}, replay.Range{AllowClipped: true})
	if err != nil {
		return false, err
	}
	if len(logs) == 1 {
		from = max(from, logs[0].Start)
	}
	if from >= until {
		return true, nil
	}
	bounds := []replay.Bounds{{Partition: partition, Start: from, End: until}}
	err = c.client.Read(ctx, c.cfg.Topic, bounds, func(_ context.Context, b replay.Batch) error {
		if len(b.Records) > 0 {
			return errSomething
		}
		return nil
	})
	if errors.Is(err, errSomething) {
		return false, nil
	}
	return err == nil, err
}
