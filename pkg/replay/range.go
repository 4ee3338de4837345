package replay

import (
	"strconv"
	"time"
)

// BoundKind says how one end of a range is given.
type BoundKind uint8

// The kinds of bounds. What each means as the start and as the end of a range is said beside it.
const (
	// BoundLogStart is the first offset that the partition has.
	BoundLogStart BoundKind = iota
	// BoundLogEnd is the end of the partition as it stood when the range was pinned.
	BoundLogEnd
	// BoundOffset is offset N itself (as an end: exclusive). It must exist.
	BoundOffset
	// BoundLast, only as a start, lies N offsets before the end; it clips to the log's start.
	BoundLast
	// BoundFirst, only as an end, lies N offsets after the log's start; it clips to the log's end.
	BoundFirst
	// BoundTime is the offset of the first record whose timestamp is Time or later (as an end: exclusive), or the end of
	// the log where there is none.
	BoundTime
)

// Bound is one end of a range.
type Bound struct {
	Kind BoundKind
	// N is the offset (BoundOffset) or the number of offsets (BoundLast, BoundFirst).
	N int64
	// Time is in UTC and whole milliseconds, the unit of record timestamps; only with BoundTime.
	Time time.Time
}

// Range says which records of each partition to read: From ≤ offset < To. It is a plain value, comparable with ==.
type Range struct {
	From, To Bound
	// AllowClipped lets offsets outside the log be cut to what the partition has, where they would be refused. It is no
	// part of the syntax.
	AllowClipped bool
}

// rangeForms is what an error about a range shows.
const rangeForms = "N, N:M (M exclusive), N:, :M, start, end, -N (the last N), +N (the first N), @TIME, @TIME:TIME; " +
	"TIME is RFC 3339, a date, epoch seconds or milliseconds, or -1h (ago)"

// String gives the range in its canonical form: ParseRange reads it back to an equal Range, whatever its now and zone.
func (r Range) String() string {
	switch {
	case r.From.Kind == BoundLogEnd:
		return "end"
	case r.From.Kind == BoundLast:
		return "-" + strconv.FormatInt(r.From.N, 10)
	case r.To.Kind == BoundFirst:
		return "+" + strconv.FormatInt(r.To.N, 10)
	case r.From.Kind == BoundTime && r.To.Kind == BoundTime:
		return "@" + formatRangeTime(r.From.Time) + ":@" + formatRangeTime(r.To.Time)
	case r.From.Kind == BoundTime:
		return "@" + formatRangeTime(r.From.Time)
	case r.From.Kind == BoundOffset && r.To.Kind == BoundOffset:
		return strconv.FormatInt(r.From.N, 10) + ":" + strconv.FormatInt(r.To.N, 10)
	case r.From.Kind == BoundOffset:
		return strconv.FormatInt(r.From.N, 10)
	case r.To.Kind == BoundOffset:
		return ":" + strconv.FormatInt(r.To.N, 10)
	default:
		return "start"
	}
}

// MarshalText gives the canonical form, so that a report in JSON shows a range as it can be typed.
func (r Range) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

func formatRangeTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.999Z07:00") }

// Empty reports whether the range holds nothing whatever the log: end, N:N, or twice the same time.
func (r Range) Empty() bool {
	return r.From.Kind == BoundLogEnd || (r.From == r.To && (r.From.Kind == BoundOffset || r.From.Kind == BoundTime))
}
