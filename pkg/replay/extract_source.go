package replay

import (
	"errors"
	"strings"
	"time"
)

var (
	errFallback   = errors.New("is none: write record, or leave it out")
	errNoHeader   = errors.New("has no header name after the colon")
	errNoSource   = errors.New("is empty: give a path into the value, header:NAME, or key")
	errTimeHeader = errors.New("cannot be a header: give a path into the value, key:LAYOUT, or record")
	errTimeKey    = errors.New("needs the layout of the date inside the key, such as key:20060102; for a member called key write value:key")
	errTimeFormat = errors.New("has no use here: it is for an event time that is a path into the value")
)

// keyFrom is which part of a record the order id is read from.
type keyFrom uint8

const (
	keyFromPath keyFrom = iota
	keyFromHeader
	keyFromRecordKey
)

type keySource struct {
	from   keyFrom
	name   string // for error texts: as configured
	header string
	slot   int
}

func newKeySource(text string, tree *pathTree) (keySource, error) {
	header, isHeader := strings.CutPrefix(text, "header:")
	switch {
	case text == "":
		return keySource{}, errNoSource
	case text == "key":
		return keySource{from: keyFromRecordKey, name: text}, nil
	case isHeader && header == "":
		return keySource{}, errNoHeader
	case isHeader:
		return keySource{from: keyFromHeader, name: text, header: header}, nil
	}
	p, err := ParsePath(strings.TrimPrefix(text, "value:"))
	if err != nil {
		return keySource{}, err
	}
	return keySource{from: keyFromPath, name: p.String(), slot: tree.add(p)}, nil
}

// read gives the order id, or the reason that there is none. The record's key and headers are taken byte for byte. A text
// and a number in the value with the same characters are one key, and a number's digits are those that were written.
func (s keySource) read(rec Record, found []foundValue, tree *pathTree) (id, reason string) {
	switch s.from {
	case keyFromRecordKey:
		if rec.Key == nil {
			return "", "is null"
		}
		return string(rec.Key), ""
	case keyFromHeader:
		value, reason := headerValue(rec, s.header)
		return string(value), reason
	case keyFromPath:
	}
	v := found[s.slot]
	switch v.kind {
	case valueString, valueNumber:
		return string(v.text()), ""
	case valueAbsent:
		return "", explainAbsent(rec.Value, tree.paths[s.slot])
	case valueNull, valueBool, valueArray, valueObject:
	}
	return "", "is " + v.kind.describe() + "; a key is a text or a number"
}

// timeFrom is which part of a record the time is read from.
type timeFrom uint8

const (
	timeFromRecord timeFrom = iota
	timeFromPath
	timeFromKey
)

type timeSource struct {
	from     timeFrom
	name     string
	slot     int
	date     keyDate
	layout   *timeLayout // nil: auto
	fallback bool
}

func newTimeSource(text string, tree *pathTree) (timeSource, error) {
	layout, isKey := strings.CutPrefix(text, "key:")
	switch {
	case text == "" || text == "record":
		return timeSource{from: timeFromRecord}, nil
	case text == "key" || (isKey && layout == ""):
		return timeSource{}, errTimeKey
	case isKey:
		date, err := newKeyDate(layout)
		if err != nil {
			return timeSource{}, err
		}
		return timeSource{from: timeFromKey, name: text, date: date}, nil
	case strings.HasPrefix(text, "header:"):
		return timeSource{}, errTimeHeader
	}
	p, err := ParsePath(strings.TrimPrefix(text, "value:"))
	if err != nil {
		return timeSource{}, err
	}
	return timeSource{from: timeFromPath, name: p.String(), slot: tree.add(p)}, nil
}

func (s *timeSource) setFormat(format string) error {
	if format == "" || format == "auto" {
		return nil
	}
	if s.from != timeFromPath {
		return errTimeFormat
	}
	layout, err := newTimeLayout(format)
	if err != nil {
		return err
	}
	s.layout = &layout
	return nil
}

// read gives the business time, or the reason that there is none.
func (s *timeSource) read(item Item, found []foundValue, tree *pathTree, loc *time.Location) (t time.Time, reason string) {
	var err error
	switch {
	case s.from == timeFromKey:
		t, err = s.date.find(item.OrderID, loc)
	case found[s.slot].kind == valueAbsent:
		return time.Time{}, explainAbsent(item.Record.Value, tree.paths[s.slot])
	default:
		t, err = valueTime(found[s.slot], s.layout, loc)
	}
	if err != nil {
		return time.Time{}, err.Error()
	}
	return t, ""
}
