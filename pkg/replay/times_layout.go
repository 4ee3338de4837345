package replay

import (
	"errors"
	"time"
)

// timeLayout is a Go layout that has been checked to say what it seems to.
type timeLayout struct {
	layout string
	zoned  bool // it carries an offset of its own
}

var errNotALayout = errors.New("is not a Go time layout with a year and a month, such as 20060102150405")

// newTimeLayout checks a layout by writing a known time with it and reading that back: a layout in another language's
// letters (yyyyMMdd) has no year, one with 03 and no PM merges morning and afternoon, one with a zone's abbreviation (MST)
// is read as UTC by any program that does not know the letters.
func newTimeLayout(layout string) (timeLayout, error) {
	east := time.FixedZone("AAA", 2*3600)
	sample := time.Date(2026, 11, 23, 15, 4, 5, 0, east)
	text := sample.Format(layout)
	back, err := time.Parse(layout, text)
	if err != nil || back.Year() != sample.Year() || back.Month() != sample.Month() {
		return timeLayout{}, errNotALayout
	}
	if back.Hour() != sample.Hour() && back.Hour() != 0 {
		return timeLayout{}, errors.New("does not tell morning from afternoon: write 15 for the hour")
	}
	if text != sample.In(time.FixedZone("BBB", 2*3600)).Format(layout) {
		return timeLayout{}, errors.New("has a zone's abbreviation, which names no one offset: use Z07:00, or none")
	}
	other := time.Date(2026, 11, 23, 15, 4, 5, 0, time.FixedZone("AAA", 5*3600))
	return timeLayout{layout: layout, zoned: text != other.Format(layout)}, nil
}

// parse reads text, in loc where the layout has no offset of its own.
func (l timeLayout) parse(text string, loc *time.Location) (time.Time, error) {
	t, err := time.Parse(l.layout, text)
	if err != nil {
		return time.Time{}, errors.New("is " + quoteShort(text) + ", which is not a time of the layout " + l.layout)
	}
	if !l.zoned {
		t, err = civil{
			year: t.Year(), month: int(t.Month()), day: t.Day(),
			hour: t.Hour(), minute: t.Minute(), second: t.Second(), nano: t.Nanosecond(),
		}.instant(loc)
		if err != nil {
			return time.Time{}, err
		}
	}
	return settleTime(t)
}

// keyDate finds a date that is part of the key.
type keyDate struct {
	timeLayout

	width int
}

// newKeyDate checks that the layout always has the same width: the place of a date in a key is found by it.
func newKeyDate(layout string) (keyDate, error) {
	l, err := newTimeLayout(layout)
	if err != nil {
		return keyDate{}, err
	}
	width := len(time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC).Format(layout))
	for _, t := range []time.Time{
		time.Date(2026, 9, 30, 23, 59, 59, 999_999_999, time.UTC),
		time.Date(2026, 12, 28, 12, 10, 10, 0, time.FixedZone("", 2*3600)),
	} {
		if len(t.Format(layout)) != width {
			return keyDate{}, errors.New("does not always have the same width: use two-digit fields and no names")
		}
	}
	return keyDate{timeLayout: l, width: width}, nil
}

// find reads the leftmost part of key, as wide as the layout, that is a time of it within 2000 to 2100. Where the layout
// starts with a digit, the part must start a run of digits, so that 20060102 finds 2026-11-11 in 20261111-8842 and in
// ORD20261111000012 but nothing in 1020261111: a date that starts in the middle of a number is a guess.
func (k keyDate) find(key string, loc *time.Location) (time.Time, error) {
	for i := 0; i+k.width <= len(key); i++ {
		part := key[i : i+k.width]
		if i > 0 && isDigit(part[0]) && isDigit(key[i-1]) {
			continue
		}
		if t, err := k.parse(part, loc); err == nil {
			return t, nil
		}
	}
	return time.Time{}, errors.New("is " + quoteShort(key) + ", in which there is no date of the layout " + k.layout)
}
