package ledger

import (
	"fmt"
	"time"
)

// Outcome is what the guard did with one message.
type Outcome uint8

// The outcomes. Failed is the zero value: whatever goes wrong, nothing passes by accident.
const (
	Failed         Outcome = iota // everything rolled back
	Executed                      // effect and ledger row committed together
	AbsorbedFilter                // Redis says COMPLETED with this ledger's id
	AbsorbedLedger                // the row exists
	InFlight                      // another owner holds the lease, no row
	Conflict                      // same key, other fingerprint
	OutsideHorizon                // no row, and the ledger's memory does not reach back that far
	Invalid                       // no usable key or time
	Phantom                       // COMPLETED in Redis, no row
)

// String is the outcome's word.
func (o Outcome) String() string {
	words := [...]string{"failed", "executed", "absorbed_filter", "absorbed_ledger", "in_flight", "conflict", "outside_horizon", "invalid", "phantom"}
	if int(o) < len(words) {
		return words[o]
	}
	return fmt.Sprintf("outcome(%d)", uint8(o))
}

// MayPass reports whether the offset of a message with this outcome may be committed. One that may not is retried, or
// parked: written to a dead-letter topic and acknowledged there.
func (o Outcome) MayPass() bool { return o == Executed || o == AbsorbedFilter || o == AbsorbedLedger }

// Result is what the guard says about one message.
type Result struct {
	Outcome Outcome
	// Reason says in words why, where the outcome alone does not.
	Reason string
	// Entry is the row that decided, where one was read.
	Entry *Entry
	// Marker is what the filter said, where it was asked.
	Marker Marker
	// RetryAfter is how long the owner of an in-flight key may still hold its lease; 0: not known.
	RetryAfter time.Duration
	// Degraded says that the filter could not be asked: the ledger decided alone.
	Degraded bool
	// Attempts counts the transactions tried.
	Attempts int
	// Err is set if the outcome is Failed, and only then.
	Err error
}
