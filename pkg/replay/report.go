package replay

import (
	"fmt"
	"sort"
	"time"
)

// The outcomes, by the words that reports and listings use.
const (
	OutcomeWouldExecute   = "would_execute"
	OutcomeExecuted       = "executed"
	OutcomeAbsorbedFilter = "absorbed_filter"
	OutcomeAbsorbedLedger = "absorbed_ledger"
	OutcomeInFlight       = "in_flight"
	OutcomeConflict       = "conflict"
	OutcomeOutsideHorizon = "outside_horizon"
	OutcomePhantom        = "phantom"
	OutcomeFailed         = "failed"
)

// Outcomes lists the outcomes in the order in which every report shows them.
func Outcomes() []string {
	return []string{
		OutcomeWouldExecute, OutcomeExecuted, OutcomeAbsorbedFilter, OutcomeAbsorbedLedger, OutcomeInFlight, OutcomeConflict,
		OutcomeOutsideHorizon, OutcomePhantom, OutcomeInvalid, OutcomeFailed,
	}
}

// Tally counts records by outcome.
type Tally map[string]int64

// OutcomeCount is one row of a tally.
type OutcomeCount struct {
	Outcome string `json:"outcome"`
	Count   int64  `json:"count"`
}

// Rows returns the outcomes that occurred, in the order of Outcomes; words that it does not know come last, by name.
func (t Tally) Rows() []OutcomeCount {
	rows := make([]OutcomeCount, 0, len(t))
	known := make(map[string]bool, len(t))
	for _, o := range Outcomes() {
		known[o] = true
		if n := t[o]; n > 0 {
			rows = append(rows, OutcomeCount{Outcome: o, Count: n})
		}
	}
	first := len(rows)
	for o, n := range t {
		if !known[o] && n > 0 {
			rows = append(rows, OutcomeCount{Outcome: o, Count: n})
		}
	}
	rest := rows[first:]
	sort.Slice(rest, func(i, j int) bool { return rest[i].Outcome < rest[j].Outcome })
	return rows
}

// Line is one record and what came of it.
type Line struct {
	Position

	Time    time.Time `json:"time"` // of the record, UTC
	Key     string    `json:"key"`  // the order id; empty where the record has none
	Outcome string    `json:"outcome"`
	Reason  string    `json:"reason,omitempty"`
	// By is the record that executed the key, where it is known.
	By *Position `json:"by,omitempty"`
	// InRange says that By lies in this very range, and has not been executed yet.
	InRange  bool `json:"in_range,omitempty"`
	Degraded bool `json:"degraded,omitempty"`
}

// Stop says why a run ended.
type Stop string

// The reasons for which a run ends.
const (
	StopEnd         Stop = "end"          // the range was read to its pinned end
	StopLimit       Stop = "limit"        // Request.Limit
	StopMaxFailures Stop = "max_failures" // Request.MaxFailures
	StopHandler     Stop = "handler"      // the handler could not go on: a server is away, a month table is missing
	StopSource      Stop = "source"       // the records could not be read
	StopOutput      Stop = "output"       // the listing or the report could not be written
	StopInterrupted Stop = "interrupted"  // the caller's context ended
)

// Finding sorts a report for an exit status.
type Finding string

// The findings.
const (
	FindingClean      Finding = "clean"      // verify: all absorbed; else: all executed or absorbed
	FindingFound      Finding = "found"      // verify only: something other than absorbed
	FindingIncomplete Finding = "incomplete" // not the whole range, or (rehearse, execute) records that may not pass
)

// PartitionReport is what came of one partition.
type PartitionReport struct {
	Bounds

	// Next is the offset to read next; it equals End when the partition was read to its end.
	Next int64 `json:"next"`
	// Records counts the records with an outcome; Filtered those that Request.Key left out.
	Records  int64 `json:"records"`
	Filtered int64 `json:"filtered,omitempty"`
	// Outcomes sum up to Records.
	Outcomes Tally `json:"outcomes"`
	// InRange counts the duplicates of a record that this very range would execute.
	InRange  int64 `json:"in_range,omitempty"`
	Degraded int64 `json:"degraded,omitempty"`
	// Resume is where to go on from: Next, or the first record that is still held by another owner, whichever is less. What
	// is read twice by this is absorbed.
	Resume int64 `json:"resume"`
}

