package purge

import (
	"context"
	"fmt"
	"time"
)

// Defaults of RunOptions.
const (
	DefaultBatch = 1000
	DefaultHold  = time.Minute
)

// Limits of RunOptions.
const (
	MaxBatch    = 20_000 // the longest keys, each byte escaped, stay within the 16 MB that a MariaDB server reads
	MaxParallel = 6      // each needs two connections of a pool that mysqlx.Open bounds at 16, and the run some more
	lagPoll     = time.Second
)

// RunOptions shape a run. The zero value deletes without a pause, without a limit and without an archive.
type RunOptions struct {
	// Batch is the most rows that one DELETE names; 0: DefaultBatch. Fewer are taken while a statement takes longer than
	// about 200 ms.
	Batch int
	// Pause is waited after each DELETE, a quarter more or less.
	Pause time.Duration
	// MaxRows ends the run after so many rows; 0: no limit. A month that holds more than what is left of it is not dropped:
	// its rows are deleted up to the limit.
	MaxRows int64
	// RunTime ends the run; 0: no limit. A statement that has begun is not cut short.
	RunTime time.Duration
	// Stop is asked before each step and while waiting; true ends the run. Nil: never.
	Stop func() bool
	// Lag says how far a replica is behind. Above MaxLag, or not known, the run waits (hazard P12). Nil: not asked.
	Lag    func(ctx context.Context) (lag time.Duration, known bool, err error)
	MaxLag time.Duration
	// LagPoll is how often Lag is asked at most; 0: every second.
	LagPoll time.Duration
	// Hold is how long a renamed month waits for late rows before it is checked again; 0: DefaultHold, negative: not at all.
	Hold time.Duration
	// Parallel is how many DELETEs run at once, in as many months, or over several connections in one; 0: one. Whole months are
	// held and dropped one at a time whatever it is.
	Parallel int
	// Archive is where rows are written before they go; nil: nowhere. Run, and what is of one month, is filled in.
	Archive *ArchiveOptions
	// Run names this run in the names of held tables and archives: 8 hexadecimal digits; empty: a random one.
	Run string
	// Progress is told how far the run is. Calls never overlap.
	Progress func(Progress)
	// OnStep is called after each step; for tests, which may panic in it or break the connection. Calls may overlap where
	// Parallel is above one.
	OnStep func(Step)
	// Now is the clock of RunTime and of rates; nil: time.Now. What goes is decided by the database's clock alone.
	Now func() time.Time
}

// Progress is how far a run is.
type Progress struct {
	Table string
	Phase Phase
	// Done of Rows: those gone, deleted or dropped, and those that were to go.
	Done, Rows int64
	// Waiting says for what the run waits; empty: it works.
	Waiting string
}

// Phase is what a run does with a table.
type Phase string

// The phases.
const (
	PhaseArchive Phase = "archive"
	PhaseRows    Phase = "rows"
	PhaseHold    Phase = "hold"
	PhaseCheck   Phase = "check"
	PhaseDrop    Phase = "drop"
)

// Step is something that has just been done.
type Step struct {
	Name  StepName
	Table string
	Rows  int64 // of this step
}

// StepName names a step.
type StepName string

// The steps.
const (
	StepLocked   StepName = "locked"   // the run holds its lock
	StepHorizon  StepName = "horizon"  // the horizon of what goes next is committed
	StepSelected StepName = "selected" // victims are read, none of them is deleted yet
	StepDeleted  StepName = "deleted"
	StepArchived StepName = "archived" // the archive is durable and verified
	StepHeld     StepName = "held"     // a month is renamed
	StepWaiting  StepName = "waiting"  // one look while waiting: for the hold, a pause or a replica
	StepChecked  StepName = "checked"  // a held month is what was planned
	StepDropped  StepName = "dropped"
	StepPutBack  StepName = "put_back"
)

func (o RunOptions) now() time.Time {
	if o.Now == nil {
		return time.Now()
	}
	return o.Now()
}

// withDefaults fills in what is not set and refuses what makes no sense.
func (o RunOptions) withDefaults() (RunOptions, error) {
	switch {
	case o.Batch < 0 || o.Batch > MaxBatch:
		return o, fmt.Errorf("%w: batch %d: expected 1 to %d", ErrOptions, o.Batch, MaxBatch)
	case o.Pause < 0:
		return o, fmt.Errorf("%w: pause %s: expected 0 or more", ErrOptions, o.Pause)
	case o.MaxRows < 0:
		return o, fmt.Errorf("%w: max rows %d: expected 0 or more", ErrOptions, o.MaxRows)
	case o.RunTime < 0:
		return o, fmt.Errorf("%w: run time %s: expected 0 or more", ErrOptions, o.RunTime)
	case o.MaxLag < 0 || o.LagPoll < 0:
		return o, fmt.Errorf("%w: lag %s: expected 0 or more", ErrOptions, min(o.MaxLag, o.LagPoll))
	case o.Parallel < 0 || o.Parallel > MaxParallel:
		return o, fmt.Errorf("%w: parallel %d: expected 1 to %d", ErrOptions, o.Parallel, MaxParallel)
	}
	if o.Batch == 0 {
		o.Batch = DefaultBatch
	}
	if o.Hold == 0 {
		o.Hold = DefaultHold
	}
	if o.LagPoll == 0 {
		o.LagPoll = lagPoll
	}
	o.Parallel = max(o.Parallel, 1)
	if o.Stop == nil {
		o.Stop = func() bool { return false }
	}
	if o.OnStep == nil {
		o.OnStep = func(Step) {}
	}
	if o.Run == "" {
		run, err := newRun()
		if err != nil {
			return o, err
		}
		o.Run = run
	}
	if !runForm(o.Run) {
		return o, fmt.Errorf("%w: run %q: expected 8 hexadecimal digits", ErrOptions, o.Run)
	}
	return o, nil
}
