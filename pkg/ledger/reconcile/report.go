package reconcile

import (
	"fmt"
	"time"

	"github.com/idemctl/idemctl/pkg/ledger"
)

// Report is what a scan found, a value.
type Report struct {
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished"`
	// LedgerID is empty where a ledger made by someone else has none.
	LedgerID string `json:"ledger_id"`
	// Legacy marks a ledger made by someone else; Untold is what it cannot tell.
	Legacy bool     `json:"legacy,omitempty"`
	Untold []Untold `json:"untold,omitempty"`
	// What was looked at: all, or the part that was asked for.
	BizTypes []string  `json:"biz_types,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	// Sample is the percentage of keys that were looked at; findings are those among them, not projected.
	Sample float64 `json:"sample"`

	Masters []Master `json:"masters"`
	// KeysScanned counts what SCAN returned, KeysChecked what was compared with the ledger, RowsScanned the rows that were read
	// in the other direction.
	KeysScanned int64 `json:"keys_scanned"`
	KeysChecked int64 `json:"keys_checked"`
	RowsScanned int64 `json:"rows_scanned"`
	// Suspects were looked at a second time; Settled of them were something passing.
	Suspects int64 `json:"suspects"`
	Passing  int64 `json:"passing"`

	Findings []Finding `json:"findings"`
	// Complete says that everything that was asked for was looked at; otherwise Gaps say what was not.
	Complete bool  `json:"complete"`
	Gaps     []Gap `json:"gaps,omitempty"`
}

// Master is one Redis server that was scanned.
type Master struct {
	Address string `json:"address"`
	Keys    int64  `json:"keys_scanned"`
}

// Finding is all markers or rows of one kind.
type Finding struct {
	Kind     Kind     `json:"kind"`
	Severity Severity `json:"severity"`
	Count    int64    `json:"count"`
	Means    string   `json:"means"`
	// Repair says what Fix would do; empty: nothing.
	Repair   string    `json:"repair,omitempty"`
	Examples []Example `json:"examples"`
}

// Example is one of them.
type Example struct {
	RedisKey Bytes  `json:"redis_key"`
	BizType  string `json:"biz_type,omitempty"`
	OrderID  Bytes  `json:"order_id,omitempty"`
	Value    Bytes  `json:"value,omitempty"`
	// TTLMS is the time left; -1: no end. It is missing where there is no marker.
	TTLMS *int64 `json:"ttl_ms,omitempty"`
	// Tables are those that have a row.
	Tables []string `json:"tables,omitempty"`
}

// GapCode sorts why something was not looked at.
type GapCode string

// The codes.
const (
	GapTime        GapCode = "time"        // MaxDuration was over
	GapInterrupted GapCode = "interrupted" // the caller gave up
	GapRedis       GapCode = "redis"       // Redis failed
	GapLedger      GapCode = "ledger"      // the ledger failed
	GapTopology    GapCode = "topology"    // slots or masters changed
	GapFlushed     GapCode = "flushed"     // keys were flushed
	GapRestarted   GapCode = "restarted"   // a server was restarted or replaced
	GapUnsettled   GapCode = "unsettled"   // suspects were not looked at a second time
)

// Gap is something that was not looked at, or not as it should be.
type Gap struct {
	Code GapCode `json:"code"`
	Text string  `json:"text"`
}

// Found reports whether there is a finding that is a fault.
func (r *Report) Found() bool {
	for i := range r.Findings {
		if r.Findings[i].Severity != Info {
			return true
		}
	}
	return false
}

// Count is how many there are of a kind.
func (r *Report) Count(k Kind) int64 {
	for i := range r.Findings {
		if r.Findings[i].Kind == k {
			return r.Findings[i].Count
		}
	}
	return 0
}

// unsound returns the first gap that makes what was found itself doubtful: the servers were not the same from beginning to
// end.
func (r *Report) unsound() (Gap, bool) {
	for _, g := range r.Gaps {
		switch g.Code {
		case GapRedis, GapLedger, GapTopology, GapFlushed, GapRestarted:
			return g, true
		case GapTime, GapInterrupted, GapUnsettled:
		}
	}
	return Gap{}, false
}

// tally counts findings by kind and keeps a few examples of each.
type tally struct {
	most   int
	byKind map[Kind]*Finding
}

func newTally(most int) *tally { return &tally{most: most, byKind: map[Kind]*Finding{}} }

func (t *tally) add(k Kind, example func() Example) {
	f := t.byKind[k]
	if f == nil {
		f = &Finding{Kind: k, Severity: k.Severity(), Means: k.Means(), Repair: k.Repair(), Examples: []Example{}}
		t.byKind[k] = f
	}
	f.Count++
	if len(f.Examples) < t.most {
		f.Examples = append(f.Examples, example())
	}
}

// findings are in the order of Kinds.
func (t *tally) findings() []Finding {
	out := []Finding{}
	for _, k := range Kinds() {
		if f := t.byKind[k]; f != nil {
			out = append(out, *f)
		}
	}
	return out
}

func example(name string, key ledger.Key, m *reading, rows []row) Example {
	e := Example{RedisKey: Bytes(name), BizType: key.BizType, OrderID: Bytes(key.OrderID)}
	if m != nil && m.State != ledger.MarkerNone {
		e.Value = Bytes(m.Raw)
		if m.wrongType {
			e.Value = "(another type than string)"
		}
		ms := int64(-1)
		if m.TTL >= 0 {
			ms = m.TTL.Milliseconds()
		}
		e.TTLMS = &ms
	}
	for i := range rows {
		e.Tables = append(e.Tables, rows[i].table)
	}
	return e
}

// Progress is how far a scan or a repair is.
type Progress struct {
	// Phase is "ledger", "redis", "settle", "fix" or "undo".
	Phase string
	Done  int64
	Total int64 // an estimate; 0: not known
}

func gapf(code GapCode, format string, args ...any) Gap {
	return Gap{Code: code, Text: fmt.Sprintf(format, args...)}
}
