package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/idemctl/idemctl/internal/render"
	"github.com/idemctl/idemctl/pkg/replay"
	"github.com/idemctl/idemctl/pkg/replay/kafka"
)

// sharedRange is a range that several processes replay as one group. Its ends are pinned by the first of them; how far it has
// come are the group's committed offsets.
type sharedRange struct {
	Range    string       `json:"range"`
	Pinned   time.Time    `json:"pinned"`
	Parts    []sharedPart `json:"partitions"`
	HeldBack int64        `json:"held_back,omitempty"` // offsets that an open transaction kept out of it
	Done     bool         `json:"done"`
	// Before says that the range was done before this process began.
	Before bool `json:"done_before,omitempty"`
}

// sharedPart is one partition of it.
type sharedPart struct {
	Partition int32 `json:"partition"`
	Start     int64 `json:"start"`
	End       int64 `json:"end"`
	// Next is the offset that the group goes on from; Start where it has committed none.
	Next int64 `json:"next"`
}

func newSharedRange(p *rangePin) *sharedRange {
	s := &sharedRange{Range: p.Range, Pinned: p.pinned}
	for _, b := range p.Bounds {
		s.Parts = append(s.Parts, sharedPart{Partition: b.Partition, Start: b.Start, End: b.End, Next: b.Start})
		s.HeldBack += b.HeldBack
	}
	return s
}

// look takes the group's offsets.
func (s *sharedRange) look(committed map[int32]int64) {
	s.Done = true
	for i := range s.Parts {
		p := &s.Parts[i]
		if at, ok := committed[p.Partition]; ok {
			p.Next = at
		}
		s.Done = s.Done && p.Next >= p.End
	}
}

func (s *sharedRange) notes(topic, group string) []string {
	var all, left int64
	for _, p := range s.Parts {
		all += p.End - p.Start
		left += max(0, p.End-p.Next)
	}
	state := fmt.Sprintf("%d of %d offsets are left: the other members do them, or whoever runs this again.", left, all)
	switch {
	case s.Before:
		state = "It was done already."
	case s.Done:
		state = fmt.Sprintf("All %d offsets of it are done.", all)
	}
	notes := []string{wrap(fmt.Sprintf("Range %s of %s, shared by group %s, pinned at %s. %s",
		s.Range, render.Text(topic), render.Text(group), s.Pinned.UTC().Format(time.RFC3339), state), render.DefaultWidth)}
	if s.HeldBack > 0 {
		notes = append(notes, count(s.HeldBack, "offset")+" held back by an open transaction when it was pinned.")
	}
	return notes
}

// checkGroup refuses what a shared replay cannot do: it has no end of its own at which a report over all records could be made.
func (o *replayOptions) checkGroup(mode replay.Mode, args []string) error {
	for name, set := range map[string]bool{
		"--input": o.input != "", "--key": o.key != "", "--limit": o.limit != 0, "--rate": o.rate != 0, "--keys": o.keys, "--list": o.list,
		"--in-flight-wait": o.inFlightWait != 0, "--max-failures": o.maxFailures != replay.DefaultMaxFailures,
	} {
		if set {
			return usageErrorf("%s does not go with --group: each process sees a part of the range", name)
		}
	}
	switch {
	case mode != replay.ModeExecute:
		return usageErrorf("--group shares a range that is executed: use it with --mode execute")
	case len(args) == 0:
		return usageErrorf("replay: a topic is missing; usage: idemctl replay TOPIC --range RANGE --group GROUP --mode execute")
	}
	return nil
}

// runReplayGroup does this process's part of a shared range, and ends when all of it is done.
func runReplayGroup(ctx context.Context, a *app, opts *replayOptions, mode replay.Mode, args []string) error {
	if err := opts.checkGroup(mode, args); err != nil {
		return err
	}
	topic := args[0]
	r, err := opts.read(a)
	if err != nil {
		return err
	}
	h, err := a.Handler(topic, opts.bizType)
	if err != nil {
		return err
	}
	job, err := newConsumeJob(ctx, a, &consumeOptions{
		guardFlags: opts.guardFlags, group: opts.group, batch: kafka.DefaultBatch, from: choiceFlag{value: fromStart},
		sessionTimeout: opts.sessionTimeout, rebalanceTimeout: durationFlag(kafka.DefaultRebalanceTimeout), alwaysLook: true,
	}, topic, []Handler{h})
	if err != nil {
		return err
	}
	client, err := a.Kafka(func(c *kafka.Config) { c.AllowClipped = opts.allowClipped })
	if err != nil {
		return err
	}
	pins := &rangePins{app: a, client: client}
	wanted := rangePin{Group: opts.group, Topic: topic, Range: opts.rng, Partitions: slices.Compact(slices.Sorted(slices.Values(opts.partitions))), BizType: h.BizType}
	pin, committed, err := pins.take(ctx, wanted, r)
	if err != nil {
		return err
	}
	shared := newSharedRange(pin)
	job.monitor.counts.Shared = shared
	shared.look(committed)
	if shared.Done {
		shared.Before = true
		result := job.monitor.result()
		if err := a.Print(result.render()); err != nil || result.complete() {
			return err
		}
		return exitStatus(exitIncomplete)
	}
	job.plan.Starts, job.plan.Until = map[int32]int64{}, map[int32]int64{}
	for _, b := range pin.Bounds {
		job.plan.Starts[b.Partition], job.plan.Until[b.Partition] = b.Start, b.End
	}
	job.after = func(ctx context.Context, r *consumeResult) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.flags.connectTimeout)
		defer cancel()
		view, err := client.ViewGroup(ctx, opts.group)
		if err != nil {
			a.log().Warn("how far the group has come is not known", "group", opts.group, "error", err)
			return
		}
		r.Shared.look(view.Committed[topic])
	}
	return job.run(ctx)
}
