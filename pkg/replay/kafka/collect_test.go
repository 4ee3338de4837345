package kafka_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/idemctl/idemctl/pkg/replay"
	"github.com/idemctl/idemctl/pkg/replay/kafka"
)

// collected is what a Read delivered, by partition.
type collected struct {
	mu      sync.Mutex
	records map[int32][]replay.Record
	next    map[int32]int64
	calls   int
}

// collect reads bounds to their end and checks what holds for every Read: batches follow each other without a gap or an
// overlap, records lie within them in order, and each partition ends at its pinned end.
func collect(t *testing.T, src *kafka.Client, topic string, bounds []replay.Bounds) *collected {
	t.Helper()
	got := &collected{records: map[int32][]replay.Record{}, next: map[int32]int64{}}
	for _, b := range bounds {
		got.next[b.Partition] = b.Start
	}
	err := src.Read(t.Context(), topic, bounds, func(_ context.Context, b replay.Batch) error {
		got.mu.Lock()
		defer got.mu.Unlock()
		got.calls++
		at := got.next[b.Partition]
		if b.Next <= at {
			t.Errorf("partition %d: a batch goes from %d to %d", b.Partition, at, b.Next)
		}
		for _, r := range b.Records {
			if r.Offset < at || r.Offset >= b.Next || r.Partition != b.Partition || r.Topic != topic {
				t.Errorf("partition %d: %s[%d]@%d in a batch from %d to %d", b.Partition, r.Topic, r.Partition, r.Offset, at, b.Next)
			}
			at = r.Offset + 1
		}
		got.next[b.Partition] = b.Next
		got.records[b.Partition] = append(got.records[b.Partition], b.Records...)
		return nil
	})
	if err != nil {
		t.Fatalf("read %s: %v", topic, err)
	}
	for _, b := range bounds {
		if got.next[b.Partition] != b.End {
			t.Errorf("partition %d: read to %d, want the pinned end %d", b.Partition, got.next[b.Partition], b.End)
		}
	}
	return got
}

func (c *collected) values(partition int32) []string {
	var out []string
	for _, r := range c.records[partition] {
		out = append(out, string(r.Value))
	}
	return out
}

func wantValues(t *testing.T, got *collected, partition int32, want ...string) {
	t.Helper()
	if v := got.values(partition); !slices.Equal(v, want) {
		t.Errorf("partition %d: read %q, want %q", partition, v, want)
	}
}

func wantBounds(t *testing.T, got []replay.Bounds, want ...replay.Bounds) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("bounds are %+v, want %+v", got, want)
	}
}
