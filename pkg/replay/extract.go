package replay

import (
	"bytes"
	"sync"
	"time"
)

// ExtractorConfig says where in a record its key, time and effect values are. The settings are those of a handler in the
// configuration.
type ExtractorConfig struct {
	// Key is where the order id is: a path into the JSON value (see ParsePath), header:NAME, or key, the record's key as
	// its raw bytes. value:PATH is a path too, for members whose names look like one of the others.
	Key string
	// EventTime is where the business time is: a path; key:LAYOUT, a date inside the order id (Go layout of fixed width, see
	// NewExtractor); record or empty, the record's timestamp.
	EventTime string
	// EventTimeFormat of a path's value: auto (or empty), or a Go layout.
	EventTimeFormat string
	// Fallback is record or empty: whether the record's timestamp stands in for a business time that is absent or
	// unreadable, which is otherwise invalid.
	Fallback string
	// Fingerprint are the paths of what must not change between deliveries.
	Fingerprint []string
	// ArgPaths are the effect's parameters: paths, or the built-in names (ArgOrderID and its like).
	ArgPaths []string
	// BizType is the value of ArgBizType.
	BizType string
	// Location is the zone of times without an offset; nil: UTC.
	Location *time.Location
	// ValidateKey refuses order ids; nil: every one that is not empty will do.
	ValidateKey func(orderID string) error
}

// Extractor reads what a handler needs from records. It is safe for concurrent use.
type Extractor struct {
	key         keySource
	time        timeSource
	tree        *pathTree
	fingerprint fingerprinter
	args        []argSource
	argIndex    map[string]int
	bizType     string
	loc         *time.Location
	validateKey func(string) error
	readers     sync.Pool // of *valueReader
}

// argSource is one parameter of the effect.
type argSource struct {
	name string
	slot int // -1: built in
}

// Extract finds key, time, fingerprint and effect values of a record, in one pass over its value, and keeps no reference to
// scratch memory. The error is an *InvalidError: the record is not to be executed. The Item then still carries the record,
// and the order id where that was found.
//
// The value is read as strict JSON if any path leads into it: one value, UTF-8, no member twice in an object at any depth,
// no lone surrogates; a byte-order mark is skipped. Otherwise it is not looked at, but for a tombstone, which is invalid
// always: it deletes, and no effect follows from it.
func (x *Extractor) Extract(rec Record) (Item, error) {
	item := Item{Record: rec}
	if rec.Value == nil {
		return item, &InvalidError{Field: "value", Reason: "is null: a tombstone, which deletes and carries no message"}
	}
	var found []foundValue
	if len(x.tree.paths) > 0 {
		r, ok := x.readers.Get().(*valueReader)
		if !ok {
			r = newValueReader(x.tree)
		}
		defer x.readers.Put(r)
		if err := r.read(rec.Value); err != nil {
			return item, &InvalidError{Field: "value", Reason: err.Error()}
		}
		found = r.found
		defer clear(r.found)
	}
	var invalid *InvalidError
	if item.OrderID, invalid = x.orderID(rec, found); invalid != nil {
		return item, invalid
	}
	if item.Time, item.BusinessTime, invalid = x.eventTime(item, found); invalid != nil {
		return item, invalid
	}
	if item.Args, invalid = x.effectArgs(item, found); invalid != nil {
		return item, invalid
	}
	var err error
	if item.Fingerprint, err = x.fingerprint.of(found); err != nil {
		return item, &InvalidError{Field: "value", Reason: "has no fingerprint: " + err.Error(), Err: err}
	}
	return item, nil
}

func (x *Extractor) orderID(rec Record, found []foundValue) (string, *InvalidError) {
	id, reason := x.key.read(rec, found, x.tree)
	if reason == "" && id == "" {
		reason = "is empty"
	}
	if reason != "" {
		return "", &InvalidError{Field: x.key.name, Reason: reason}
	}
	if x.validateKey != nil {
		if err := x.validateKey(id); err != nil {
			return id, &InvalidError{Field: x.key.name, Reason: "is no usable key: " + err.Error(), Err: err}
		}
	}
	return id, nil
}

func (x *Extractor) eventTime(item Item, found []foundValue) (t time.Time, business bool, invalid *InvalidError) {
	if x.time.from != timeFromRecord {
		t, reason := x.time.read(item, found, x.tree, x.loc)
		switch {
		case reason == "":
			return t, true, nil
		case !x.time.fallback:
			return time.Time{}, false, &InvalidError{Field: x.time.name, Reason: reason}
		}
	}
	if !plausibleTime(item.Record.Timestamp) {
		return time.Time{}, false, &InvalidError{Field: "record timestamp", Reason: "is unset, or outside the years 2000 to 2100"}
	}
	return truncateTime(item.Record.Timestamp), false, nil
}

func (x *Extractor) effectArgs(item Item, found []foundValue) (Args, *InvalidError) {
	if len(x.args) == 0 {
		return Args{}, nil
	}
	a := Args{index: x.argIndex, values: make([]any, len(x.args))}
	for i, arg := range x.args {
		if arg.slot < 0 {
			a.values[i] = builtinArg(arg.name, x.bizType, item)
			continue
		}
		v := found[arg.slot]
		value, ok := bindValue(v)
		switch {
		case ok:
			a.values[i] = value
		case v.kind == valueAbsent:
			return Args{}, &InvalidError{Field: arg.name, Reason: explainAbsent(item.Record.Value, x.tree.paths[arg.slot]) + "; the effect needs it"}
		default:
			return Args{}, &InvalidError{Field: arg.name, Reason: "is " + v.kind.describe() + "; an effect takes texts, numbers, booleans and null"}
		}
	}
	return a, nil
}

// headerValue finds the header of a name. Given several times it must say the same each time: two readers of the record
// may take different ones.
func headerValue(rec Record, name string) (value []byte, reason string) {
	found := false
	for _, h := range rec.Headers {
		switch {
		case h.Key != name:
		case !found:
			value, found = h.Value, true
		case !bytes.Equal(value, h.Value) || (value == nil) != (h.Value == nil):
			return nil, "is given twice, with different values"
		}
	}
	switch {
	case !found:
		return nil, "is missing"
	case value == nil:
		return nil, "is null"
	}
	return value, ""
}
