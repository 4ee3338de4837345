package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idemctl/idemctl/pkg/partition"
)

// Errors that hold a consumer: the message is neither done nor to be parked.
var (
	// ErrMonthMissing says that the ledger has no table for the message's month, though it should.
	ErrMonthMissing = errors.New("month table is missing")
	// ErrCommitUnknown says that a COMMIT was not answered and could not be settled in time. The key is exact all the same:
	// its next delivery finds out.
	ErrCommitUnknown = errors.New("COMMIT was not answered, and the ledger could not be asked what became of it")
	// ErrNotDuplicate says that the ledger's INSERT failed with a duplicate-key error although the key is not there: another
	// unique key, a trigger or a lax collation raised it.
	ErrNotDuplicate = errors.New("duplicate-key error for a key that is not in the ledger")
	// ErrTimeZone says that the guard and the catalog disagree about month boundaries.
	ErrTimeZone = errors.New("the ledger has another time zone")
)

// Policy says what a guard does with a message that it could run but cannot prove new.
type Policy uint8

// The policies.
const (
	Hold Policy = iota // report it, run nothing
	Run                // run it all the same: the unique key still holds
)

// Step names a point of a claim's way, for OnStep.
type Step string

// The steps, in order. Each is reported after it has happened.
const (
	StepStart     Step = "start"     // nothing yet
	StepLeased    Step = "leased"    // SET NX answered
	StepInserted  Step = "inserted"  // ledger row inserted, not committed
	StepProbed    Step = "probed"    // the other months looked at
	StepConfirmed Step = "confirmed" // the generation is still the one in hand
	StepEffect    Step = "effect"    // the effect has returned
	StepCommitted Step = "committed" // COMMIT answered
	StepMarked    Step = "marked"    // COMPLETED written
)

// GuardOptions shape a Guard.
type GuardOptions struct {
	Store *Store
	// Filter may be nil: the ledger alone decides then.
	Filter  *Filter
	BizType string
	// Zone is that of month boundaries; it must be the catalog's.
	Zone *time.Location
	// Retention is how long an entry is kept.
	Retention time.Duration
	// Slack is added to the horizon: clocks differ. 0 means 5 minutes.
	Slack time.Duration
	// MemorySince is the operator's word that no unguarded consumer ran this effect from then on; read at the first claim.
	MemorySince time.Time
	// AlwaysLook asks the ledger even where this ledger's own COMPLETED would do.
	AlwaysLook bool
	// Phantom says what to do with a COMPLETED marker that has no row, BeyondHorizon with a message that is older than the
	// ledger's memory.
	Phantom       Policy
	BeyondHorizon Policy
	// Attempts bounds the transactions of one message; 0 means 10.
	Attempts int
	// SettleTimeout bounds the questions after a COMMIT without an answer; 0 means 30 s.
	SettleTimeout time.Duration
	// Now is this machine's clock; nil means time.Now. It never decides about duplicates.
	Now func() time.Time
	// Logger may be nil.
	Logger *slog.Logger
	// OnStep is called after each step; a test or a drill can stop a claim there. nil: nobody looks.
	OnStep func(ctx context.Context, s Step, m Message)
}

// Guard runs effects once per key. It is safe for concurrent use.
type Guard struct {
	opts GuardOptions
	// sequence is what a claim does inside its transaction before the effect; the order is invariant 8.
	sequence []claimStep

	snap atomic.Pointer[snapshot] // the catalog in hand

	mu        sync.Mutex
	sightings map[string]sighting // PROCESSING markers without a TTL, and since when they were seen
	filled    map[string]bool     // tables that have been seen to have rows

	shareNoWait string // the server's clause
	// expectMarkers and expectRows remember whether the last batch was mostly duplicates that Redis knew, or only the ledger.
	expectMarkers, expectRows atomic.Bool
	known                     atomic.Pointer[knownKeys] // nil unless Preload was called
}

// NewGuard validates the options, and refuses a server, a session, a catalog or a month table that cannot keep the
// invariants. On the store of a ledger made by someone else it makes a guard for Classify alone (ErrLegacy); of its tables it
// asks no more than the columns of the map (ErrColumnMap).
func NewGuard(ctx context.Context, opts GuardOptions) (*Guard, error) {
	if err := ValidateBizType(opts.BizType); err != nil {
		return nil, err
	}
	switch {
	case opts.Store == nil:
		return nil, errors.New("guard: no store")
	case opts.Zone == nil:
		return nil, errors.New("guard: no time zone")
	case opts.Retention < 24*time.Hour:
		return nil, fmt.Errorf("guard: retention %v: expected at least 24h", opts.Retention)
	case opts.Slack < 0:
		return nil, fmt.Errorf("guard: slack %v: expected 0 or more", opts.Slack)
	}
	if opts.Slack == 0 {
		opts.Slack = 5 * time.Minute
	}
	if opts.Attempts == 0 {
		opts.Attempts = 10
	}
	if opts.SettleTimeout == 0 {
		opts.SettleTimeout = 30 * time.Second
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	g := &Guard{opts: opts, sequence: []claimStep{stepInsert, stepProbe, stepConfirm}, sightings: map[string]sighting{}, filled: map[string]bool{}}
	server, err := opts.Store.verify(ctx)
	if err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	g.shareNoWait = server.ShareNoWait()
	if !opts.Store.Legacy() {
		if err := opts.Store.verifySight(ctx, server); err != nil {
			return nil, fmt.Errorf("guard: %w", err)
		}
	}
	if err := g.reload(ctx); err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	return g, nil
}

// Do runs the effect for a message, unless its key has had its effect. The error is the result's: nil unless the outcome is
// Failed. It is an *EffectError, or an error of a server or of the set-up, after which nothing may be acknowledged.
func (g *Guard) Do(ctx context.Context, m Message, effect Effect) (Result, error) {
	res := g.DoBatch(ctx, []Message{m}, effect.alone())[0]
	return res, res.Err
}

// Rehearse does all that Do does, and rolls it back. Redis is only read.
func (g *Guard) Rehearse(ctx context.Context, m Message, effect Effect) (Result, error) {
	res := g.RehearseBatch(ctx, []Message{m}, effect.alone())[0]
	return res, res.Err
}

// refuse answers for a message that no ledger can hold.
func (g *Guard) refuse(m *Message) (Result, bool) {
	err := ValidateOrderID(m.Key.OrderID)
	switch {
	case err != nil:
	case m.Key.BizType != g.opts.BizType:
		err = fmt.Errorf("biz_type %q: this guard keeps %s", m.Key.BizType, g.opts.BizType)
	case m.Time.Year() < 2000 || m.Time.Year() > 2100:
		err = fmt.Errorf("time %s: expected the years 2000 to 2100", m.Time.UTC().Format(time.RFC3339))
	case len(m.Fingerprint) != 0 && len(m.Fingerprint) != fingerprintLen:
		err = fmt.Errorf("fingerprint has %d bytes, not %d", len(m.Fingerprint), fingerprintLen)
	default:
		return Result{}, false
	}
	return Result{Outcome: Invalid, Reason: err.Error()}, true
}

// horizonReason says in words why a message cannot be proved new.
func horizonReason(m *Message, s *snapshot) string {
	return fmt.Sprintf("time %s is not after %s, from when on the ledger remembers every %s",
		stamp(m.Time), stamp(s.edge), m.Key.BizType)
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// month is the home month of a message.
func (g *Guard) month(m *Message) partition.Month { return partition.MonthOf(m.Time, g.opts.Zone) }
