package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// The pauses between tries of one partition: doubled from the first to the last.
	firstPause = 50 * time.Millisecond
	lastPause  = 2 * time.Second
	// maxFetchBytes bounds how far a fetch grows for a batch that did not fit. It is below what the client reads at most
	// (100 MiB).
	maxFetchBytes = 64 << 20
)

// errNotYet says that the leader has not got as far as the pinned end: it was elected a moment ago, and will.
var errNotYet = errors.New("the leader's log ends before the pinned end")

// fetched is one answer about a partition.
type fetched struct {
	records []*kgo.Record
	// next is the offset to go on from; it equals the position asked for when the answer held nothing readable.
	next int64
	// bytes is the size of what the broker sent.
	bytes int
	// stable is the leader's last stable offset.
	stable int64
}

// fetcher reads one partition from a position on.
type fetcher struct {
	client    *Client
	leaders   *leaders
	topic     string
	partition int32
	end       int64
	maxBytes  int
	decompr   kgo.Decompressor
}

// fetch gives the records from pos on and the next position, which is always greater than pos. It asks again, within the
// retry timeout, while the broker is away or the leadership moves.
func (f *fetcher) fetch(ctx context.Context, pos int64) ([]*kgo.Record, int64, error) {
	bounded, cancel := context.WithTimeout(ctx, f.client.cfg.RetryTimeout)
	defer cancel()
	wait := firstPause
	for {
		ld, gen := f.leaders.of(f.partition)
		records, next, err := f.once(bounded, ld, pos)
		if err == nil {
			return records, next, nil
		}
		if ctx.Err() != nil {
			return nil, 0, ctx.Err()
		}
		if errors.Is(err, kerr.OffsetOutOfRange) {
			return nil, 0, f.lost(ctx, pos)
		}
		if !retriable(err) {
			return nil, 0, f.describe(pos, err)
		}
		cause := err
		if err := pause(bounded, wait); err != nil {
			return nil, 0, f.gaveUp(ctx, pos, cause)
		}
		wait = min(2*wait, lastPause)
		if err := f.leaders.refresh(bounded, gen); err != nil {
			switch {
			case ctx.Err() != nil:
				return nil, 0, ctx.Err()
			case bounded.Err() != nil:
				return nil, 0, f.gaveUp(ctx, pos, cause)
			case isDefinite(err):
				return nil, 0, err
			}
		}
	}
}

// once asks the leader once, and settles the answer.
func (f *fetcher) once(ctx context.Context, ld leader, pos int64) ([]*kgo.Record, int64, error) {
	got, err := f.ask(ctx, ld, pos)
	if err != nil {
		return nil, 0, err
	}
	if got.next > pos {
		return got.records, got.next, nil
	}
	if got.bytes > 0 {
		// A broker sends the first batch whole however large; an old one may cut it.
		if f.maxBytes >= maxFetchBytes {
			return nil, 0, fmt.Errorf("%w: %d bytes at the position hold no whole batch", ErrCorrupt, got.bytes)
		}
		f.maxBytes = min(2*f.maxBytes, maxFetchBytes)
		return f.once(ctx, ld, pos)
	}
	next, err := f.settle(ctx, pos, got.stable)
	return nil, next, err
}

// settle decides what it means that the leader sent nothing for a position below the pinned end. A leader that has the log
// up to the end, and sends nothing, has nothing: compaction took it. Two things look the same and are not: a new leader
// that has not caught up, and a log whose older part is in tiered storage and was not fetched in time.
func (f *fetcher) settle(ctx context.Context, pos, stable int64) (int64, error) {
	if stable < f.end {
		return 0, fmt.Errorf("%w: %d of %d", errNotYet, stable, f.end)
	}
	local, err := f.client.listOffsets(ctx, f.topic, []int32{f.partition}, atLocalStart, readUncommitted)
	switch {
	case errors.Is(err, kerr.UnsupportedVersion):
		return f.end, nil // a broker that knows no tiered storage
	case err != nil:
		return 0, err
	}
	if pos < local[f.partition] {
		return 0, fmt.Errorf("offset %d is in tiered storage, which gave no answer: %w", pos, kerr.KafkaStorageError)
	}
	return f.end, nil
}

