package kafka_test

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemctl/idemctl/pkg/replay"
)

// Compaction takes records from the middle of a log and before a range's end: the read passes over the holes and ends at
// its end. On kfake alone, which compacts when told to; a real broker does in its own time. hazard R1
func TestConformanceCompactedTail(t *testing.T) {
	t.Parallel()
	fake, c := newFake(t)
	topic := c.Topic(t, 1, map[string]string{"cleanup.policy": "compact", "delete.retention.ms": "0"})
	cl := newProducer(t, c.Brokers)
	for _, r := range []*kgo.Record{
		{Key: []byte("k"), Value: []byte("0")},
		{Key: []byte("l"), Value: []byte("1")},
		{Key: []byte("k"), Value: []byte("2")}, // overwrites 0
		{Key: []byte("m"), Value: []byte("3")},
		{Key: []byte("m"), Value: nil}, // 4 deletes 3, and goes itself
		{Key: []byte("z"), Value: []byte("5")},
	} {
		r.Topic = topic
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	fake.Compact()
	src := c.open(t)
	for text, want := range map[string][]int64{
		"start": {1, 2, 5},
		":5":    {1, 2}, // the end 5 is in sight, the record before it is not
		":4":    {1, 2},
		"3:5":   nil,
		"3:":    {5},
	} {
		got := collect(t, src, topic, resolve(t, src, topic, text))
		if o := offsets(got.records[0]); !slices.Equal(o, want) {
			t.Errorf("%s: read offsets %v, want %v", text, o, want)
		}
	}
}

func offsets(records []replay.Record) []int64 {
	var out []int64
	for _, r := range records {
		out = append(out, r.Offset)
	}
	return out
}
