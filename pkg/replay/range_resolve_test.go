package replay_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/idemctl/idemctl/pkg/replay"
)

func mustRange(t *testing.T, s string) replay.Range {
	t.Helper()
	r, err := replay.ParseRange(s, rangeNow(), rangeZone(t))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// hazard R2: the offsets asked for are compared with the log before anything is read.
// hazard R3: an open transaction ends the bounds and what it holds back is counted.
func TestRangeResolve(t *testing.T) {
	t.Parallel()
	log := func(start, stable, high int64) replay.PartitionLog {
		return replay.PartitionLog{Partition: 3, LogStart: start, LastStable: stable, HighWatermark: high, FromTime: -1, ToTime: -1}
	}
	timed := func(from, to int64) replay.PartitionLog {
		l := log(100, 200, 200)
		l.FromTime, l.ToTime = from, to
		return l
	}
	for _, c := range []struct {
		why              string
		r                string
		log              replay.PartitionLog
		clip             bool
		start, end, held int64
		clipped, refused bool
	}{
		{why: "whole", r: "start", log: log(100, 200, 200), start: 100, end: 200},
		{why: "end", r: "end", log: log(100, 200, 200), start: 200, end: 200},
		{why: "end, with an open transaction", r: "end", log: log(100, 150, 200), start: 200, end: 200},
		{why: "from N", r: "150", log: log(100, 200, 200), start: 150, end: 200},
		{why: "from the log's start", r: "100", log: log(100, 200, 200), start: 100, end: 200},
		{why: "from the next offset: nothing", r: "200", log: log(100, 200, 200), start: 200, end: 200},
		{why: "0 of an empty partition", r: "0", log: log(0, 0, 0), start: 0, end: 0},
		{why: "99 of 6", r: "99", log: log(0, 6, 6), refused: true},
		{why: "99 of 6, clipped", r: "99", log: log(0, 6, 6), clip: true, start: 6, end: 6, clipped: true},
		{why: "below the log's start", r: "99", log: log(100, 200, 200), refused: true},
		{why: "below the log's start, clipped", r: "99", log: log(100, 200, 200), clip: true, start: 100, end: 200, clipped: true},
		{why: "N:M", r: "110:120", log: log(100, 200, 200), start: 110, end: 120},
		{why: "M is the end", r: "110:200", log: log(100, 200, 200), start: 110, end: 200},
		{why: "M beyond the end", r: "110:201", log: log(100, 200, 200), refused: true},
		{why: "M beyond the end, clipped", r: "110:201", log: log(100, 200, 200), clip: true, start: 110, end: 200, clipped: true},
		{why: "both beyond, clipped", r: "300:400", log: log(100, 200, 200), clip: true, start: 200, end: 200, clipped: true},
		{why: ":M", r: ":120", log: log(100, 200, 200), start: 100, end: 120},
		{why: ":M before the log's start", r: ":99", log: log(100, 200, 200), refused: true},
		{why: "N:N asks for nothing", r: "900:900", log: log(100, 200, 200), start: 900, end: 900},
		{why: "last", r: "-30", log: log(100, 200, 200), start: 170, end: 200},
		{why: "last, more than there is", r: "-9223372036854775807", log: log(100, 200, 200), start: 100, end: 200},
		{why: "first", r: "+30", log: log(100, 200, 200), start: 100, end: 130},
		{why: "first, more than there is", r: "+9223372036854775807", log: log(100, 200, 200), start: 100, end: 200},
		{why: "held back", r: "start", log: log(100, 150, 200), start: 100, end: 150, held: 50},
		{why: "held back in part", r: "140:160", log: log(100, 150, 200), start: 140, end: 150, held: 10},
		{why: "held back whole", r: "-10", log: log(100, 150, 200), start: 190, end: 190, held: 10},
		{why: "not held back", r: "100:120", log: log(100, 150, 200), start: 100, end: 120},
		{why: "from a time", r: "@-2h", log: timed(130, -1), start: 130, end: 200},
		{why: "from a time after the last record", r: "@-2h", log: timed(-1, -1), start: 200, end: 200},
		{why: "between times", r: "@-2h:@-1h", log: timed(130, 160), start: 130, end: 160},
		{why: "until after the last record", r: "@-2h:@-1h", log: timed(130, -1), start: 130, end: 200},
		{why: "times of a log that was cut meanwhile", r: "@-2h:@-1h", log: timed(50, 60), start: 100, end: 100},
	} {
		t.Run(c.why, func(t *testing.T) {
			t.Parallel()
			r := mustRange(t, c.r)
			r.AllowClipped = c.clip
			got, err := r.Resolve("order-paid", []replay.PartitionLog{c.log})
			if c.refused {
				var outside *replay.OutsideError
				if !errors.As(err, &outside) || outside.Partition != 3 {
					t.Fatalf("not refused: %v %v", got, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := replay.Bounds{Partition: 3, Start: c.start, End: c.end, LogStart: c.log.LogStart, HighWatermark: c.log.HighWatermark, HeldBack: c.held, Clipped: c.clipped}
			if len(got) != 1 || got[0] != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// hazard R2b: every partition that lacks the offset is named, with what it has.
func TestRangeResolveNamesAllPartitions(t *testing.T) {
	t.Parallel()
	logs := []replay.PartitionLog{
		{Partition: 0, LogStart: 0, HighWatermark: 6, LastStable: 6},
		{Partition: 1, LogStart: 0, HighWatermark: 500, LastStable: 500},
		{Partition: 2, LogStart: 200, HighWatermark: 300, LastStable: 300},
		{Partition: 3, LogStart: 0, HighWatermark: 0, LastStable: 0},
	}
	_, err := mustRange(t, "99").Resolve("order-paid", logs)
	var re *replay.RangeError
	if !errors.As(err, &re) || len(re.Outside) != 3 {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{
		`range 99 of topic "order-paid"`, "3 partitions", "partition 0: offset 99 asked for, it has 0 to 5",
		"partition 2: offset 99 asked for, it has 200 to 299", "partition 3: offset 99 asked for, it is empty",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "partition 1") {
		t.Errorf("partition 1 has the offset: %v", err)
	}
}

// Whatever the numbers: the bounds lie within the log, in order, and nothing overflows.
func FuzzRangeResolve(f *testing.F) {
	f.Add(int64(0), int64(6), int64(6), uint8(2), int64(99), uint8(1), int64(0))
	f.Add(int64(0), int64(math.MaxInt64), int64(math.MaxInt64), uint8(3), int64(math.MaxInt64), uint8(4), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, start, stable, high int64, fromKind uint8, n int64, toKind uint8, m int64) {
		if start < 0 || high < start || stable < start || stable > high || n < 0 || m < 0 {
			t.Skip()
		}
		r := replay.Range{
			From:         replay.Bound{Kind: replay.BoundKind(fromKind % 6), N: n},
			To:           replay.Bound{Kind: replay.BoundKind(toKind % 6), N: m},
			AllowClipped: true,
		}
		if r.Empty() {
			t.Skip()
		}
		bs, err := r.Resolve("t", []replay.PartitionLog{{LogStart: start, LastStable: stable, HighWatermark: high, FromTime: n, ToTime: m}})
		if err != nil {
			t.Fatal(err)
		}
		b := bs[0]
		if b.Start < start || b.End < b.Start || b.End+b.HeldBack > high || b.HeldBack < 0 || (b.Len() > 0 && b.End > stable) {
			t.Errorf("%+v of the log %d, %d, %d is %+v", r, start, stable, high, b)
		}
	})
}
