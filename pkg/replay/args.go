package replay

import (
	"strconv"
)

// The built-in names of an effect's values: what the extractor knows of the record and its key. A member of the message
// that has one of these six names cannot be reached by a plain name; any other name, also one that begins with an
// underscore, is a path into the message.
const (
	ArgOrderID   = "_order_id"   // string: the order id, byte-exact
	ArgBizType   = "_biz_type"   // string
	ArgEventTime = "_event_time" // time.Time: Item.Time, UTC, whole milliseconds
	ArgTopic     = "_topic"      // string
	ArgPartition = "_partition"  // int64
	ArgOffset    = "_offset"     // int64
)

// Args are the values of an effect's parameters for one message, by name. The zero Args has none. It is read-only and may be
// shared.
type Args struct {
	index  map[string]int // shared by all messages of an extractor
	values []any
}

// NewArgs makes Args from values; for handlers and tests that have no extractor.
func NewArgs(values map[string]any) Args {
	a := Args{index: make(map[string]int, len(values)), values: make([]any, 0, len(values))}
	for name, v := range values {
		a.index[name] = len(a.values)
		a.values = append(a.values, v)
	}
	return a
}

// Value gives the value to bind for name, and whether the effect has such a parameter. It is one of
//
//	string     a text; or a number that is not a whole one within 64 bits, as its digits: exact for a DECIMAL column
//	int64      a whole number that fits
//	uint64     a greater one that fits
//	bool
//	nil        JSON null
//	time.Time  _event_time
func (a Args) Value(name string) (any, bool) {
	i, ok := a.index[name]
	if !ok || i >= len(a.values) {
		return nil, false
	}
	return a.values[i], true
}

// Len is the number of values.
func (a Args) Len() int { return len(a.values) }

// isBuiltinArg reports whether name is filled from the record and its key.
func isBuiltinArg(name string) bool {
	switch name {
	case ArgOrderID, ArgBizType, ArgEventTime, ArgTopic, ArgPartition, ArgOffset:
		return true
	default:
		return false
	}
}

// builtinArg is the value of a built-in name.
func builtinArg(name, bizType string, item Item) any {
	switch name {
	case ArgOrderID:
		return item.OrderID
	case ArgBizType:
		return bizType
	case ArgEventTime:
		return item.Time
	case ArgTopic:
		return item.Record.Topic
	case ArgPartition:
		return int64(item.Record.Partition)
	default:
		return item.Record.Offset
	}
}

// bindValue turns a found JSON value into what is bound. An object or array has no one column to go to and is refused,
// so that a path that stops short is noticed on the first message and not in a table full of JSON text.
func bindValue(v foundValue) (value any, ok bool) {
	switch v.kind {
	case valueNull:
		return nil, true
	case valueBool:
		return len(v.raw) == len("true"), true
	case valueString:
		return string(v.text()), true
	case valueNumber:
		return bindNumber(string(v.raw)), true
	case valueAbsent, valueArray, valueObject:
	}
	return nil, false
}

// bindNumber never goes through a float: what a float cannot hold would be changed on the way.
func bindNumber(digits string) any {
	if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
		return n
	}
	if n, err := strconv.ParseUint(digits, 10, 64); err == nil {
		return n
	}
	return digits
}
