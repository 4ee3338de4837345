package replay

import (
	"errors"
	"strconv"
	"time"
)

// Epoch numbers are told apart by size: a second count below 1e11 lies before the year 5138, a millisecond count of 1e11 is in
// 1973, and so on. Every value within 2000 to 2100 fits exactly one unit.
const (
	epochSecondsBelow = 100_000_000_000
	epochMillisBelow  = 100_000_000_000_000
	epochMicrosBelow  = 100_000_000_000_000_000
)

// plausibleTime reports whether t is in the years 2000 to 2100, in UTC. Outside lie unset fields, other units and digits of
// another layout.
func plausibleTime(t time.Time) bool {
	y := t.UTC().Year()
	return y >= 2000 && y <= 2100
}

// truncateTime cuts to the millisecond, in UTC. Done here and never left to a server: MySQL would round, MariaDB truncate.
func truncateTime(t time.Time) time.Time { return time.UnixMilli(t.UnixMilli()).UTC() }

// settleTime is the last step of every way to read an event time.
func settleTime(t time.Time) (time.Time, error) {
	if !plausibleTime(t) {
		return time.Time{}, errors.New("is " + t.UTC().Format("2006-01-02T15:04:05Z") + ", outside the years 2000 to 2100")
	}
	return truncateTime(t), nil
}

// parseAutoTime reads the event time of format auto: RFC 3339 or a local time, or an epoch number as text.
func parseAutoTime(text []byte, loc *time.Location) (time.Time, error) {
	if c, ok := parseCivil(text, false); ok {
		t, err := c.instant(loc)
		if err != nil {
			return time.Time{}, err
		}
		return settleTime(t)
	}
	if len(text) > 0 && text[0] != '-' {
		if t, err := parseEpoch(text); err == nil || !errors.Is(err, errNotNumber) {
			return t, err
		}
	}
	return time.Time{}, errors.New("is " + quoteShort(text) + ", which is not a time")
}

var errNotNumber = errors.New("is not a number")

// parseEpoch reads epoch seconds, milliseconds or microseconds, told apart by size, from the decimal digits as they were
// written: no float is involved. A fraction below a millisecond is cut off.
func parseEpoch(text []byte) (time.Time, error) {
	if len(text) > 0 && text[0] == '-' {
		return time.Time{}, errors.New("is " + quoteShort(text) + ", before 1970")
	}
	d, ok := parseDecimal(text)
	if !ok {
		return time.Time{}, errNotNumber
	}
	v, ok := d.whole()
	switch {
	case !ok || v >= epochMicrosBelow:
		return time.Time{}, errors.New("is " + quoteShort(text) + ", too great for epoch microseconds (nanoseconds are not guessed)")
	case v < epochSecondsBelow:
		return settleTime(time.UnixMilli(v*1000 + d.thousandths()))
	case v < epochMillisBelow:
		return settleTime(time.UnixMilli(v))
	default:
		return settleTime(time.UnixMicro(v))
	}
}

// decimal is an unsigned number as digits: 0.d₁d₂d₃… × 10^point.
type decimal struct {
	digits []byte
	point  int
}

// parseDecimal reads digits with an optional fraction and exponent.
func parseDecimal(text []byte) (decimal, bool) {
	const most = 64 // digits and exponent: more is no time
	digits := make([]byte, 0, most)
	i, seenDigit := 0, false
	for ; i < len(text) && isDigit(text[i]); i++ {
		seenDigit = true
		if len(digits) == 0 && text[i] == '0' {
			continue
		}
		digits = append(digits, text[i])
	}
	point := len(digits)
	if i < len(text) && text[i] == '.' {
		start := i + 1
		for i = start; i < len(text) && isDigit(text[i]); i++ {
			if len(digits) == 0 && text[i] == '0' {
				point--
				continue
			}
			digits = append(digits, text[i])
		}
		if i == start {
			return decimal{}, false
		}
	}
	if i < len(text) && seenDigit && (text[i] == 'e' || text[i] == 'E') {
		exp, err := strconv.ParseInt(string(text[i+1:]), 10, 16)
		if err != nil {
			return decimal{}, false
		}
		point, i = point+int(exp), len(text)
	}
	return decimal{digits: digits, point: point}, seenDigit && i == len(text)
}

// digit is the i-th digit of the number, from 0; zero where none is written.
func (d decimal) digit(i int) int64 {
	if i < 0 || i >= len(d.digits) {
		return 0
	}
	return int64(d.digits[i] - '0')
}

// whole is the part before the decimal point; false where it has more than 18 digits.
func (d decimal) whole() (int64, bool) {
	if len(d.digits) == 0 {
		return 0, true
	}
	if d.point > 18 {
		return 0, false
	}
	v := int64(0)
	for i := range d.point {
		v = v*10 + d.digit(i)
	}
	return v, true
}

// thousandths is the first three digits after the decimal point.
func (d decimal) thousandths() int64 {
	return d.digit(d.point)*100 + d.digit(d.point+1)*10 + d.digit(d.point+2)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
