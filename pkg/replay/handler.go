package replay

import (
	"context"
	"time"
)

// Item is a record with what the handler needs of it: the business key, its time, and the values of the effect.
type Item struct {
	Record  Record
	OrderID string
	// Time is the business time, or the record's timestamp where there is none (BusinessTime false). UTC, whole
	// milliseconds: truncated here, never by the server.
	Time         time.Time
	BusinessTime bool
	// Fingerprint of the values that must not change between deliveries; nil where none is configured.
	Fingerprint []byte
	// Args are the effect's values by name.
	Args Args
}

// Handler decides about items and acts on them. Handle returns one verdict per item, in order. An error means that the
// page as a whole could not be decided (a server is away): nothing of it counts. Handle is called for several partitions at
// once, and with the items of one partition in order. Verdicts may end with the first that stops the run.
type Handler interface {
	Handle(ctx context.Context, items []Item) ([]Verdict, error)
}

// Class sorts verdicts by what they mean for a run.
type Class uint8

// The classes.
const (
	Held     Class = iota // the offset may not pass: in_flight, conflict, outside_horizon, phantom, invalid
	Executed              // the effect ran, or would run
	Absorbed              // a duplicate: nothing ran
	Failed                // rolled back; a Stop verdict ends the run
)

// Verdict is what a handler says about one item.
type Verdict struct {
	Outcome string // the word of design: executed, absorbed_filter, …
	Class   Class
	Reason  string // for people, where the word alone does not say it
	// Stop ends the run after this item: a server error, a missing month table.
	Stop error
	// By is the record that executed the key, where the ledger knows it.
	By *Position
	// InRange marks a duplicate of a key that this very range would execute first.
	InRange bool
	// Degraded says that the filter could not be asked.
	Degraded bool
	// RetryAfter is how long the owner of an in_flight key may still hold it.
	RetryAfter time.Duration
}

// OutcomeInvalid is the outcome of a record without a usable key, time or effect value.
const OutcomeInvalid = "invalid"
