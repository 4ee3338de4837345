package partition

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// Month is a calendar month, counted from January of year 0. Arithmetic on it never meets a day, so there is no "31st plus
// one month" (hazard P1).
type Month int

// The months a ledger can have: business times outside these years are refused before they get here.
const (
	firstYear = 2000
	lastYear  = 2100
)

var monthForm = regexp.MustCompile(`^(\d{4})-?(\d{2})$`)

// NewMonth returns the month of a year.
func NewMonth(year int, month time.Month) Month { return Month(year*12 + int(month) - 1) }

// MonthOf returns the month that t falls in, in loc.
func MonthOf(t time.Time, loc *time.Location) Month {
	y, m, _ := t.In(loc).Date()
	return NewMonth(y, m)
}

// ParseMonth reads 2026-11 or 202611.
func ParseMonth(s string) (Month, error) {
	f := monthForm.FindStringSubmatch(s)
	if f == nil {
		return 0, fmt.Errorf("month %q: expected YYYY-MM", s)
	}
	year, _ := strconv.Atoi(f[1])  // four digits by the expression
	month, _ := strconv.Atoi(f[2]) // two digits
	if month < 1 || month > 12 || year < firstYear || year > lastYear {
		return 0, fmt.Errorf("month %q: expected YYYY-MM from %d-01 to %d-12", s, firstYear, lastYear)
	}
	return NewMonth(year, time.Month(month)), nil
}

// Date returns the year and the month of it.
func (m Month) Date() (int, time.Month) { return int(m) / 12, time.Month(int(m)%12 + 1) }

// Start is the first instant of the month in loc, in UTC.
func (m Month) Start(loc *time.Location) time.Time {
	y, mon := m.Date()
	t := time.Date(y, mon, 1, 0, 0, 0, 0, loc)
	if MonthOf(t, loc) < m {
		// The zone skips midnight of this 1st (clocks go forward): the month begins where the new offset does.
		_, t = t.ZoneBounds()
	}
	return t.UTC()
}

// End is the first instant after the month in loc, in UTC.
func (m Month) End(loc *time.Location) time.Time { return (m + 1).Start(loc) }

// Digits is the month as table names have it: 202611.
func (m Month) Digits() string {
	y, mon := m.Date()
	return fmt.Sprintf("%04d%02d", y, int(mon))
}

// String is the month as people write it: 2026-11.
func (m Month) String() string {
	y, mon := m.Date()
	return fmt.Sprintf("%04d-%02d", y, int(mon))
}

// MarshalText writes 2026-11.
func (m Month) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (m *Month) UnmarshalText(b []byte) error {
	v, err := ParseMonth(string(b))
	if err != nil {
		return err
	}
	*m = v
	return nil
}
