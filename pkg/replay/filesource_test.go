package replay_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idemctl/idemctl/pkg/replay"
)

// capture writes records with these partition@offset positions, an hour apart from rangeNow minus four hours on.
func capture(t *testing.T, positions ...string) string {
	t.Helper()
	var buf []byte
	for i, pos := range positions {
		rec := replay.Record{Topic: "order-paid", Timestamp: rangeNow().Add(time.Duration(i-4) * time.Hour), Value: []byte(pos)}
		if _, err := fmt.Sscanf(pos, "%d@%d", &rec.Partition, &rec.Offset); err != nil {
			t.Fatal(err)
		}
		var err error
		if buf, err = replay.AppendEnvelope(buf, rec); err != nil {
			t.Fatal(err)
		}
	}
	return string(buf)
}

func fileSource(text string) *replay.FileSource {
	return replay.NewFileSource("incident.jsonl", func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(text)), nil
	})
}

// readAll gives the values of what was read, in order, and where each partition got to.
func readAll(t *testing.T, s replay.Source, bounds []replay.Bounds) (values []string, next map[int32]int64, err error) {
	t.Helper()
	next = make(map[int32]int64)
	err = s.Read(t.Context(), "order-paid", bounds, func(_ context.Context, b replay.Batch) error {
		for _, r := range b.Records {
			if r.Partition != b.Partition || r.Offset < next[b.Partition] || r.Offset >= b.Next {
				t.Errorf("offset %d of partition %d in a batch of partition %d from %d to %d", r.Offset, r.Partition, b.Partition, next[b.Partition], b.Next)
			}
			values = append(values, string(r.Value))
		}
		next[b.Partition] = b.Next
		return nil
	})
	slices.Sort(values)
	return values, next, err
}

func TestFileSourceRanges(t *testing.T) {
	t.Parallel()
	text := capture(t, "0@10", "1@5", "0@11", "1@6", "0@15", "1@9")
	for _, c := range []struct {
		r          string
		partitions []int32
		want       []string
		next       map[int32]int64
	}{
		{"start", nil, []string{"0@10", "0@11", "0@15", "1@5", "1@6", "1@9"}, map[int32]int64{0: 16, 1: 10}},
		{"start", []int32{1, 1}, []string{"1@5", "1@6", "1@9"}, map[int32]int64{1: 10}},
		{"11:14", []int32{0}, []string{"0@11"}, map[int32]int64{0: 14}},
		{"12", []int32{0}, []string{"0@15"}, map[int32]int64{0: 16}},
		{"12:14", []int32{0}, nil, map[int32]int64{0: 14}},
		{"100:100", []int32{0}, nil, map[int32]int64{}},
		{"end", nil, nil, map[int32]int64{}},
		{"-1", nil, []string{"0@15", "1@9"}, map[int32]int64{0: 16, 1: 10}},
		{"+2", nil, []string{"0@10", "0@11", "1@5", "1@6"}, map[int32]int64{0: 12, 1: 7}},
		// 1@9 lies an hour after now, 0@15 at now, 1@6 an hour before.
		{"@-1h", nil, []string{"0@15", "1@6", "1@9"}, map[int32]int64{0: 16, 1: 10}},
		{"@-2h:@-1h", nil, []string{"0@11"}, map[int32]int64{0: 15}},
	} {
		s := fileSource(text)
		bounds, err := s.Resolve(t.Context(), "order-paid", c.partitions, mustRange(t, c.r))
		if err != nil {
			t.Errorf("%s of %v: %v", c.r, c.partitions, err)
			continue
		}
		got, next, err := readAll(t, s, bounds)
		if err != nil || !slices.Equal(got, c.want) || fmt.Sprint(next) != fmt.Sprint(c.next) {
			t.Errorf("%s of %v is %v up to %v (%v), want %v up to %v", c.r, c.partitions, got, next, err, c.want, c.next)
		}
	}
}

// hazard R2, R2b, R4: a capture refuses what it does not have, by name.
func TestFileSourceRefuses(t *testing.T) {
	t.Parallel()
	text := capture(t, "0@10", "1@5", "0@11", "1@6")
	for _, c := range []struct {
		topic      string
		partitions []int32
		r, words   string
	}{
		{"order-paid", nil, "10", "partition 1: offset 10 asked for, it has 5 to 6"},
		{"order-paid", []int32{0}, "9", "partition 0: offset 9 asked for, it has 10 to 11"},
		{"order-paid", []int32{0, 7, 8}, "start", "no partitions 7, 8 in incident.jsonl (it has 0, 1)"},
		{"order-payd", nil, "start", `topic "order-payd" does not exist in incident.jsonl`},
	} {
		_, err := fileSource(text).Resolve(t.Context(), c.topic, c.partitions, mustRange(t, c.r))
		if err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s of %s: want %q, got %v", c.r, c.topic, c.words, err)
		}
	}
	for _, bad := range []string{capture(t, "0@11", "0@10"), capture(t, "0@11", "1@1", "0@11")} {
		_, err := fileSource(bad).Resolve(t.Context(), "order-paid", nil, mustRange(t, "start"))
		var order *replay.OrderError
		if !errors.As(err, &order) || order.After != 11 {
			t.Errorf("lines out of order: %v", err)
		}
	}
}

