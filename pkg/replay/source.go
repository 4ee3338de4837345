package replay

import "context"

// Source yields the records of a topic range. Its ends are pinned by Resolve, so that a run ends although the topic grows.
type Source interface {
	// Resolve pins r for the partitions named (none: all of them), each in order of its number. It refuses what would
	// replay something else: see *RangeError, *TopicError.
	Resolve(ctx context.Context, topic string, partitions []int32, r Range) ([]Bounds, error)
	// Read calls fn with the records of each of the bounds, in offset order within a partition, until every partition
	// has reached its end or fn or ctx ends it. fn is called from one goroutine at a time per partition, and from several
	// partitions at once; a fn that blocks holds back its own partition's fetches (bounded memory).
	Read(ctx context.Context, topic string, bounds []Bounds, fn func(ctx context.Context, b Batch) error) error
}

// Bounds is a range of one partition, pinned: Start ≤ offset < End.
type Bounds struct {
	Partition int32 `json:"partition"`
	// Start is the first offset to read, End the first not to read.
	Start int64 `json:"start"`
	End   int64 `json:"end"`
	// LogStart and HighWatermark are the partition's own ends when the range was pinned.
	LogStart      int64 `json:"log_start"`
	HighWatermark int64 `json:"high_watermark"`
	// HeldBack counts offsets of the range that an open transaction keeps from being read (last stable offset).
	HeldBack int64 `json:"held_back"`
	// Clipped says that the range asked for more than the partition has, and was cut (AllowClipped).
	Clipped bool `json:"clipped,omitempty"`
}

// Len is the number of offsets in the bounds (records may be fewer: markers, compaction).
func (b Bounds) Len() int64 { return max(0, b.End-b.Start) }

// Batch is a run of one partition's records. Next is the offset to go on from after it: it also moves over offsets that
// hold no record (transaction markers, compacted), so a batch may carry no records at all.
type Batch struct {
	Partition int32
	Records   []Record
	Next      int64
}
