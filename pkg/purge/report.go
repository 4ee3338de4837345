package purge

import (
	"time"

	"github.com/idemctl/idemctl/pkg/partition"
)

// Ended says why a run ended.
type Ended string

// The reasons.
const (
	EndedDone        Ended = "done"
	EndedDeferred    Ended = "deferred" // all was tried; some of it was put off, each with its reason
	EndedMaxRows     Ended = "max_rows"
	EndedRunTime     Ended = "run_time"
	EndedStopFile    Ended = "stop_file"
	EndedInterrupted Ended = "interrupted"
	EndedLockLost    Ended = "lock_lost"
	EndedFailed      Ended = "failed"
)

// Complete reports that everything planned was done.
func (e Ended) Complete() bool { return e == EndedDone }

// Outcome is what became of one table.
type Outcome string

// The outcomes.
const (
	OutcomeKept       Outcome = "kept"       // nothing in it was to go
	OutcomePurged     Outcome = "purged"     // its expired rows are gone
	OutcomeDropped    Outcome = "dropped"    // it is gone
	OutcomeGone       Outcome = "gone"       // it was gone already: a run that broke off had dropped it
	OutcomeDeferred   Outcome = "deferred"   // put off, for the reason given
	OutcomeUnfinished Outcome = "unfinished" // the run ended before, or in the middle
)

// Report says what a run did. It is complete also when Run returns an error.
type Report struct {
	Run    string    `json:"run"`
	Prefix string    `json:"prefix"`
	Cutoff time.Time `json:"cutoff"`
	// Deleted counts rows deleted one by one, DroppedRows those that went with their month.
	Deleted     int64 `json:"deleted"`
	DroppedRows int64 `json:"dropped_rows"`
	// Skipped counts rows that were read as expired and were not any more when they were to be deleted (hazard P5).
	Skipped int64         `json:"skipped"`
	Months  []MonthReport `json:"months"`
	// Horizon has each biz_type whose horizon this run raised.
	Horizon []HorizonChange `json:"horizon"`
	// LagWaits counts how often the run waited for a replica, LagWaited for how long.
	LagWaits      int64         `json:"lag_waits"`
	LagWaited     time.Duration `json:"lag_waited_ns"`
	Elapsed       time.Duration `json:"elapsed_ns"`
	RowsPerSecond float64       `json:"rows_per_second"`
	Ended         Ended         `json:"ended"`
}

// MonthReport says what became of one table.
type MonthReport struct {
	Table   partition.Table `json:"table"`
	Action  Action          `json:"action"`
	Outcome Outcome         `json:"outcome"`
	// Planned is the plan's count; Dropped is the rows that went with the table.
	Planned int64          `json:"planned"`
	Deleted int64          `json:"deleted"`
	Skipped int64          `json:"skipped"`
	Dropped int64          `json:"dropped"`
	Odd     int64          `json:"created_after_cutoff"`
	Windows []WindowReport `json:"windows"`
	// Reason says why it was deferred.
	Reason string `json:"reason,omitempty"`
	// HeldAs is the name under which the table waits for the next run.
	HeldAs string `json:"held_as,omitempty"`
	// Archive is the file that has its rows.
	Archive     string `json:"archive,omitempty"`
	ArchiveRows int64  `json:"archive_rows,omitempty"`
}

// WindowReport says what became of one window.
type WindowReport struct {
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	Planned int64     `json:"planned"`
	Deleted int64     `json:"deleted"`
	Skipped int64     `json:"skipped"`
}

// Dropped lists the tables that were dropped.
func (r *Report) Dropped() []string {
	var names []string
	for _, m := range r.Months {
		if m.Outcome == OutcomeDropped {
			names = append(names, m.Table.Name)
		}
	}
	return names
}

// Deferred lists the months that were put off.
func (r *Report) Deferred() []MonthReport {
	var months []MonthReport
	for _, m := range r.Months {
		if m.Outcome == OutcomeDeferred {
			months = append(months, m)
		}
	}
	return months
}