// A line that cannot be read never goes unnoticed and never holds up the others.
func TestFileSourceBadLines(t *testing.T) {
	t.Parallel()
	lines := strings.SplitAfter(capture(t, "0@1", "0@2", "1@1", "1@2"), "\n")
	text := "\xef\xbb\xbf" + lines[0] + "garbage\n\r\n" + lines[1] + lines[2] + lines[3] + lines[3][:20]
	s := fileSource(text)
	bounds, err := s.Resolve(t.Context(), "order-paid", nil, mustRange(t, "start"))
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := readAll(t, s, bounds)
	if want := []string{"0@1", "0@2", "1@1", "1@2"}; !slices.Equal(got, want) {
		t.Errorf("read %v, want %v", got, want)
	}
	var bad *replay.BadLinesError
	if !errors.As(err, &bad) || bad.Count != 2 || bad.First[0].Line != 2 || bad.First[1].Line != 7 {
		t.Errorf("the bad lines are %v", err)
	}
	if bad, err := s.BadLines(t.Context()); err != nil || bad == nil || bad.Count != 2 {
		t.Errorf("the bad lines are %v (%v)", bad, err)
	}
	if bad, err := fileSource(lines[0]).BadLines(t.Context()); bad != nil || err != nil {
		t.Errorf("a sound file has bad lines: %v, %v", bad, err)
	}
}

// Pages are bounded, in order and complete, also with lines longer than the read buffer and without a line feed at the end.
func TestFileSourcePages(t *testing.T) {
	t.Parallel()
	var buf []byte
	const records = 1500
	size := func(offset int64) int { return int(offset%50/49*150_000 + offset%7*100) }
	for i := range records {
		var err error
		rec := replay.Record{Topic: "order-paid", Partition: int32(i % 2), Offset: int64(i), Value: []byte(strings.Repeat("x", size(int64(i))))}
		if buf, err = replay.AppendEnvelope(buf, rec); err != nil {
			t.Fatal(err)
		}
	}
	s := fileSource(strings.TrimSuffix(string(buf), "\n"))
	bounds, err := s.Resolve(t.Context(), "order-paid", nil, mustRange(t, "start"))
	if err != nil {
		t.Fatal(err)
	}
	seen, next := 0, map[int32]int64{}
	err = s.Read(t.Context(), "order-paid", bounds, func(_ context.Context, b replay.Batch) error {
		if len(b.Records) > 512 {
			t.Errorf("a page of %d records", len(b.Records))
		}
		for _, r := range b.Records {
			if len(r.Value) != size(r.Offset) || r.Offset < next[b.Partition] {
				t.Errorf("offset %d has %d bytes", r.Offset, len(r.Value))
			}
			next[b.Partition] = r.Offset + 1
			seen++
		}
		return nil
	})
	if err != nil || seen != records {
		t.Errorf("%d records were read, of %d: %v", seen, records, err)
	}
}

func TestFileSourceErrors(t *testing.T) {
	t.Parallel()
	text := capture(t, "0@1", "0@2", "0@3")
	errStop, errDisk := errors.New("stop"), errors.New("disk")
	s := fileSource(text)
	bounds, err := s.Resolve(t.Context(), "order-paid", nil, mustRange(t, "start"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Read(t.Context(), "order-paid", bounds, func(context.Context, replay.Batch) error { return errStop }); !errors.Is(err, errStop) {
		t.Errorf("the callback's error is %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Read(ctx, "order-paid", bounds, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("after a cancel: %v", err)
	}
	shorter := fileSource(capture(t, "0@1"))
	if got, _, err := readAll(t, shorter, bounds); err == nil || !strings.Contains(err.Error(), "changed while it was read") {
		t.Errorf("of a file that was cut meanwhile %v was read: %v", got, err)
	}
	closed := replay.NewFileSource("gone.jsonl", func() (io.ReadCloser, error) { return nil, errDisk })
	if _, err := closed.Resolve(t.Context(), "order-paid", nil, mustRange(t, "start")); !errors.Is(err, errDisk) || !strings.Contains(err.Error(), "gone.jsonl") {
		t.Errorf("a file that does not open: %v", err)
	}
}
