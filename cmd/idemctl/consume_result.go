package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/idemctl/idemctl/internal/render"
	"github.com/idemctl/idemctl/pkg/replay"
)

// consumeResult is what a consumer did.
type consumeResult struct {
	Topic    string                  `json:"topic"`
	Group    string                  `json:"group"`
	Handlers map[string]replay.Tally `json:"handlers"` // records that passed, by handler and outcome
	Parked   int64                   `json:"parked"`
	Held     map[string]int64        `json:"held"` // records that had been tried and had not passed when it stopped, by outcome
	Retries  int64                   `json:"retries"`
	Degraded int64                   `json:"degraded"`
	// The first few of each, for whoever has to look.
	ParkedRecords []heldRecord `json:"parked_records,omitempty"`
	HeldRecords   []heldRecord `json:"held_records,omitempty"`
	// Shared is the range that processes share; nil: a topic was consumed.
	Shared *sharedRange `json:"shared,omitempty"`
}

// result is a copy of the counts.
func (m *consumeMonitor) result() *consumeResult {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.counts
	r.Held = map[string]int64{}
	for _, h := range m.held {
		r.Held[h.Outcome]++
		r.HeldRecords = append(r.HeldRecords, h)
	}
	slices.SortFunc(r.HeldRecords, func(a, b heldRecord) int {
		return cmp.Or(cmp.Compare(a.at.Partition, b.at.Partition), cmp.Compare(a.at.Offset, b.at.Offset), cmp.Compare(a.Handler, b.Handler))
	})
	r.HeldRecords = r.HeldRecords[:min(len(r.HeldRecords), consumeExamples)]
	return &r
}

// complete reports that every record was executed or absorbed, and of a shared range that nothing of it is left.
func (r *consumeResult) complete() bool {
	return r.Parked == 0 && len(r.Held) == 0 && (r.Shared == nil || r.Shared.Done && r.Shared.HeldBack == 0)
}

// counts are what is recorded of the run.
func (r *consumeResult) counts() any {
	all := replay.Tally{}
	for _, tally := range r.Handlers {
		for outcome, n := range tally {
			all[outcome] += n
		}
	}
	all["parked"], all["held"], all["retries"], all["degraded"] = r.Parked, sum(r.Held), r.Retries, r.Degraded
	return all
}

func sum(m map[string]int64) int64 {
	var n int64
	for _, v := range m {
		n += v
	}
	return n
}

func (r *consumeResult) render() render.Result {
	t := render.Table{Columns: []render.Column{
		{Name: "handler", Once: true}, {Name: "outcome"}, {Name: "records", Align: render.Right, Number: true}, {Name: "meaning", Shrink: true},
	}}
	for _, name := range sortedKeys(r.Handlers) {
		for _, o := range r.Handlers[name].Rows() {
			t.Add(name, o.Outcome, strconv.FormatInt(o.Count, 10), meaning(o.Outcome))
		}
	}
	out := render.Result{Value: r, Tables: []render.Table{t}, Lines: []any{r}}
	if len(r.Handlers) == 0 {
		out.Tables = nil
		out.Notes = append(out.Notes, "No record was consumed here.")
	}
	if r.Shared != nil {
		out.Notes = append(out.Notes, r.Shared.notes(r.Topic, r.Group)...)
	}
	if r.Parked > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("Parked as dead letters: %d. For example:", r.Parked))
		out.Notes = append(out.Notes, recordNotes(r.ParkedRecords)...)
	}
	if len(r.Held) > 0 {
		var parts []string
		for _, outcome := range sortedKeys(r.Held) {
			parts = append(parts, fmt.Sprintf("%d %s", r.Held[outcome], outcome))
		}
		out.Notes = append(out.Notes, wrap("Held back when it stopped, not committed: "+strings.Join(parts, ", ")+". For example:", render.DefaultWidth))
		out.Notes = append(out.Notes, recordNotes(r.HeldRecords)...)
	}
	if r.Degraded > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("Decided by the ledger alone, since Redis did not answer: %d.", r.Degraded))
	}
	return out
}

// recordNotes name records, with the whole reason: it is what whoever looks has come for.
func recordNotes(records []heldRecord) []string {
	const indent = "    "
	notes := make([]string, 0, len(records))
	for i := range records {
		h := &records[i]
		line := "  " + offsetOf(&h.at) + " " + h.Handler + " " + h.Outcome
		if h.Reason != "" {
			line += ":\n" + indent + strings.ReplaceAll(wrap(render.Text(h.Reason), render.DefaultWidth-len(indent)), "\n", "\n"+indent)
		}
		notes = append(notes, line)
	}
	return notes
}
