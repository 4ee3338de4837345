package replay

import (
	"fmt"
	"strconv"
	"strings"
)

// RangeSyntaxError says that a text is not a range. It is an error of usage: nothing was asked of any server.
type RangeSyntaxError struct {
	Input string // as it was given
	Why   string // what is wrong with it, in words
}

func (e *RangeSyntaxError) Error() string {
	return fmt.Sprintf("range %q: %s; accepted: %s", e.Input, e.Why, rangeForms)
}

// OutsideError says that an offset asked for does not exist in one partition.
type OutsideError struct {
	Partition int32
	// Asked is the offset that was asked for.
	Asked int64
	// LogStart and HighWatermark are the partition's ends: offsets LogStart ≤ n < HighWatermark exist.
	LogStart, HighWatermark int64
}

func (e *OutsideError) Error() string {
	return fmt.Sprintf("partition %d: offset %d asked for, %s", e.Partition, e.Asked, describeLog(e.LogStart, e.HighWatermark))
}

// describeLog says in words which offsets a partition has.
func describeLog(start, high int64) string {
	if start >= high {
		return fmt.Sprintf("it is empty (next offset %d)", high)
	}
	return fmt.Sprintf("it has %d to %d", start, high-1)
}

// RangeError says that a range asks for offsets that some of the partitions lack, so that running it would replay something
// else than was asked for. Each of Outside is reachable through errors.As.
type RangeError struct {
	Topic   string
	Range   Range
	Outside []*OutsideError // in order of partition, never empty
}

func (e *RangeError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "range %s of topic %q is outside the log of ", e.Range, e.Topic)
	if len(e.Outside) == 1 {
		b.WriteString("1 partition: ")
	} else {
		fmt.Fprintf(&b, "%d partitions: ", len(e.Outside))
	}
	for i, o := range e.Outside {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(o.Error())
	}
	return b.String()
}

// Unwrap gives the partitions' own errors.
func (e *RangeError) Unwrap() []error {
	errs := make([]error, len(e.Outside))
	for i, o := range e.Outside {
		errs[i] = o
	}
	return errs
}

// TopicError says that a topic, or partitions of it, do not exist in a source.
type TopicError struct {
	Topic string
	// Missing are the partitions asked for that do not exist; empty: the topic itself does not.
	Missing []int32
	// Partitions are those that the topic has, in order.
	Partitions []int32
	// Where names the source in words ("the cluster", the file); may be empty.
	Where string
}

func (e *TopicError) Error() string {
	where := ""
	if e.Where != "" {
		where = " in " + e.Where
	}
	if len(e.Missing) == 0 {
		return fmt.Sprintf("topic %q does not exist%s", e.Topic, where)
	}
	noun := "partition"
	if len(e.Missing) > 1 {
		noun = "partitions"
	}
	return fmt.Sprintf("topic %q has no %s %s%s (it has %s)", e.Topic, noun, joinPartitions(e.Missing), where, joinPartitions(e.Partitions))
}

func joinPartitions(ps []int32) string {
	if len(ps) == 0 {
		return "none"
	}
	texts := make([]string, len(ps))
	for i, p := range ps {
		texts[i] = strconv.Itoa(int(p))
	}
	return strings.Join(texts, ", ")
}

// InvalidError says why a record cannot be decided about: no usable key or time, an effect value that is missing, a value
// that is not what it should be. The record is to be set aside, never executed, and the run goes on.
type InvalidError struct {
	// Field is what was being read: a path as configured, "key", "header:NAME", "value", "record timestamp".
	Field string
	// Reason says what is wrong with it, as the rest of a sentence that starts with the field ("is missing"); bytes of the
	// message in it are quoted.
	Reason string
	// Err is the cause, where it is an error of its own (that of ValidateKey); may be nil.
	Err error
}

func (e *InvalidError) Error() string { return e.Field + " " + e.Reason }

// Unwrap gives the cause, if there is one.
func (e *InvalidError) Unwrap() error { return e.Err }

// quoteShort quotes bytes of a message for an error text: no control byte gets out, and no more than 64 bytes are shown.
func quoteShort[T ~string | ~[]byte](b T) string {
	const most = 64
	if len(b) <= most {
		return strconv.Quote(string(b))
	}
	return strconv.Quote(string(b[:most])) + "…"
}
