package replay

import "fmt"

// PartitionLog is what a source knows of one partition at the moment a range is pinned. Taken before anything is read: the
// ends of a run do not move with the topic.
type PartitionLog struct {
	Partition int32
	// LogStart is the first offset that exists, HighWatermark the next one to be written.
	LogStart, HighWatermark int64
	// LastStable is the first offset of the oldest open transaction, or HighWatermark where there is none.
	LastStable int64
	// FromTime and ToTime are the offsets of the first record whose timestamp is at or after the range's From.Time and
	// To.Time, or -1 where there is none. Only read where that bound is a BoundTime.
	FromTime, ToTime int64
}

// Resolve pins the range for partitions, all of one topic, in the order given. Offsets that a partition lacks (a start
// below the log's start or above its end, an end likewise) give a *RangeError naming every such partition, since replaying
// what is there instead would be something else than was asked for; with AllowClipped they are cut and the Bounds say so.
// The end itself, the next offset to be written, is no error: nothing is read. A range that is empty whatever the log is never
// outside. -N, +N and times cut to the log silently, as they mean.
//
// Records of an open transaction, at and after LastStable, cannot be read: the bounds end before it and HeldBack counts
// the offsets of the range so withheld.
func (r Range) Resolve(topic string, logs []PartitionLog) ([]Bounds, error) {
	bounds := make([]Bounds, 0, len(logs))
	var outside []*OutsideError
	for _, l := range logs {
		b, err := r.resolvePartition(l)
		if err != nil {
			outside = append(outside, err)
			continue
		}
		bounds = append(bounds, b)
	}
	if len(outside) > 0 {
		return nil, &RangeError{Topic: topic, Range: r, Outside: outside}
	}
	return bounds, nil
}

func (r Range) resolvePartition(l PartitionLog) (Bounds, *OutsideError) {
	b := Bounds{Partition: l.Partition, LogStart: l.LogStart, HighWatermark: l.HighWatermark}
	if r.Empty() && r.From.Kind == BoundOffset {
		b.Start, b.End = r.From.N, r.From.N
		return b, nil
	}
	from, errFrom := r.pin(r.From, l, l.FromTime)
	to, errTo := r.pin(r.To, l, l.ToTime)
	if outside := firstOutside(errFrom, errTo); outside != nil {
		if !r.AllowClipped {
			return Bounds{}, outside
		}
		b.Clipped = true
	}
	to = max(to, from)
	b.Start = from
	b.End = max(from, min(to, l.LastStable))
	b.HeldBack = to - b.End
	return b, nil
}

// pin turns one bound into an offset within the log. Where an offset asked for lies outside, it is the nearest one within,
// and the error says so.
func (r Range) pin(bound Bound, l PartitionLog, atTime int64) (int64, *OutsideError) {
	switch bound.Kind {
	case BoundLogStart:
		return l.LogStart, nil
	case BoundLogEnd:
		return l.HighWatermark, nil
	case BoundOffset:
		within := clampToLog(bound.N, l)
		if within != bound.N {
			return within, &OutsideError{Partition: l.Partition, Asked: bound.N, LogStart: l.LogStart, HighWatermark: l.HighWatermark}
		}
		return within, nil
	case BoundLast:
		return clampToLog(l.HighWatermark-bound.N, l), nil
	case BoundFirst:
		// Compared by subtraction: LogStart + N may not fit.
		if bound.N >= l.HighWatermark-l.LogStart {
			return l.HighWatermark, nil
		}
		return l.LogStart + bound.N, nil
	case BoundTime:
		if atTime < 0 {
			return l.HighWatermark, nil
		}
		return clampToLog(atTime, l), nil
	}
	// Kinds are made by ParseRange; another one is a caller's mistake, and an empty range the harmless reading of it.
	return l.HighWatermark, nil
}

func clampToLog(n int64, l PartitionLog) int64 { return max(l.LogStart, min(n, l.HighWatermark)) }

func firstOutside(errs ...*OutsideError) *OutsideError {
	for _, e := range errs {
		if e != nil {
			return e
		}
	}
	return nil
}

// String names the bounds for people: partition, first offset, first not read.
func (b Bounds) String() string { return fmt.Sprintf("[%d] %d:%d", b.Partition, b.Start, b.End) }
