package kafka_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemctl/idemctl/pkg/replay"
	"github.com/idemctl/idemctl/pkg/replay/kafka"
)

// A topic or partition that is not there is named, and not made by asking for it. hazard R4
func TestConformanceUnknownIsNamed(t *testing.T) {
	t.Parallel()
	for _, c := range clusters(t) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			src := c.open(t)
			absent := fmt.Sprintf("absent-%d", time.Now().UnixNano())
			_, err := src.Resolve(t.Context(), absent, nil, parse(t, "start"))
			if te, ok := errors.AsType[*replay.TopicError](err); !ok || te.Topic != absent || len(te.Missing) != 0 {
				t.Errorf("resolve of an unknown topic gives %v, want a TopicError naming it", err)
			}
			err = src.Read(t.Context(), absent, []replay.Bounds{{End: 1}}, nil)
			if _, ok := errors.AsType[*replay.TopicError](err); !ok {
				t.Errorf("read of an unknown topic gives %v, want a TopicError", err)
			}
			_, err = src.Resolve(t.Context(), "no such/name", nil, parse(t, "start"))
			if _, ok := errors.AsType[*replay.TopicError](err); !ok {
				t.Errorf("resolve of a name no topic can have gives %v, want a TopicError", err)
			}
			topics, err := c.admin.ListTopics(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if topics.Has(absent) {
				t.Errorf("topic %s was made by asking for it", absent)
			}

			topic := c.Topic(t, 2, nil)
			_, err = src.Resolve(t.Context(), topic, []int32{7, 1, 5}, parse(t, "start"))
			te, ok := errors.AsType[*replay.TopicError](err)
			if !ok || !slices.Equal(te.Missing, []int32{5, 7}) || !slices.Equal(te.Partitions, []int32{0, 1}) {
				t.Errorf("resolve of partitions 7, 1 and 5 of 2 gives %v, want a TopicError naming 5 and 7", err)
			}
		})
	}
}

// Offsets that a partition lacks are refused with both numbers, and every such partition is named. hazard R2, R2b
func TestConformanceOutsideIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range clusters(t) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			topic := c.Topic(t, 3, nil)
			c.produce(t, topic, 0, "a", "b", "c", "d", "e", "f")
			c.deleteBefore(t, topic, 0, 2)
			c.produce(t, topic, 1, "a")
			src := c.open(t)

			for _, tc := range []struct {
				text  string
				parts []int32
				want  []replay.OutsideError
			}{
				{"99", []int32{0}, []replay.OutsideError{{Partition: 0, Asked: 99, LogStart: 2, HighWatermark: 6}}},
				{"1", []int32{0}, []replay.OutsideError{{Partition: 0, Asked: 1, LogStart: 2, HighWatermark: 6}}},
				{"3:99", []int32{0}, []replay.OutsideError{{Partition: 0, Asked: 99, LogStart: 2, HighWatermark: 6}}},
				{"3", nil, []replay.OutsideError{
					{Partition: 1, Asked: 3, LogStart: 0, HighWatermark: 1},
					{Partition: 2, Asked: 3, LogStart: 0, HighWatermark: 0},
				}},
			} {
				_, err := src.Resolve(t.Context(), topic, tc.parts, parse(t, tc.text))
				re, ok := errors.AsType[*replay.RangeError](err)
				if !ok || re.Topic != topic {
					t.Errorf("%s of %v gives %v, want a RangeError", tc.text, tc.parts, err)
					continue
				}
				var got []replay.OutsideError
				for _, o := range re.Outside {
					got = append(got, *o)
				}
				if !slices.Equal(got, tc.want) {
					t.Errorf("%s of %v: outside %+v, want %+v", tc.text, tc.parts, got, tc.want)
				}
			}

			clipping := c.open(t, func(cfg *kafka.Config) { cfg.AllowClipped = true })
			bounds := resolve(t, clipping, topic, "1:4", 0)
			wantBounds(t, bounds, replay.Bounds{Start: 2, End: 4, LogStart: 2, HighWatermark: 6, Clipped: true})
			wantValues(t, collect(t, clipping, topic, bounds), 0, "c", "d")
		})
	}
}

func TestConformanceRangeForms(t *testing.T) {
	t.Parallel()
	for _, c := range clusters(t) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			topic := c.Topic(t, 1, nil)
			t0 := time.Now().Add(-time.Hour).Truncate(time.Second)
			cl := newProducer(t, c.Brokers)
			var records []*kgo.Record
			for i := range 10 {
				records = append(records, &kgo.Record{Topic: topic, Value: fmt.Append(nil, i), Timestamp: t0.Add(time.Duration(i) * time.Second)})
			}
			// Two batches of five: a time or an offset within a batch is found to the record.
			for _, batch := range [][]*kgo.Record{records[:5], records[5:]} {
				if err := cl.ProduceSync(t.Context(), batch...).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			src := c.open(t)
			at := func(i int) string { return t0.Add(time.Duration(i) * time.Second).UTC().Format(time.RFC3339) }
			for _, tc := range []struct {
				text       string
				start, end int64
			}{
				{"start", 0, 10},
				{"end", 10, 10},
				{"3", 3, 10},
				{"10", 10, 10},
				{"3:7", 3, 7},
				{":7", 0, 7},
				{"3:3", 3, 3},
				{"-4", 6, 10},
				{"-400", 0, 10},
				{"+4", 0, 4},
				{"+400", 0, 10},
				{"@" + at(7), 7, 10},
				{"@" + at(-5), 0, 10},
				{"@" + at(99), 10, 10},
				{"@" + at(2) + ":@" + at(6), 2, 6},
				{"@" + at(2) + ":@" + at(99), 2, 10},
				{"@-2h", 0, 10},
			} {
				bounds := resolve(t, src, topic, tc.text)
				wantBounds(t, bounds, replay.Bounds{Start: tc.start, End: tc.end, HighWatermark: 10})
				var want []string
				for i := tc.start; i < tc.end; i++ {
					want = append(want, strconv.FormatInt(i, 10))
				}
				wantValues(t, collect(t, src, topic, bounds), 0, want...)
			}
		})
	}
}
