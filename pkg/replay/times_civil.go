package replay

import (
	"errors"
	"time"
)

// civil is a date and time of day as written, with the offset from UTC where one was written.
type civil struct {
	year, month, day, hour, minute, second, nano int
	zoned                                        bool
	offset                                       int // seconds east of UTC
}

// valid reports whether the date exists and the time of day is one.
func (c civil) valid() bool {
	return c.month >= 1 && c.month <= 12 && c.day >= 1 && c.day <= daysIn(c.year, c.month) &&
		c.hour >= 0 && c.hour <= 23 && c.minute >= 0 && c.minute <= 59 && c.second >= 0 && c.second <= 59 &&
		c.nano >= 0 && c.nano <= 999_999_999
}

func daysIn(year, month int) int {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	default:
		return 31
	}
}

func (c civil) asUTC() time.Time {
	return time.Date(c.year, time.Month(c.month), c.day, c.hour, c.minute, c.second, c.nano, time.UTC)
}

var errNoSuchHour = errors.New("is a local time that does not exist: the clock was put forward over it")

// instant is the moment the civil time names, in loc where it has no offset of its own. A local time that the clock passes
// twice is the first of the two; one that it skips is an error.
func (c civil) instant(loc *time.Location) (time.Time, error) {
	if c.zoned {
		return c.asUTC().Add(-time.Duration(c.offset) * time.Second), nil
	}
	wall := c.asUTC()
	// Date is right by one of the offsets in force around the wall time, not said which; the others are found beside it.
	guess := time.Date(c.year, time.Month(c.month), c.day, c.hour, c.minute, c.second, c.nano, loc)
	start, end := guess.ZoneBounds()
	var first time.Time
	found := false
	try := func(at time.Time) {
		_, offset := at.Zone()
		t := wall.Add(-time.Duration(offset) * time.Second).In(loc)
		if _, has := t.Zone(); has == offset && (!found || t.Before(first)) {
			first, found = t, true
		}
	}
	try(guess)
	if !start.IsZero() {
		try(start.Add(-1))
	}
	if !end.IsZero() {
		try(end)
	}
	if !found {
		return time.Time{}, errNoSuchHour
	}
	return first.UTC(), nil
}

// startOfDay is the first instant of a date in loc: midnight, or what the clock was put forward to where it skipped that.
func startOfDay(c civil, loc *time.Location) time.Time {
	if t, err := c.instant(loc); err == nil {
		return t
	}
	guess := time.Date(c.year, time.Month(c.month), c.day, 0, 0, 0, 0, loc)
	start, end := guess.ZoneBounds()
	if !start.IsZero() && (end.IsZero() || guess.Sub(start) < end.Sub(guess)) {
		return start.UTC()
	}
	return end.UTC()
}

// parseCivilDate reads YYYY-MM-DD and nothing else.
func parseCivilDate(b []byte) (civil, bool) {
	if len(b) != len("2006-01-02") {
		return civil{}, false
	}
	s := civilScanner{b: b, ok: true}
	c := s.date()
	return c, s.ok && c.valid()
}

// parseCivil reads RFC 3339, with a space for the T and without the offset too. Unless withSeconds, the seconds may be left
// out, as Java's LocalDateTime prints them when they are zero. A fraction may have any number of digits; those past the ninth are cut off.
func parseCivil(b []byte, withSeconds bool) (civil, bool) {
	s := civilScanner{b: b, ok: true}
	c := s.date()
	s.oneOf('T', 't', ' ')
	c.hour = s.digits(2)
	s.oneOf(':')
	c.minute = s.digits(2)
	if withSeconds || s.peek() == ':' {
		s.oneOf(':')
		c.second = s.digits(2)
		if s.peek() == '.' {
			s.i++
			c.nano = s.fraction()
		}
	}
	c.zoned, c.offset = s.zone()
	return c, s.ok && s.i == len(b) && c.valid()
}

// civilScanner reads fields of fixed width; ok turns false at the first that does not fit.
type civilScanner struct {
	b  []byte
	i  int
	ok bool
}

func (s *civilScanner) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

func (s *civilScanner) digits(n int) int {
	v := 0
	for range n {
		if !isDigit(s.peek()) {
			s.ok = false
			return 0
		}
		v = v*10 + int(s.b[s.i]-'0')
		s.i++
	}
	return v
}

func (s *civilScanner) oneOf(cs ...byte) {
	for _, c := range cs {
		if s.peek() == c {
			s.i++
			return
		}
	}
	s.ok = false
}

func (s *civilScanner) date() civil {
	var c civil
	c.year = s.digits(4)
	s.oneOf('-')
	c.month = s.digits(2)
	s.oneOf('-')
	c.day = s.digits(2)
	return c
}

// fraction reads at least one digit, as nanoseconds.
func (s *civilScanner) fraction() int {
	v, n := 0, 0
	for ; isDigit(s.peek()); s.i++ {
		if n < 9 {
			v = v*10 + int(s.b[s.i]-'0')
			n++
		}
	}
	if n == 0 {
		s.ok = false
	}
	for ; n < 9; n++ {
		v *= 10
	}
	return v
}

// zone reads Z or ±HH:MM, if anything is left.
func (s *civilScanner) zone() (zoned bool, offset int) {
	var sign int
	switch s.peek() {
	case 'Z', 'z':
		s.i++
		return true, 0
	case '+':
		sign = 1
	case '-':
		sign = -1
	default:
		return false, 0
	}
	s.i++
	hours := s.digits(2)
	s.oneOf(':')
	minutes := s.digits(2)
	if hours > 23 || minutes > 59 {
		s.ok = false
	}
	return true, sign * (hours*3600 + minutes*60)
}
