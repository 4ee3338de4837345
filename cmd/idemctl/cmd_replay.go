package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/idemctl/idemctl/internal/render"
	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/replay"
	"github.com/idemctl/idemctl/pkg/replay/kafka"
)

type replayOptions struct {
	rangeOptions
	guardFlags

	input        pathFlag
	mode         string
	bizType      string
	key          string
	limit        int64
	rate         float64
	maxFailures  int
	keys         bool
	top          int
	list         bool
	inFlightWait durationFlag
	group        string
	// sessionTimeout is the group's.
	sessionTimeout durationFlag

	again string // the command line to go on with, but for partition and range
}

func newReplayCmd(a *app) *cobra.Command {
	var opts replayOptions
	cmd := &cobra.Command{
		Use:   "replay [TOPIC]",
		Short: "Replay a topic range through the guarded handler",
		Long: `Replay a range of a topic through the guarded handler that is configured for it,
and report what came of every record.

  verify    look-ups only: what would happen. The default; nothing is written
  rehearse  the whole transaction with the effect, rolled back; Redis untouched
  execute   for real: what was never done is done, once; duplicates are absorbed

Ranges: N, N:M (M exclusive), :M, N:, start, end, -N (the last N), +N (the first
N), @TIME, @T1:T2 with RFC 3339, a date, epoch seconds or milliseconds, or -1h.
Offsets apply to each partition; times to all. The end is pinned at the start.

With --group and --mode execute, processes on several machines share a range:
the first pins it, each takes partitions, and what a process that dies leaves
is done by the others. Its progress is the group's own committed offsets.

Exit status:
  0    done: verify found every record absorbed; rehearse and execute found
       every record executed or absorbed
  1    verify only: a record that is not absorbed` + exitHelp(`  4    incomplete: stopped early, offsets held back by an open transaction, or
       (rehearse, execute) a record that may not pass`),
		Example: `  idemctl replay order-paid --range 10200: -p 3 --keys
  idemctl replay order-paid --range @-1h --mode execute
  idemctl replay --input incident.jsonl --list -o jsonl`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.again = againLine("replay", args, cmd.Flags(), "range", "partition", "limit")
			return runReplay(cmd.Context(), a, &opts, args)
		},
	}
	opts.AddFlags(cmd.Flags())
	return cmd
}

// AddFlags declares the command's flags.
func (o *replayOptions) AddFlags(fs *pflag.FlagSet) {
	o.rangeOptions.AddFlags(fs)
	o.guardFlags.AddFlags(fs)
	fs.Var(&o.input, "input", "replay the records of a capture `FILE` instead of a topic's")
	fs.StringVar(&o.mode, "mode", string(replay.ModeVerify), "`MODE`: verify, rehearse or execute")
	fs.StringVar(&o.bizType, "biz-type", "", "`BIZ_TYPE` of the handler, where the topic has several")
	fs.StringVar(&o.key, "key", "", "only the records of this `ORDER_ID`")
	fs.Int64Var(&o.limit, "limit", 0, "stop after `N` records; 0: no limit")
	fs.Float64Var(&o.rate, "rate", 0, "at most `N` records a second; 0: no limit")
	fs.IntVar(&o.maxFailures, "max-failures", replay.DefaultMaxFailures, "stop when `N` effects have failed; 0: never")
	fs.BoolVar(&o.keys, "keys", false, "report per key: how often it came, and which record executed it")
	fs.IntVar(&o.top, "top", 20, "with --keys, show the `N` most repeated keys") //nolint:mnd // the documented default
	fs.BoolVar(&o.list, "list", false, "one line for each record")
	fs.Var(&o.inFlightWait, "in-flight-wait", "at the end, try records that another owner holds again for so `LONG`")
	fs.StringVar(&o.group, "group", "", "share the range with other processes as `GROUP`, a new one")
	o.sessionTimeout = durationFlag(kafka.DefaultSessionTimeout)
	fs.Var(&o.sessionTimeout, "session-timeout", "with --group, how long a silent process keeps its partitions")
}

func runReplay(ctx context.Context, a *app, opts *replayOptions, args []string) error {
	mode, err := replay.ParseMode(opts.mode)
	if err != nil {
		return usageErrorf("--mode: %w", err)
	}
	if err := opts.check(a.flags.output); err != nil {
		return err
	}
	if opts.group != "" {
		return runReplayGroup(ctx, a, opts, mode, args)
	}
	r, err := opts.read(a)
	if err != nil {
		return err
	}
	topic, err := opts.topic(ctx, args)
	if err != nil {
		return err
	}
	h, err := a.Handler(topic, opts.bizType)
	if err != nil {
		return err
	}
	job, err := newReplayJob(ctx, a, opts, h, mode)
	if err != nil {
		return err
	}
	list := newListing(a, opts.list, opts.again)
	plan, err := job.runner.Plan(ctx, replay.Request{
		Topic: topic, Partitions: opts.partitions, Range: r, Mode: mode, Key: opts.key, Limit: opts.limit, Rate: opts.rate,
		MaxFailures: noneIfZero(opts.maxFailures), KeepKeys: opts.keys, TopKeys: opts.top, List: list.each(), InFlightWait: time.Duration(opts.inFlightWait),
	})
	if err != nil {
		return rangeError(err)
	}
	return job.run(ctx, plan, list)
}

