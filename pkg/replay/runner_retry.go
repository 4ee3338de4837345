package replay

import (
	"context"
	"time"
)

const (
	// maxPending bounds the records kept in memory to be tried again; what exceeds it is reported in_flight at once.
	maxPending = 10_000
	// A retry comes after what the lease has left, but not sooner than retryFloor and not later than a step that doubles
	// from retryFirst to retryCeiling: an owner mostly finishes long before its lease ends.
	retryFloor   = 50 * time.Millisecond
	retryFirst   = time.Second
	retryCeiling = 10 * time.Second
)

// pending is a record whose key another owner held when it was read.
type pending struct {
	entry entry
	tries int
	due   time.Time
}

// postpone keeps an in_flight record for the end of the run, where the request asks for that. mu is held.
func (x *execution) postpone(e *entry) bool {
	if e.verdict.Outcome != OutcomeInFlight || x.plan.Request.InFlightWait == 0 || len(x.pending) >= maxPending {
		return false
	}
	x.pending = append(x.pending, pending{entry: *e, due: x.opts.Now().Add(retryDelay(e.verdict.RetryAfter, 0))})
	return true
}

func retryDelay(left time.Duration, tries int) time.Duration {
	step := retryCeiling
	if tries < 4 {
		step = min(retryFirst<<tries, retryCeiling)
	}
	if left > 0 {
		step = min(step, left)
	}
	return max(step, retryFloor)
}

// retryInFlight tries the postponed records again until each is decided or InFlightWait has passed; what is left then, or
// when the run has been stopped, is in_flight. No batch is active any more.
func (x *execution) retryInFlight(ctx context.Context) {
	deadline := x.opts.Now().Add(x.plan.Request.InFlightWait)
	for x.stop == "" || x.stop == StopLimit {
		due, next := x.takeDue(deadline)
		if len(due) == 0 {
			if next.IsZero() {
				break
			}
			if err := x.opts.Wait(ctx, max(0, next.Sub(x.opts.Now()))); err != nil {
				x.interrupt(ctx, err)
				break
			}
			continue
		}
		if !x.retryPage(ctx, due, deadline) {
			break
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := range x.pending {
		e := &x.pending[i].entry
		_ = x.account(x.part(e), &e.item, e.verdict) // its error has been noted as the reason to stop
	}
	x.pending = nil
}

func (x *execution) part(e *entry) *PartitionReport {
	return &x.parts[x.index[e.item.Record.Partition]]
}

func (x *execution) interrupt(ctx context.Context, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.stop = "" // a limit reached before counts for less than the interruption
	_ = x.endHandler(ctx, err)
}

// takeDue removes from pending a page of what is due, in the order in which it was read. With nothing due it returns when
// to look again: zero when nothing is pending.
func (x *execution) takeDue(deadline time.Time) (due []pending, next time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := x.opts.Now()
	kept := x.pending[:0]
	for _, p := range x.pending {
		if p.due.After(deadline) {
			p.due = deadline // one last try
		}
		if !p.due.After(now) && len(due) < x.plan.Request.PageSize {
			due = append(due, p)
			continue
		}
		if next.IsZero() || p.due.Before(next) {
			next = p.due
		}
		kept = append(kept, p)
	}
	x.pending = kept
	return due, next
}

// retryPage asks the handler again about postponed records. It returns false when the run has ended.
func (x *execution) retryPage(ctx context.Context, due []pending, deadline time.Time) bool {
	entries := make([]entry, len(due))
	for i := range due {
		entries[i] = due[i].entry
		entries[i].verdict = Verdict{}
	}
	err := x.handle(ctx, entries)
	x.mu.Lock()
	defer x.mu.Unlock()
	if err != nil {
		x.pending = append(due, x.pending...)
		x.stop = ""
		_ = x.endHandler(ctx, err)
		return false
	}
	x.retried += int64(len(due))
	for i := range entries {
		e := &entries[i]
		p := x.part(e)
		if e.verdict.Stop != nil {
			x.stop = ""
			_ = x.settleStop(ctx, p, e)
			// What stands behind it in the page does not count: it is as it was. So is the record itself where the handler
			// only gave up because it was told to.
			if x.stop != StopInterrupted {
				i++
			}
			x.pending = append(due[i:], x.pending...)
			return false
		}
		if e.verdict.Outcome == OutcomeInFlight && x.opts.Now().Before(deadline) {
			again := pending{entry: *e, tries: due[i].tries + 1}
			again.due = x.opts.Now().Add(retryDelay(e.verdict.RetryAfter, again.tries))
			x.pending = append(x.pending, again)
			continue
		}
		if x.account(p, &e.item, e.verdict) != nil {
			x.pending = append(due[i+1:], x.pending...)
			return false
		}
	}
	x.showProgress()
	return true
}
