package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// RecordExtractor finds the key, time and effect values of a record. An *InvalidError makes the record invalid, any other
// error ends the run. Where the key was found but something else was not, the item carries the key beside the error. It is
// called from several partitions at once.
type RecordExtractor interface {
	Extract(rec Record) (Item, error)
}

// RunnerOptions are what a Runner uses.
type RunnerOptions struct {
	Source    Source
	Extractor RecordExtractor
	// Handler decides about pages. It is called from several partitions at once, with the records of one partition in order.
	Handler Handler
	// BizType is the effect that the handler guards; it names the report and is part of a key's identity.
	BizType string
	// Now is the clock of progress, waits and the report.
	Now func() time.Time
	// Wait pauses for d or until ctx ends; nil waits on a timer.
	Wait func(ctx context.Context, d time.Duration) error
	// TempDir holds the files that keys spill to; empty means the system's folder for such files.
	TempDir string
	// SeenInMemory bounds the keys that a verify or rehearse run remembers in memory before it goes on in a file; 0 means
	// 1 Mi (about 100 MB).
	SeenInMemory int
	// KeysInMemory bounds the bytes of the per-key report in memory before it goes on in a file; 0 means 32 MiB.
	KeysInMemory int
}

// Runner replays ranges of topics through a handler. It is safe for concurrent use; each run has its own state.
type Runner struct {
	opts RunnerOptions
}

// NewRunner checks the options; it opens nothing.
func NewRunner(opts RunnerOptions) (*Runner, error) {
	switch {
	case opts.Source == nil:
		return nil, errors.New("replay runner: no source")
	case opts.Extractor == nil:
		return nil, errors.New("replay runner: no extractor")
	case opts.Handler == nil:
		return nil, errors.New("replay runner: no handler")
	case opts.BizType == "":
		return nil, errors.New("replay runner: no biz_type")
	case opts.Now == nil:
		return nil, errors.New("replay runner: no clock")
	case opts.SeenInMemory < 0 || opts.KeysInMemory < 0:
		return nil, errors.New("replay runner: a memory bound is negative")
	}
	if opts.Wait == nil {
		opts.Wait = waitTimer
	}
	if opts.SeenInMemory == 0 {
		opts.SeenInMemory = 1 << 20
	}
	if opts.KeysInMemory == 0 {
		opts.KeysInMemory = 32 << 20
	}
	return &Runner{opts: opts}, nil
}

func waitTimer(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// Plan pins the range of a request. It changes nothing. Errors are ErrRequest and those of Source.Resolve.
func (r *Runner) Plan(ctx context.Context, req Request) (Plan, error) {
	if err := req.check(); err != nil {
		return Plan{}, err
	}
	req = req.withDefaults()
	req.Partitions = slices.Compact(slices.Sorted(slices.Values(req.Partitions)))
	pinned := r.opts.Now()
	bounds, err := r.opts.Source.Resolve(ctx, req.Topic, req.Partitions, req.Range)
	if err != nil {
		return Plan{}, fmt.Errorf("resolve the range of topic %s: %w", req.Topic, err)
	}
	bounds = slices.SortedFunc(slices.Values(bounds), func(a, b Bounds) int { return int(a.Partition) - int(b.Partition) })
	return Plan{Request: req, Bounds: bounds, Pinned: pinned}, nil
}

// Run replays a plan. The report is complete as far as the run came, also beside an error. Ends that were asked for (the
// end of the range, Limit, MaxFailures) are no error: Report.Stop and Finding tell them apart. Any other end returns a
// *PartialError that wraps its cause: the context's error, the handler's, the source's, or that of a listing or temp file.
func (r *Runner) Run(ctx context.Context, plan Plan, progress Progress) (Report, error) {
	if err := plan.Request.check(); err != nil {
		return Report{}, err
	}
	plan.Request = plan.Request.withDefaults()
	x := newExecution(&r.opts, plan, progress)
	defer x.close()
	x.read(ctx)
	x.retryInFlight(ctx)
	return x.finish()
}
