package replay

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// ParseRange reads a range. Times without an offset of their own and dates are read in loc, nil for UTC (a date is the
// start of that day there), times like -1h are counted back from now. The forms:
//
//	N        from offset N to the end as it stood at the start      -N       the last N offsets of each partition
//	N:M      offsets N ≤ n < M                                      +N       the first N
//	N:       as N                                                   start    the whole partition
//	:M       from the log's start, n < M                            end      nothing
//	@T       from the first record at or after time T, per partition
//	@T1:T2   up to, without, the first record at or after T2; the second may have an @ too
//
// Numbers are plain decimal digits. A time is RFC 3339 (the offset may be left out), a date, ten-digit epoch seconds or
// thirteen-digit milliseconds, or a duration ago with its unit (-90m, -2d, -1d12h). A fraction below a millisecond is
// rounded up, since a record's timestamp, which has none, is at or after T exactly when it is at or after that. Times
// outside the years 2000 to 2100 are refused: they are typing errors or another unit.
//
// The error is a *RangeSyntaxError. ParseRange reads no clock and asks nothing of anyone.
func ParseRange(s string, now time.Time, loc *time.Location) (Range, error) {
	if loc == nil {
		loc = time.UTC
	}
	r, err := parseRange(s, now, loc)
	if err != nil {
		return Range{}, &RangeSyntaxError{Input: s, Why: err.Error()}
	}
	return r, nil
}

func parseRange(s string, now time.Time, loc *time.Location) (Range, error) {
	whole := Range{From: Bound{Kind: BoundLogStart}, To: Bound{Kind: BoundLogEnd}}
	switch {
	case s == "":
		return Range{}, errors.New("it is empty")
	case s == "start":
		return whole, nil
	case s == "end":
		whole.From.Kind = BoundLogEnd
		return whole, nil
	case s[0] == '@':
		return parseTimeRange(s[1:], now, loc)
	case s[0] == '-' || s[0] == '+':
		n, err := parseCount(s[1:])
		if err != nil {
			return Range{}, err
		}
		if s[0] == '-' {
			whole.From = Bound{Kind: BoundLast, N: n}
		} else {
			whole.To = Bound{Kind: BoundFirst, N: n}
		}
		return whole, nil
	}
	from, to, _ := strings.Cut(s, ":")
	if from == "" && to == "" {
		return Range{}, errors.New("it has no offset")
	}
	if from != "" {
		n, err := parseOffset(from)
		if err != nil {
			return Range{}, err
		}
		whole.From = Bound{Kind: BoundOffset, N: n}
	}
	if to != "" {
		m, err := parseOffset(to)
		if err != nil {
			return Range{}, err
		}
		if from != "" && m < whole.From.N {
			return Range{}, errors.New("it ends before it starts")
		}
		whole.To = Bound{Kind: BoundOffset, N: m}
	}
	return whole, nil
}

// parseOffset reads decimal digits and nothing else: no sign, no space, no underscore, no other script's digits.
func parseOffset(s string) (int64, error) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, errors.New(quoteShort(s) + " is not an offset")
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, errors.New(quoteShort(s) + " is not an offset: the greatest is " + strconv.FormatInt(math.MaxInt64, 10))
	}
	return n, nil
}

func parseCount(s string) (int64, error) {
	if s == "" {
		return 0, errors.New("it has no number")
	}
	n, err := parseOffset(s)
	if err != nil {
		return 0, errors.New(quoteShort(s) + " is not a number of offsets")
	}
	if n == 0 {
		return 0, errors.New("the number of offsets is at least 1")
	}
	return n, nil
}

// parseTimeRange reads what follows the first @. A time has colons of its own, so every colon is tried as the one between
// the two times. At most one fits: no form of a time is another one followed by a colon and a third.
func parseTimeRange(s string, now time.Time, loc *time.Location) (Range, error) {
	single, errSingle := parseRangeTime(s, now, loc)
	if errSingle == nil {
		return Range{From: Bound{Kind: BoundTime, Time: single}, To: Bound{Kind: BoundLogEnd}}, nil
	}
	for i := range len(s) {
		if s[i] != ':' {
			continue
		}
		t1, err := parseRangeTime(s[:i], now, loc)
		if err != nil {
			continue
		}
		t2, err := parseRangeTime(strings.TrimPrefix(s[i+1:], "@"), now, loc)
		if err != nil {
			continue
		}
		if t2.Before(t1) {
			return Range{}, errors.New("it ends before it starts")
		}
		return Range{From: Bound{Kind: BoundTime, Time: t1}, To: Bound{Kind: BoundTime, Time: t2}}, nil
	}
	return Range{}, errSingle
}

func parseRangeTime(s string, now time.Time, loc *time.Location) (time.Time, error) {
	t, err := readRangeTime(s, now, loc)
	if err != nil {
		return time.Time{}, err
	}
	ms := t.UnixMilli()
	if t.Nanosecond()%int(time.Millisecond) != 0 {
		ms++
	}
	t = time.UnixMilli(ms).UTC()
	if !plausibleTime(t) {
		return time.Time{}, errors.New(quoteShort(s) + " is outside the years 2000 to 2100")
	}
	return t, nil
}

func readRangeTime(s string, now time.Time, loc *time.Location) (time.Time, error) {
	switch {
	case s == "":
		return time.Time{}, errors.New("it has no time")
	case s[0] == '-':
		return readAgo(s, now)
	case isDigits(s):
		n, err := parseOffset(s)
		if err != nil {
			return time.Time{}, err
		}
		switch {
		case n < epochSecondsBelow:
			return time.Unix(n, 0), nil
		case n < epochMillisBelow:
			return time.UnixMilli(n), nil
		default:
			return time.Time{}, errors.New(quoteShort(s) + " is too great for epoch milliseconds")
		}
	}
	if c, ok := parseCivilDate([]byte(s)); ok {
		return startOfDay(c, loc), nil
	}
	c, ok := parseCivil([]byte(s), true)
	if !ok {
		return time.Time{}, errors.New(quoteShort(s) + " is not a time")
	}
	return c.instant(loc)
}

// readAgo reads a duration that starts with a minus sign. Beside Go's units it knows whole days of 24 hours, as the first
// part.
func readAgo(s string, now time.Time) (time.Time, error) {
	const day = 24 * time.Hour
	bad := errors.New(quoteShort(s) + " is not a time ago, like -90m, -1h or -2d")
	rest, ago := s[1:], time.Duration(0)
	if days, after, found := strings.Cut(rest, "d"); found {
		n, err := parseOffset(days)
		if err != nil || days == "" || n > int64(200*366) {
			return time.Time{}, bad
		}
		ago, rest = time.Duration(n)*day, after
		if rest == "" {
			return now.Add(-ago), nil
		}
	}
	if rest == "" || rest[0] == '-' || rest[0] == '+' || isDigits(rest) {
		return time.Time{}, bad // "-1" and "-0" have no unit
	}
	d, err := time.ParseDuration(rest)
	if err != nil {
		return time.Time{}, bad
	}
	return now.Add(-ago).Add(-d), nil
}

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}
