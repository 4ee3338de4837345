package replay

import (
	"bytes"
	"errors"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// valueTime reads an event time from a JSON value: by the layout where there is one, else by the rules of format auto.
func valueTime(v foundValue, layout *timeLayout, loc *time.Location) (time.Time, error) {
	switch {
	case v.kind != valueString && v.kind != valueNumber && v.kind != valueArray,
		v.kind == valueArray && layout != nil:
		return time.Time{}, errors.New("is " + v.kind.describe() + ", not a time")
	case layout != nil:
		return layout.parse(string(v.text()), loc)
	case v.kind == valueNumber:
		return parseEpoch(v.raw)
	case v.kind == valueArray:
		return parseTimeArray(v.raw, loc)
	default:
		return parseAutoTime(v.text(), loc)
	}
}

// parseTimeArray reads a local time as Jackson writes it by default: year, month, day, hour, minute, then seconds and
// nanoseconds, each left out where it and all after it are zero.
func parseTimeArray(raw []byte, loc *time.Location) (time.Time, error) {
	errShape := errors.New("is an array that is not a time: 5 to 7 whole numbers, year first")
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw))
	if _, err := dec.ReadToken(); err != nil {
		return time.Time{}, errShape
	}
	var f [7]int
	n := 0
	for ; dec.PeekKind() == jsontext.KindNumber; n++ {
		digits, err := dec.ReadValue()
		if err != nil || n == len(f) {
			return time.Time{}, errShape
		}
		if f[n], err = strconv.Atoi(string(digits)); err != nil {
			return time.Time{}, errShape
		}
	}
	if dec.PeekKind() != jsontext.KindEndArray || n < 5 {
		return time.Time{}, errShape
	}
	c := civil{year: f[0], month: f[1], day: f[2], hour: f[3], minute: f[4], second: f[5], nano: f[6]}
	if !c.valid() {
		return time.Time{}, errors.New("is an array of a date or time of day that does not exist")
	}
	t, err := c.instant(loc)
	if err != nil {
		return time.Time{}, err
	}
	return settleTime(t)
}
