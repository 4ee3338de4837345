package replay

import (
	"cmp"
	"slices"
)

// examplesKept is how many records a report shows per outcome.
const examplesKept = 5

// examples keeps, per outcome, the first few records by partition and offset: the same whatever order partitions ran in.
type examples struct {
	byOutcome map[string][]Line
}

func (x *examples) add(l *Line) {
	kept := x.byOutcome[l.Outcome]
	if len(kept) == examplesKept && comparePositions(&l.Position, &kept[examplesKept-1].Position) >= 0 {
		return
	}
	if x.byOutcome == nil {
		x.byOutcome = map[string][]Line{}
	}
	at, _ := slices.BinarySearchFunc(kept, l, func(a Line, b *Line) int { return comparePositions(&a.Position, &b.Position) })
	kept = slices.Insert(kept, at, *l)
	x.byOutcome[l.Outcome] = kept[:min(len(kept), examplesKept)]
}

func comparePositions(a, b *Position) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
}

// lines returns the examples, outcome by outcome in the order of reports.
func (x *examples) lines(t Tally) []Line {
	out := []Line{}
	for _, row := range t.Rows() {
		out = append(out, x.byOutcome[row.Outcome]...)
	}
	return out
}

// finish makes the report of a run that has ended.
func (x *execution) finish() (Report, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	req := &x.plan.Request
	var keys *KeyReport
	if x.keys != nil {
		k, err := x.keys.report(req.TopKeys)
		if err != nil {
			_ = x.end(StopOutput, err, nil, "")
		}
		keys = k
	}
	if x.stop == "" || (x.stop == StopLimit && x.allRead()) {
		// A limit that the last record of the range reaches has left nothing out.
		x.stop, x.reason = StopEnd, ""
	}
	r := Report{
		Topic: req.Topic, BizType: x.opts.BizType, Mode: req.Mode, Range: req.Range.String(), Key: req.Key,
		Pinned: x.plan.Pinned, Started: x.started, Finished: x.opts.Now(),
		Partitions: x.parts, Keys: keys, Stop: x.stop, StoppedAt: x.stoppedAt, StopReason: x.reason,
	}
	r.Total = x.totals()
	r.Examples = x.examples.lines(r.Total.Outcomes)
	if x.stopErr != nil {
		return r, &PartialError{Done: r.Total.Records, Failed: r.Total.Failed, Err: x.stopErr}
	}
	return r, nil
}

func (x *execution) totals() Totals {
	t := Totals{
		Offsets: x.plan.Offsets(), Outcomes: Tally{}, HeldBack: x.plan.HeldBack(), Clipped: x.plan.Clipped(), Retried: x.retried,
		Executed: x.classes[Executed], Absorbed: x.classes[Absorbed], Held: x.classes[Held], Failed: x.classes[Failed],
	}
	for i := range x.parts {
		p := &x.parts[i]
		p.Resume = p.Next
		if first, ok := x.open[p.Partition]; ok {
			p.Resume = min(p.Resume, first)
		}
		t.Records += p.Records
		t.Filtered += p.Filtered
		t.InRange += p.InRange
		t.Degraded += p.Degraded
		for o, n := range p.Outcomes {
			t.Outcomes[o] += n
		}
	}
	return t
}