// ask issues one Fetch for one partition, to its leader, and waits for no data: below the pinned end there is some, or none
// will come.
func (f *fetcher) ask(ctx context.Context, ld leader, pos int64) (fetched, error) {
	if ld.broker < 0 {
		return fetched{}, kerr.LeaderNotAvailable
	}
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis = 0
	req.MinBytes = 0
	req.MaxBytes = int32(f.maxBytes) //nolint:gosec // at most maxFetchBytes
	req.IsolationLevel = readCommitted
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic = f.topic
	rt.TopicID = f.leaders.id
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition = f.partition
	rp.CurrentLeaderEpoch = ld.epoch
	rp.FetchOffset = pos
	rp.PartitionMaxBytes = req.MaxBytes
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)

	kresp, err := f.client.kgo.Broker(int(ld.broker)).Request(ctx, req)
	if err != nil {
		return fetched{}, err
	}
	resp, ok := kresp.(*kmsg.FetchResponse)
	if !ok {
		return fetched{}, fmt.Errorf("%w: a %T in answer to a fetch", ErrCorrupt, kresp)
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return fetched{}, err
	}
	// A broker that throttles us sends no partition at all.
	if len(resp.Topics) == 0 || len(resp.Topics[0].Partitions) == 0 {
		return fetched{}, kerr.ThrottlingQuotaExceeded
	}
	return f.decode(&resp.Topics[0].Partitions[0], pos)
}

// decode reads the batches of an answer: what was committed, without markers.
func (f *fetcher) decode(part *kmsg.FetchResponseTopicPartition, pos int64) (fetched, error) {
	if part.Partition != f.partition {
		return fetched{}, fmt.Errorf("%w: the broker answered for partition %d", ErrCorrupt, part.Partition)
	}
	if err := kerr.ErrorForCode(part.ErrorCode); err != nil {
		return fetched{}, err
	}
	fp, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		Offset:         pos,
		IsolationLevel: kgo.ReadCommitted(),
		Topic:          f.topic,
		Partition:      f.partition,
	}, part, f.decompr, nil)
	if fp.Err != nil {
		return fetched{}, fmt.Errorf("%w: %w", ErrCorrupt, fp.Err)
	}
	return fetched{records: fp.Records, next: next, bytes: len(part.RecordBatches), stable: part.LastStableOffset}, nil
}

// lost is the error for a position outside the log, with the log's ends as they are now.
func (f *fetcher) lost(ctx context.Context, pos int64) error {
	e := &LostError{Topic: f.topic, Partition: f.partition, Position: pos, LogStart: -1, HighWatermark: -1}
	bounded, cancel := context.WithTimeout(ctx, f.client.cfg.ConnectTimeout)
	defer cancel()
	one := []int32{f.partition}
	if start, err := f.client.listOffsets(bounded, f.topic, one, atStart, readUncommitted); err == nil {
		e.LogStart = start[f.partition]
	}
	if end, err := f.client.listOffsets(bounded, f.topic, one, atEnd, readUncommitted); err == nil {
		e.HighWatermark = end[f.partition]
	}
	return e
}

// gaveUp is the error after the retry timeout.
func (f *fetcher) gaveUp(ctx context.Context, pos int64, cause error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &UnreachableError{
		Brokers: f.client.cfg.Brokers,
		Op:      fmt.Sprintf("read %s[%d] at %d", f.topic, f.partition, pos),
		Err:     fmt.Errorf("no progress for %v: %w", f.client.cfg.RetryTimeout, cause),
	}
}

func (f *fetcher) describe(pos int64, err error) error {
	return fmt.Errorf("read %s[%d] at %d: %w", f.topic, f.partition, pos, err)
}