// Done reports whether nothing is left to resume.
func (p *PartitionReport) Done() bool { return p.Resume >= p.wanted() }

// wanted is the end of the range with what an open transaction held back behind the pinned one (hazard R3).
func (p *PartitionReport) wanted() int64 { return p.End + p.HeldBack }

// Report is the result of a run.
type Report struct {
	Topic   string `json:"topic"`
	BizType string `json:"biz_type"`
	Mode    Mode   `json:"mode"`
	Range   string `json:"range"`
	Key     string `json:"key,omitempty"`
	// Pinned is when the ends of the range were taken.
	Pinned     time.Time         `json:"pinned"`
	Started    time.Time         `json:"started"`
	Finished   time.Time         `json:"finished"`
	Partitions []PartitionReport `json:"partitions"`
	Total      Totals            `json:"total"`
	// Examples are, per outcome, the first few records by partition and offset.
	Examples []Line `json:"examples"`
	// Keys is the report per key, where it was asked for.
	Keys *KeyReport `json:"keys,omitempty"`
	Stop Stop       `json:"stop"`
	// StoppedAt is the record that ended the run, where one did; StopReason says it in words.
	StoppedAt  *Position `json:"stopped_at,omitempty"`
	StopReason string    `json:"stop_reason,omitempty"`
}

// Totals sum up the partitions.
type Totals struct {
	Offsets  int64 `json:"offsets"` // in the pinned range
	Records  int64 `json:"records"`
	Filtered int64 `json:"filtered,omitempty"`
	Outcomes Tally `json:"outcomes"`
	// Classes of the outcomes: what they mean for the run.
	Executed int64 `json:"executed"`
	Absorbed int64 `json:"absorbed"`
	Held     int64 `json:"held"`
	Failed   int64 `json:"failed"`
	InRange  int64 `json:"in_range,omitempty"`
	Degraded int64 `json:"degraded,omitempty"`
	HeldBack int64 `json:"held_back,omitempty"`
	Clipped  bool  `json:"clipped,omitempty"`
	// Retried counts the attempts that were made again for records held by another owner.
	Retried int64 `json:"retried,omitempty"`
}

// Complete reports that the whole range was read and nothing of it was held back by an open transaction.
func (r *Report) Complete() bool {
	if r.Stop != StopEnd || r.Total.HeldBack > 0 {
		return false
	}
	for i := range r.Partitions {
		if r.Partitions[i].Next < r.Partitions[i].End {
			return false
		}
	}
	return true
}

// Finding sorts the report. Incomplete comes before found: who has not looked at everything cannot say what is there.
func (r *Report) Finding() Finding {
	switch {
	case !r.Complete():
		return FindingIncomplete
	case r.Mode == ModeVerify && r.Total.Absorbed < r.Total.Records:
		return FindingFound
	case r.Total.Held > 0 || r.Total.Failed > 0:
		return FindingIncomplete
	}
	return FindingClean
}

// ResumeRange is what is left of one partition, in the range syntax.
type ResumeRange struct {
	Partition int32  `json:"partition"`
	Range     string `json:"range"` // N:M
}

// String is the flags that ask for it.
func (r ResumeRange) String() string { return fmt.Sprintf("-p %d --range %s", r.Partition, r.Range) }

// Resume returns what is left of each partition that is not done: a run over these ranges loses no record. Offsets that an
// open transaction held back are part of it.
func (r *Report) Resume() []ResumeRange {
	var left []ResumeRange
	for i := range r.Partitions {
		if p := &r.Partitions[i]; !p.Done() {
			left = append(left, ResumeRange{Partition: p.Partition, Range: fmt.Sprintf("%d:%d", p.Resume, p.wanted())})
		}
	}
	return left
}
