package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/idemctl/idemctl/internal/doctor/inspect"
	"github.com/idemctl/idemctl/pkg/replay"
)

// mostRecords bounds what is kept of one key: a key that comes more often than that has told its story.
const mostRecords = 1000

// recordSearch looks for the orders' records in a range of a topic, by replay's own verification; nil: nobody asked.
type recordSearch struct {
	opts     *inspectOptions
	rng      replay.Range
	handlers []Handler
}

func newRecordSearch(a *app, opts *inspectOptions) (*recordSearch, error) {
	if opts.topic == "" {
		return nil, nil //nolint:nilnil // nobody asked
	}
	r, err := opts.read(a)
	if err != nil {
		return nil, err
	}
	cfg, err := a.Config()
	if err != nil {
		return nil, err
	}
	hs, err := cfg.HandlersOf(opts.topic, opts.bizType)
	if err != nil {
		return nil, err
	}
	if len(hs) == 0 {
		return nil, cfg.noHandler(opts.topic, opts.bizType)
	}
	return &recordSearch{opts: opts, rng: r, handlers: hs}, nil
}

// run adds the records to the orders. What was found before an error stays.
func (s *recordSearch) run(ctx context.Context, a *app, result *inspectResult) error {
	if s == nil {
		return nil
	}
	for _, h := range s.handlers {
		job, err := newReplayJob(ctx, a, &replayOptions{rangeOptions: s.opts.rangeOptions}, h, replay.ModeVerify)
		if err != nil {
			return err
		}
		for i := range result.Orders {
			if err := s.search(ctx, a, job, h, &result.Orders[i], result); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *recordSearch) search(ctx context.Context, a *app, job *replayJob, h Handler, o *inspect.Order, result *inspectResult) error {
	var found []inspect.Record
	keep := func(line replay.Line) error {
		if len(found) < mostRecords {
			found = append(found, foundRecord(&line))
		}
		return nil
	}
	plan, err := job.runner.Plan(ctx, replay.Request{
		Topic: s.opts.topic, Partitions: s.opts.partitions, Range: s.rng, Mode: replay.ModeVerify, Key: o.OrderID, MaxFailures: -1, List: keep,
	})
	if err != nil {
		return rangeError(err)
	}
	progress := a.Progress("read "+s.opts.topic, "records")
	report, err := job.runner.Run(ctx, plan, func(p replay.ProgressState) {
		progress.Update(p.OffsetsDone, p.OffsetsTotal, progressDetail(p))
	})
	progress.Finish()
	for i := range o.Keys {
		if o.Keys[i].BizType == h.BizType {
			o.Keys[i].Records = append(o.Keys[i].Records, found...)
		}
	}
	result.searched(&report, plan.Clipped())
	if errors.Is(err, context.Canceled) {
		return withStatus(exitInterrupted, errInterrupted)
	}
	if err != nil {
		return fmt.Errorf("look for the records of %s: %w", s.opts.topic, err)
	}
	return nil
}

func foundRecord(line *replay.Line) inspect.Record {
	r := inspect.Record{
		Topic: line.Topic, Partition: line.Partition, Offset: line.Offset, Time: line.Time, Outcome: line.Outcome, Reason: line.Reason,
	}
	if line.By != nil {
		r.By = place(line.By)
	}
	return r
}