// check refuses what no server need be asked about.
func (o *replayOptions) check(format render.Format) error {
	switch {
	case o.limit < 0:
		return usageErrorf("--limit %d: expected 0 or more", o.limit)
	case o.rate < 0:
		return usageErrorf("--rate %v: expected 0 or more", o.rate)
	case o.maxFailures < 0:
		return usageErrorf("--max-failures %d: expected 0 or more", o.maxFailures)
	case o.top < 1:
		return usageErrorf("--top %d: expected 1 or more", o.top)
	case o.list && format == render.FormatJSON:
		return usageErrorf("--list is one line a record: use -o jsonl")
	case o.input == stdoutPath:
		return usageErrorf("--input -: a capture is read twice, so it must be a file")
	}
	return nil
}

// noneIfZero is the flag's 0 as the library says it: no bound.
func noneIfZero(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

// topic is the argument, or what the capture holds.
func (o *replayOptions) topic(ctx context.Context, args []string) (string, error) {
	switch {
	case len(args) == 1:
		return args[0], nil
	case o.input == "":
		return "", usageErrorf("replay: a topic is missing; usage: idemctl replay TOPIC --range RANGE, or --input FILE")
	}
	topic, err := captureTopic(ctx, string(o.input))
	if err != nil {
		return "", fmt.Errorf("read the capture %s: %w", o.input, err)
	}
	return topic, nil
}

// replayJob is a replay that is ready to run.
type replayJob struct {
	app    *app
	runner *replay.Runner
	guard  *ledger.Guard
	mode   replay.Mode
	// attributes asks which record executed a key, so that every row must be read.
	attributes bool
}

// newReplayJob reads the effect, opens the servers and checks all that can be checked before the first message.
func newReplayJob(ctx context.Context, a *app, opts *replayOptions, h Handler, mode replay.Mode) (*replayJob, error) {
	effect, err := a.effect(h, mode)
	if err != nil {
		return nil, err
	}
	extractor, err := a.extractor(h, effect)
	if err != nil {
		return nil, err
	}
	guard, err := a.openGuard(ctx, opts.guardOptions(true), h, mode, effect)
	if err != nil {
		return nil, err
	}
	source, err := a.replaySource(opts)
	if err != nil {
		return nil, err
	}
	runner, err := replay.NewRunner(replay.RunnerOptions{
		Source: source, Extractor: extractor, BizType: h.BizType, Now: a.now,
		Handler: &guardHandler{guard: guard, effect: effect, mode: mode, bizType: h.BizType},
	})
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	return &replayJob{app: a, runner: runner, guard: guard, mode: mode, attributes: opts.keys || opts.list}, nil
}

// run replays the plan, prints the report also where the run was cut short, and turns what it found into an exit status.
func (j *replayJob) run(ctx context.Context, plan replay.Plan, list *listing) error {
	a := j.app
	finish := func(string, any) {}
	if j.mode.Writes() {
		var err error
		if finish, err = a.record(ctx, plan); err != nil {
			return err
		}
	}
	if err := j.preload(ctx, &plan); err != nil {
		return err
	}
	progress := a.Progress("replay "+string(j.mode), "records")
	report, err := j.runner.Run(ctx, plan, func(s replay.ProgressState) {
		progress.Update(s.OffsetsDone, s.OffsetsTotal, progressDetail(s))
	})
	progress.Finish()
	if err != nil && report.Topic == "" {
		return fmt.Errorf("replay: %w", err)
	}
	finish(replayWord(&report, err), report.Total)
	if perr := list.finish(&report); perr != nil {
		return errors.Join(err, perr)
	}
	return replayStatus(&report, err)
}

// preload lets a verification of many records read the ledger through once instead of asking for each of them.
func (j *replayJob) preload(ctx context.Context, plan *replay.Plan) error {
	if j.mode != replay.ModeVerify || j.attributes || plan.Request.Key != "" {
		return nil
	}
	records := plan.Offsets()
	if plan.Request.Limit > 0 {
		records = min(records, plan.Request.Limit)
	}
	done, err := j.guard.Preload(ctx, records)
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	j.app.closeLater(closerFunc(func() {
		if err := j.guard.Forget(); err != nil {
			j.app.log().Debug("close the keys read ahead", "error", err)
		}
	}))
	j.app.log().Debug("keys of the ledger read ahead", "done", done, "records", records)
	return nil
}

func progressDetail(s replay.ProgressState) string {
	d := fmt.Sprintf("%.0f/s", s.Rate)
	if s.ETA > 0 {
		d += ", " + s.ETA.Round(time.Second).String() + " left"
	}
	if s.InFlight > 0 {
		d += fmt.Sprintf(", %d wait for another owner", s.InFlight)
	}
	return d
}

func replayWord(r *replay.Report, err error) string {
	if err == nil && r.Finding() == replay.FindingIncomplete {
		return "incomplete"
	}
	return resultWord(err)
}

// replayStatus is the exit status by the table of the long help.
func replayStatus(r *replay.Report, err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return withStatus(exitInterrupted, errInterrupted)
	case err != nil:
		if _, ok := errors.AsType[*replay.BadLinesError](err); ok {
			return withStatus(exitIncomplete, err)
		}
		return err
	}
	switch r.Finding() {
	case replay.FindingFound:
		return exitStatus(exitFinding)
	case replay.FindingIncomplete:
		return exitStatus(exitIncomplete)
	case replay.FindingClean:
	}
	return nil
}

// rangeError gives a range that the topic does not have the status of a wrong command line: it is mended there, with -p,
// another range or --allow-clipped.
func rangeError(err error) error {
	if _, ok := errors.AsType[*replay.RangeError](err); ok {
		return withStatus(exitUsage, err)
	}
	return err
}
