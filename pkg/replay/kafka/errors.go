package kafka

import (
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemctl/idemctl/pkg/replay"
)

// ErrUnreachable is what every UnreachableError is: no broker answered in time.
var ErrUnreachable = errors.New("kafka is unreachable")

// ErrCorrupt marks a batch that the broker holds and that cannot be read.
var ErrCorrupt = errors.New("corrupt record batch")

// UnreachableError says which brokers were tried, for what, and why it failed. It carries no credentials.
type UnreachableError struct {
	// Brokers are the configured addresses.
	Brokers []string
	// Op is what was being done: "pin the range of orders".
	Op  string
	Err error
}

// Error implements error.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("%s: kafka at %s: %v", e.Op, strings.Join(e.Brokers, ", "), e.Err)
}

// Unwrap gives the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// Is makes every UnreachableError an ErrUnreachable.
func (e *UnreachableError) Is(target error) bool { return target == ErrUnreachable }

// LostError says that the log no longer has the position to go on from: retention or a deletion of records moved its start
// past it, or a change of leader cut its end off. What lies between was never read, so the run must not go on.
type LostError struct {
	Topic     string
	Partition int32
	// Position is the next offset to read.
	Position int64
	// LogStart and HighWatermark are the log's ends now; -1 when they could not be had.
	LogStart      int64
	HighWatermark int64
}

// Error implements error.
func (e *LostError) Error() string {
	return fmt.Sprintf("read %s[%d]: offset %d is gone: the log now starts at %d and ends at %d",
		e.Topic, e.Partition, e.Position, e.LogStart, e.HighWatermark)
}

// RecreatedError says that the topic was deleted and made again after its range was pinned: the same offsets now name other
// records.
type RecreatedError struct{ Topic string }

// Error implements error.
func (e *RecreatedError) Error() string {
	return fmt.Sprintf("read %s: the topic was deleted and made again since its range was pinned", e.Topic)
}

// retriable says whether asking again can help: the connection failed, or the broker says that it may.
func retriable(err error) bool {
	if ke, ok := errors.AsType[*kerr.Error](err); ok {
		return ke.Retriable
	}
	return !errors.Is(err, ErrCorrupt) && !errors.Is(err, kgo.ErrClientClosed)
}

// isDefinite says whether a look-up of a topic failed for good.
func isDefinite(err error) bool {
	if _, ok := errors.AsType[*replay.TopicError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*RecreatedError](err); ok {
		return true
	}
	return !retriable(err)
}
