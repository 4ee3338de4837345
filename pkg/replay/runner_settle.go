package replay

import (
	"context"
	"fmt"
)

// settle counts a page's entries in order. A verdict that stops the run is counted once and stays the partition's next: a
// resumed run begins there. What the handler has done after it in the page is counted all the same, since it is done. mu is
// held.
func (x *execution) settle(ctx context.Context, p *PartitionReport, entries []entry) error {
	var stopped *entry
	for i := range entries {
		e := &entries[i]
		switch {
		case e.verdict.Stop != nil:
			if stopped == nil {
				stopped = e
			}
			continue
		case stopped != nil && (e.verdict.Outcome == "" || e.decided):
			continue // nobody has looked at it, or it was decided without the handler: the resumed run reads it again
		case x.postpone(e):
		default:
			if err := x.account(p, &e.item, e.verdict); err != nil {
				return err
			}
		}
		if stopped == nil {
			p.Next = max(p.Next, e.item.Record.Offset+1)
		}
	}
	if stopped != nil {
		return x.settleStop(ctx, p, stopped)
	}
	return nil
}

func (x *execution) settleStop(ctx context.Context, p *PartitionReport, e *entry) error {
	x.keepOpen(p, e.item.Record.Offset)
	if ctx.Err() != nil {
		// The handler gave up because it was told to: this record was not looked at to the end.
		return x.end(StopInterrupted, interruption(ctx), nil, "interrupted")
	}
	if err := x.account(p, &e.item, e.verdict); err != nil {
		return err
	}
	at := position(&e.item.Record)
	return x.end(StopHandler, fmt.Errorf("record %s: %w", at, e.verdict.Stop), at, e.verdict.Reason)
}

// keepOpen makes a resumed run begin at offset at the latest.
func (x *execution) keepOpen(p *PartitionReport, offset int64) {
	if first, ok := x.open[p.Partition]; !ok || offset < first {
		x.open[p.Partition] = offset
	}
}

// account gives a record its final outcome: totals, listing, examples, the report per key. mu is held.
func (x *execution) account(p *PartitionReport, item *Item, v Verdict) error {
	v, err := x.judge(item, v)
	if err != nil {
		return x.end(StopOutput, err, nil, "")
	}
	p.Records++
	p.Outcomes[v.Outcome]++
	x.records++
	x.classes[v.Class&3]++
	if v.InRange {
		p.InRange++
	}
	if v.Degraded {
		p.Degraded++
	}
	if v.Outcome == OutcomeInFlight {
		x.keepOpen(p, item.Record.Offset)
	}
	line := Line{
		Position: *position(&item.Record), Time: item.Record.Timestamp, Key: item.OrderID,
		Outcome: v.Outcome, Reason: v.Reason, By: v.By, InRange: v.InRange, Degraded: v.Degraded,
	}
	x.examples.add(&line)
	if x.keys != nil && item.OrderID != "" {
		if err := x.keys.add(&line, v.Class); err != nil {
			return x.end(StopOutput, err, nil, "")
		}
	}
	if x.plan.Request.List != nil && x.stop != StopOutput { // a listing that has failed is not tried again
		if err := x.plan.Request.List(line); err != nil {
			return x.end(StopOutput, fmt.Errorf("write the listing: %w", err), nil, "")
		}
	}
	return nil
}

// judge corrects a verdict by what this range itself would have executed before: in a run that writes nothing the ledger
// does not show it. A key that would be executed has its row from then on, and an existing row decides before the horizon
// is asked and before the effect runs. Work of others (in_flight, phantom) stays as it is. mu is held.
func (x *execution) judge(item *Item, v Verdict) (Verdict, error) {
	corrected := v.Stop == nil && (v.Class == Executed || v.Class == Failed || v.Outcome == OutcomeOutsideHorizon)
	if x.seen == nil || !corrected {
		return v, nil
	}
	id := hashKey(x.opts.BizType, item.OrderID)
	first, found, err := x.seen.get(id)
	if err != nil {
		return v, err
	}
	if !found {
		if v.Class != Executed {
			return v, nil
		}
		return v, x.seen.put(id, newFirstSeen(item))
	}
	by := &Position{Topic: item.Record.Topic, Partition: first.partition, Offset: first.offset}
	out := Verdict{Outcome: OutcomeAbsorbedLedger, Class: Absorbed, By: by, InRange: true, Degraded: v.Degraded}
	if first.hasPrint && len(item.Fingerprint) > 0 && shortPrint(item.Fingerprint) != first.print {
		out.Outcome, out.Class = OutcomeConflict, Held
		out.Reason = "same key, other fingerprint than " + by.String() + " of this range"
	}
	return out, nil
}
