package replay_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/idemctl/idemctl/pkg/replay"
)

// The texts are what an engineer reads in the night: what was being done to what, and what there is.
func TestErrorTexts(t *testing.T) {
	t.Parallel()
	errTooLong := errors.New("129 bytes, at most 128")
	cfg := replay.ExtractorConfig{Key: "id", ValidateKey: func(string) error { return errTooLong }}
	item, errKey := extractWith(t, cfg, replay.Record{Value: []byte(`{"id":"A"}`), Timestamp: aTime()})
	if !errors.Is(errKey, errTooLong) || item.OrderID != "A" {
		t.Errorf("a refused key is %q, %v", item.OrderID, errKey)
	}
	_, errConfig := replay.NewExtractor(replay.ExtractorConfig{Key: "id", EventTime: "key:yyyyMMdd"})
	text := capture(t, "0@1") + strings.Repeat("x\n", 12)
	errLines := fileSource(text).Read(t.Context(), "order-paid", []replay.Bounds{{Start: 1, End: 2, HighWatermark: 2}},
		func(context.Context, replay.Batch) error { return nil })
	if line, ok := errors.AsType[*replay.LineError](errLines); !ok || line.Line != 2 || errors.Unwrap(line) == nil {
		t.Errorf("the first bad line is %v", line)
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{errKey, "id is no usable key: 129 bytes, at most 128"},
		{errConfig, `event_time "key:yyyyMMdd": is not a Go time layout with a year and a month, such as 20060102150405`},
		{errLines, "reading incident.jsonl: 12 lines set aside: line 2 is not JSON at byte 0: "},
		{errLines, "; …"},
		{&replay.TopicError{Topic: "a\x1b"}, `topic "a\x1b" does not exist`},
		{&replay.TopicError{Topic: "a", Missing: []int32{7}, Where: "the cluster"}, `topic "a" has no partition 7 in the cluster (it has none)`},
		{&replay.OrderError{Name: "f", Line: 3, Partition: 1, Offset: 5, After: 6}, "reading f: line 3 has offset 5 of partition 1 after offset 6"},
	} {
		if !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("the text is %q, want %q", c.err, c.want)
		}
	}
}

// A report shows a range as it can be typed.
func TestRangeInJSON(t *testing.T) {
	t.Parallel()
	r, err := replay.ParseRange("@2026-11-11", time.Time{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := json.Marshal(r); err != nil || string(got) != `"@2026-11-11T00:00:00Z"` {
		t.Errorf("the range is %s (%v)", got, err)
	}
	if got := (replay.Bounds{Partition: 3, Start: 100, End: 200}).String(); got != "[3] 100:200" {
		t.Errorf("the bounds are %s", got)
	}
}
