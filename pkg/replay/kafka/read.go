package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/idemctl/idemctl/pkg/replay"
)

const (
	// minPartitionBytes is the least a partition is given of MaxBufferedBytes, so that it still moves with thousands of
	// them; maxPartitionBytes the most: beyond it a fetch gets no quicker.
	minPartitionBytes = 64 << 10
	maxPartitionBytes = 1 << 20
	// inFlight is how many answers of one partition exist at a time: one with the callback, one fetched meanwhile.
	inFlight = 2
)

// Read implements replay.Source. The partitions are read at the same time, each from its leader. Of a partition at most two
// answers are in memory, one with fn and the next one.
//
// It ends with fn's own error, with ctx's, with a *LostError or *RecreatedError where the pinned offsets are no longer what
// they were, with a *replay.TopicError where the topic is gone, or with an *UnreachableError when a partition made no
// progress for the retry timeout. Until then each partition was delivered in order and without omission up to the Next of
// its last batch.
func (c *Client) Read(ctx context.Context, topic string, bounds []replay.Bounds, fn func(ctx context.Context, b replay.Batch) error) error {
	todo, err := unread(topic, bounds)
	if err != nil || len(todo) == 0 {
		return err
	}
	ls, err := c.openLeaders(ctx, topic, partitionsOf(todo))
	if err != nil {
		return err
	}

	group, gctx := errgroup.WithContext(ctx)
	for _, b := range todo {
		f := &fetcher{
			client:    c,
			leaders:   ls,
			topic:     topic,
			partition: b.Partition,
			end:       b.End,
			maxBytes:  partitionBytes(c.cfg.MaxBufferedBytes, len(todo)),
			decompr:   kgo.DefaultDecompressor(),
		}
		batches := make(chan replay.Batch)
		group.Go(func() error {
			defer close(batches)
			return f.run(gctx, b, batches)
		})
		group.Go(func() error { return deliver(gctx, batches, fn) })
	}
	err = group.Wait()
	if ctx.Err() != nil && err != nil {
		return ctx.Err()
	}
	return err
}

// run fetches from the start to the end of b. The channel holds nothing, so it is never more than one answer ahead.
func (f *fetcher) run(ctx context.Context, b replay.Bounds, out chan<- replay.Batch) error {
	for pos := b.Start; pos < b.End; {
		records, next, err := f.fetch(ctx, pos)
		if err != nil {
			return err
		}
		batch := replay.Batch{Partition: b.Partition, Records: convert(records, b.End), Next: min(next, b.End)}
		select {
		case out <- batch:
		case <-ctx.Done():
			return ctx.Err()
		}
		pos = batch.Next
	}
	return nil
}

// deliver calls fn with each batch, one at a time. What was fetched before an error elsewhere is not delivered after it.
func deliver(ctx context.Context, in <-chan replay.Batch, fn func(ctx context.Context, b replay.Batch) error) error {
	for batch := range in {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := fn(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

// partitionBytes is how much a partition may ask for at a time.
func partitionBytes(budget, partitions int) int {
	return min(max(budget/partitions/inFlight, minPartitionBytes), maxPartitionBytes)
}

// unread checks the bounds and gives those with something to read.
func unread(topic string, bounds []replay.Bounds) ([]replay.Bounds, error) {
	seen := make(map[int32]bool, len(bounds))
	var todo []replay.Bounds
	for _, b := range bounds {
		if b.Start < 0 {
			return nil, fmt.Errorf("read %s[%d]: the range starts at %d", topic, b.Partition, b.Start)
		}
		if seen[b.Partition] {
			return nil, fmt.Errorf("read %s[%d]: the partition is asked for twice", topic, b.Partition)
		}
		seen[b.Partition] = true
		if b.Len() > 0 {
			todo = append(todo, b)
		}
	}
	return todo, nil
}

func partitionsOf(bounds []replay.Bounds) []int32 {
	out := make([]int32, 0, len(bounds))
	for _, b := range bounds {
		out = append(out, b.Partition)
	}
	return out
}

// convert makes the project's records of the client's, up to the end. Keys and values are shared, not copied: they point
// into the answer they came with, which nothing else writes to.
func convert(in []*kgo.Record, end int64) []replay.Record {
	for len(in) > 0 && in[len(in)-1].Offset >= end {
		in = in[:len(in)-1]
	}
	if len(in) == 0 {
		return nil
	}
	out := make([]replay.Record, len(in))
	for i, r := range in {
		out[i] = convertOne(r)
	}
	return out
}

func convertOne(r *kgo.Record) replay.Record {
	return replay.Record{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: originalTime(r), Key: r.Key, Value: r.Value, Headers: headers(r.Headers),
	}
}

func headers(in []kgo.RecordHeader) []replay.Header {
	if len(in) == 0 {
		return nil
	}
	out := make([]replay.Header, len(in))
	for i, h := range in {
		out[i] = replay.Header{Key: h.Key, Value: h.Value}
	}
	return out
}
