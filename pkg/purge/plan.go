package purge

import (
	"time"

	"github.com/idemctl/idemctl/pkg/partition"
)

// Action is what a plan does with one table.
type Action string

// The actions.
const (
	ActionRows   Action = "rows"   // delete its expired rows, window by window
	ActionDrop   Action = "drop"   // every row is expired: rename, hold, check again, archive, compare, drop
	ActionFinish Action = "finish" // a run that broke off left it renamed: check again, then drop or put back
	ActionKeep   Action = "keep"   // nothing in it goes
)

// Plan is what a run does: the value that is shown is the value that is executed (invariant 11).
type Plan struct {
	// Now is the database's clock, read once; Cutoff is it, or the earlier time asked for. A row goes when it expired before
	// Cutoff and was created at or before it.
	Now    time.Time `json:"now"`
	Cutoff time.Time `json:"cutoff"`
	// Rehearsal marks a plan for another time than the database's now. Run refuses it.
	Rehearsal  bool   `json:"rehearsal"`
	Prefix     string `json:"prefix"`
	Generation int64  `json:"generation"` // of the catalog that was planned on
	WindowDays int    `json:"window_days"`
	// Months are the ledger's tables, oldest first, also those of which nothing goes.
	Months []MonthPlan `json:"months"`
	// Horizon says, for each biz_type that loses rows, up to when the ledger's memory will not be complete any more.
	Horizon []HorizonChange `json:"horizon"`
	Rows    int64           `json:"rows"` // that go, all together
	// Legacy marks a ledger made by someone else, described by a column map: its rows are deleted, its tables never dropped.
	Legacy bool `json:"legacy,omitempty"`
	// RowsOnly says that no month is to be dropped.
	RowsOnly bool `json:"rows_only,omitempty"`

	scheme    partition.Scheme
	zone      *time.Location
	retention time.Duration // of a ledger without an expiry column
	catalog   bool          // there is one, and it keeps the horizon
}

// MonthPlan is what happens to one table.
type MonthPlan struct {
	Table  partition.Table `json:"table"`
	Action Action          `json:"action"`
	Rows   int64           `json:"rows"` // that go
	Kept   int64           `json:"kept"` // that stay: not expired; the server's estimate where nothing goes
	// Odd counts rows that are past their expiry although they were created after the cutoff, and rows that were created after
	// the database's now: they are reported and never touched (hazard P18).
	Odd     int64    `json:"created_after_cutoff"`
	Bytes   int64    `json:"bytes"` // the table's size by the server's estimate
	Windows []Window `json:"windows"`
	// PutBack says that a table that was left renamed gets its name back, since not all of it goes; then its expired rows go.
	PutBack bool `json:"put_back,omitempty"`
	// Note says what is wrong with the table, if anything is.
	Note string `json:"note,omitempty"`
}

// Window is a slice of a table by expiry, [From, To).
type Window struct {
	From time.Time   `json:"from"`
	To   time.Time   `json:"to"`
	Rows int64       `json:"rows"`
	Biz  []BizWindow `json:"biz_types"`
}

// BizWindow is one biz_type's part of a window.
type BizWindow struct {
	BizType   string    `json:"biz_type"`
	Rows      int64     `json:"rows"`
	MaxCreate time.Time `json:"max_create_time"` // the horizon when they are gone
}

// HorizonChange is what the plan does to one biz_type's horizon.
type HorizonChange struct {
	BizType string    `json:"biz_type"`
	Before  time.Time `json:"before,omitzero"`
	After   time.Time `json:"after"`
}
