package replay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// errEnded leaves Source.Read when the run has ended for a reason that execution has noted; it is never returned.
var errEnded = errors.New("the replay has ended")

// execution is the state of one run. What several partitions share is guarded by mu; pages are handled outside of it.
type execution struct {
	opts     *RunnerOptions
	plan     Plan
	progress Progress
	started  time.Time
	pace     pacer

	// active are the batches being worked on: the report is made when they are done, whatever the source does.
	active sync.WaitGroup

	mu       sync.Mutex
	closed   bool // Read has returned: no batch may begin
	parts    []PartitionReport
	index    map[int32]int // partition → parts
	open     map[int32]int64
	budget   int64 // records that Limit still allows; -1: no limit
	records  int64
	classes  [4]int64 // by Class
	retried  int64
	pending  []pending
	seen     *seenSet  // nil in execute mode, where the ledger itself knows
	keys     *keysSink // nil unless asked for
	examples examples

	stop      Stop // empty while the run goes on
	stopErr   error
	stoppedAt *Position
	reason    string
}

// pacer is the part of a rate limiter that a run uses.
type pacer interface {
	WaitN(ctx context.Context, n int) error
}

func newExecution(opts *RunnerOptions, plan Plan, progress Progress) *execution {
	x := &execution{
		opts: opts, plan: plan, progress: progress, started: opts.Now(),
		parts: make([]PartitionReport, len(plan.Bounds)),
		index: make(map[int32]int, len(plan.Bounds)),
		open:  make(map[int32]int64),
	}
	x.budget = -1
	if plan.Request.Limit > 0 {
		x.budget = plan.Request.Limit
	}
	for i, b := range plan.Bounds {
		x.parts[i] = PartitionReport{Bounds: b, Next: b.Start, Outcomes: Tally{}}
		x.index[b.Partition] = i
	}
	if plan.Request.Rate > 0 {
		// A page waits as a whole, so it must fit into the burst.
		burst := max(1, min(plan.Request.PageSize, int(plan.Request.Rate)))
		x.plan.Request.PageSize = burst
		x.pace = rate.NewLimiter(rate.Limit(plan.Request.Rate), burst)
	}
	if plan.Request.Mode != ModeExecute {
		x.seen = newSeenSet(opts.TempDir, opts.SeenInMemory)
	}
	if plan.Request.KeepKeys {
		x.keys = newKeysSink(opts.TempDir, opts.KeysInMemory, plan.Request.Topic)
	}
	return x
}

// close removes the temp files.
func (x *execution) close() {
	if x.seen != nil {
		x.seen.close()
	}
	if x.keys != nil {
		x.keys.close()
	}
}

// end notes why the run ends; the first reason stays. It returns errEnded. mu is held.
func (x *execution) end(why Stop, err error, at *Position, reason string) error {
	if x.stop == "" {
		x.stop, x.stopErr, x.stoppedAt, x.reason = why, err, at, reason
		if reason == "" && err != nil {
			x.reason = err.Error()
		}
	}
	return errEnded
}

// read drives the source through the plan.
func (x *execution) read(ctx context.Context) {
	err := x.readAll(ctx)
	x.mu.Lock()
	x.closed = true
	x.mu.Unlock()
	x.active.Wait()

	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.stop != "":
	case ctx.Err() != nil:
		_ = x.end(StopInterrupted, interruption(ctx), nil, "interrupted")
	case err != nil:
		_ = x.end(StopSource, fmt.Errorf("read topic %s: %w", x.plan.Request.Topic, err), nil, "")
	default:
		// A source that ends early would make records disappear without a word (hazard R1).
		for i := range x.parts {
			if p := &x.parts[i]; p.Next < p.End {
				_ = x.end(StopSource, fmt.Errorf("read topic %s: partition %d ended at offset %d, before %d",
					x.plan.Request.Topic, p.Partition, p.Next, p.End), nil, "")
				break
			}
		}
	}
}

func (x *execution) readAll(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var bounds []Bounds
	for _, b := range x.plan.Bounds {
		if b.Len() > 0 {
			bounds = append(bounds, b)
		}
	}
	if len(bounds) == 0 {
		return nil
	}
	// Pages are handled under the caller's context, not the one of Read: when one partition ends the run, the pages that the
	// others are at are still brought to their end, so that what is counted is what was done.
	return x.opts.Source.Read(ctx, x.plan.Request.Topic, bounds, func(_ context.Context, b Batch) error {
		return x.batch(ctx, b)
	})
}

// begin registers a batch unless the run has ended.
func (x *execution) begin() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed || x.stop != "" {
		return false
	}
	x.active.Add(1)
	return true
}

// batch takes one batch of a partition through the handler, page by page.
func (x *execution) batch(ctx context.Context, b Batch) error {
	if !x.begin() {
		return errEnded
	}
	defer x.active.Done()
	i, ok := x.index[b.Partition]
	if !ok {
		return fmt.Errorf("partition %d was not asked for", b.Partition)
	}
	p := &x.parts[i]
	records := b.Records
	for len(records) > 0 {
		n, err := x.page(ctx, p, records)
		if err != nil {
			return err
		}
		records = records[n:]
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	p.Next = max(p.Next, min(b.Next, p.End))
	x.showProgress()
	if x.budget == 0 && !x.allRead() {
		return x.end(StopLimit, nil, nil, fmt.Sprintf("limit of %d records", x.plan.Request.Limit))
	}
	return nil
}

func (x *execution) allRead() bool {
	for i := range x.parts {
		if x.parts[i].Next < x.parts[i].End {
			return false
		}
	}
	return true
}
