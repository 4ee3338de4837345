package replay

import (
	"context"
	"errors"
	"fmt"
)

// entry is one record of a page with what is to be counted for it.
type entry struct {
	item Item
	// verdict is set before the handler is asked for what it need not be asked about (decided).
	verdict Verdict
	decided bool
	after   int // records of the batch used up when this entry is done
}

// page handles the next records of a partition, at most PageSize that match. It returns how many records it used up.
func (x *execution) page(ctx context.Context, p *PartitionReport, records []Record) (int, error) {
	entries, used, err := x.collect(records)
	if err != nil {
		x.mu.Lock()
		defer x.mu.Unlock()
		return 0, x.end(StopHandler, err, position(&records[used]), "")
	}
	// Limit is one budget for all partitions: what this page takes of it no other can.
	x.mu.Lock()
	if x.stop != "" {
		x.mu.Unlock()
		return 0, errEnded
	}
	limited := false
	if x.budget >= 0 && int64(len(entries)) > x.budget {
		limited = true
		entries = entries[:x.budget]
	}
	if x.budget > 0 {
		x.budget -= int64(len(entries))
	}
	x.mu.Unlock()
	if limited {
		used = 0
		if len(entries) > 0 {
			used = entries[len(entries)-1].after
		}
	}

	err = x.handle(ctx, entries)
	x.mu.Lock()
	defer x.mu.Unlock()
	if err != nil {
		return 0, x.endHandler(ctx, err)
	}
	if err := x.settle(ctx, p, entries); err != nil {
		return 0, err
	}
	if used > 0 {
		p.Filtered += int64(used - len(entries))
		p.Next = max(p.Next, records[used-1].Offset+1)
	}
	x.showProgress()
	switch {
	case limited:
		return 0, x.end(StopLimit, nil, nil, fmt.Sprintf("limit of %d records", x.plan.Request.Limit))
	case x.plan.Request.MaxFailures > 0 && x.classes[Failed] >= int64(x.plan.Request.MaxFailures):
		return 0, x.end(StopMaxFailures, nil, nil, fmt.Sprintf("%d records failed", x.classes[Failed]))
	}
	return used, nil
}

// collect extracts up to PageSize matching records; used counts the records looked at.
func (x *execution) collect(records []Record) (entries []entry, used int, err error) {
	want := x.plan.Request.Key
	for i := range records {
		if len(entries) == x.plan.Request.PageSize {
			return entries, i, nil
		}
		item, err := x.opts.Extractor.Extract(records[i])
		e := entry{item: item, after: i + 1}
		e.item.Record = records[i]
		if err != nil {
			if _, ok := errors.AsType[*InvalidError](err); !ok {
				return nil, i, fmt.Errorf("read the record at %s: %w", position(&records[i]), err)
			}
			e.decided = true
			e.verdict = Verdict{Outcome: OutcomeInvalid, Class: Held, Reason: err.Error()}
		}
		if want != "" && item.OrderID != want {
			continue
		}
		entries = append(entries, e)
	}
	return entries, len(records), nil
}

// handle asks the handler about the entries that are not decided, and fills in its verdicts. After a verdict that stops the
// run the handler need not give more of them.
func (x *execution) handle(ctx context.Context, entries []entry) error {
	items := make([]Item, 0, len(entries))
	for i := range entries {
		if !entries[i].decided {
			items = append(items, entries[i].item)
		}
	}
	if len(items) == 0 {
		return ctx.Err()
	}
	if x.pace != nil {
		if err := x.pace.WaitN(ctx, len(items)); err != nil {
			return fmt.Errorf("wait for the rate limit: %w", err)
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	verdicts, err := x.opts.Handler.Handle(ctx, items)
	if err != nil {
		return err
	}
	stops := len(verdicts) > 0 && verdicts[len(verdicts)-1].Stop != nil
	if len(verdicts) > len(items) || (len(verdicts) < len(items) && !stops) {
		return fmt.Errorf("handler: %d verdicts for %d records", len(verdicts), len(items))
	}
	n := 0
	for i := range entries {
		if entries[i].decided {
			continue
		}
		if n == len(verdicts) {
			break
		}
		entries[i].verdict = verdicts[n]
		n++
	}
	return nil
}

// endHandler ends the run for a handler that could not decide a page. mu is held.
func (x *execution) endHandler(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return x.end(StopInterrupted, interruption(ctx), nil, "interrupted")
	}
	return x.end(StopHandler, err, nil, "")
}

func position(r *Record) *Position {
	return &Position{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}
}
