package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/ledger/reconcile"
)

type reconcileOptions struct {
	rate        float64
	maxDuration durationFlag
	sample      float64
	bizTypes    []string
	since       string
	settle      durationFlag
	examples    int
	fix         []string
	undoFile    pathFlag
	metricsFile pathFlag
	execute     bool

	kinds []reconcile.Kind // of fix
	again string           // the command line to mend with, but for --fix
}

func newReconcileCmd(a *app) *cobra.Command {
	opts := reconcileOptions{settle: durationFlag(3 * time.Second)}
	cmd := &cobra.Command{
		Use:   "reconcile",
		Short: "Compare the markers in Redis with the ledger, and repair them",
		Long: `Compare the filter's markers in Redis with the ledger, in both directions, and
say what does not fit, what it means for the orders, and what mends it. Both
sides are read again after --settle: only what has stayed as it was is reported,
so work in flight is no finding.

--fix names the kinds to repair: phantom, foreign_ledger, stuck, abandoned,
stale_processing, immortal, outlives_entry or malformed. Without --execute the
plan is printed and nothing is changed. Each marker is looked at once more, its
row too, and is changed only if it still is what was found. What it was is
written to the undo file first. Rows of the ledger are never changed.

Exit status:
  0    nothing found (cold and unremembered are no faults); or a plan of --fix
       was printed; or --fix repaired all that was found
  1    found; with --fix --execute: something is left that was not repaired` + exitHelp(
			`  4    incomplete: not everything was looked at; the result says why`),
		Example: `  idemctl reconcile --rate 20000 --max-duration 10m
  idemctl reconcile --biz-type COUPON --fix phantom,stuck
  idemctl reconcile --fix phantom --execute --undo-file phantom.undo.jsonl
  idemctl reconcile undo phantom.undo.jsonl --execute`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts.again = againLine("reconcile", nil, cmd.Flags(), "fix", "execute", "undo-file", "metrics-file", "output", "examples", "quiet")
			return runReconcile(cmd.Context(), a, &opts)
		},
	}
	opts.AddFlags(cmd.Flags())
	cmd.AddCommand(newReconcileUndoCmd(a))
	return cmd
}

// AddFlags declares the command's flags.
func (o *reconcileOptions) AddFlags(fs *pflag.FlagSet) {
	fs.Float64Var(&o.rate, "rate", 0, "at most `N` keys and rows a second; 0: no limit")
	fs.Var(&o.maxDuration, "max-duration", "end after so `LONG`")
	fs.Float64Var(&o.sample, "sample", 100, "look at so many `PERCENT` of the keys, chosen at random") //nolint:mnd // all of them
	fs.StringSliceVar(&o.bizTypes, "biz-type", nil, "only keys of this `BIZ_TYPE`; may be given several times")
	fs.StringVar(&o.since, "since", "", "only what was written since `TIME`: a date, RFC 3339, or how long ago (24h, 7d)")
	fs.Var(&o.settle, "settle", "pause before the second look")
	fs.IntVar(&o.examples, "examples", 3, "show `N` keys of each kind") //nolint:mnd // the documented default
	fs.StringSliceVar(&o.fix, "fix", nil, "repair these `KINDS`, separated by commas")
	fs.Var(&o.undoFile, "undo-file", "write what --fix changes to this `FILE`; else idemctl-undo-TIME.jsonl in the current folder")
	fs.Var(&o.metricsFile, "metrics-file", "write metrics of the run to this `FILE`, for a textfile collector")
	fs.BoolVar(&o.execute, "execute", false, "carry --fix out")
}

// check refuses what no server need be asked about.
func (o *reconcileOptions) check() error {
	switch {
	case o.rate < 0:
		return usageErrorf("--rate %v: expected 0 or more", o.rate)
	case o.sample <= 0 || o.sample > 100:
		return usageErrorf("--sample %v: expected a percentage above 0, at most 100", o.sample)
	case o.examples < 1:
		return usageErrorf("--examples %d: expected 1 or more", o.examples)
	case o.execute && len(o.fix) == 0:
		return usageErrorf("--execute carries --fix out, and that is missing")
	case o.undoFile != "" && !o.execute:
		return usageErrorf("--undo-file is about a repair: it goes with --fix and --execute")
	}
	for _, biz := range o.bizTypes {
		if err := ledger.ValidateBizType(biz); err != nil {
			return usageErrorf("--biz-type: %w", err)
		}
	}
	var err error
	if o.kinds, err = reconcile.ParseFixable(o.fix); err != nil {
		return usageErrorf("--fix: %w", err)
	}
	return nil
}

// undoPath is where the undo file is to be. A file that is there is not replaced.
func (o *reconcileOptions) undoPath(now time.Time) (string, error) {
	path := string(o.undoFile)
	if path == "" {
		path = "idemctl-undo-" + now.UTC().Format("20060102T150405Z") + ".jsonl"
	}
	if _, err := os.Lstat(path); err == nil {
		return "", usageErrorf("--undo-file: %s is there already; name another one", path)
	}
	return path, nil
}

// reconcileJob is one call of the command.
type reconcileJob struct {
	app     *app
	opts    *reconcileOptions
	started time.Time
	result  reconcileResult
}

// runReconcile compares, and with --fix repairs. However it ends, the metrics file says so.
func runReconcile(ctx context.Context, a *app, opts *reconcileOptions) error {
	j := &reconcileJob{app: a, opts: opts, started: a.now()}
	return j.measured(ctx, j.run(ctx))
}

func (j *reconcileJob) run(ctx context.Context) error {
	a, opts := j.app, j.opts
	if err := opts.check(); err != nil {
		return err
	}
	if a.getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(reconcileMemory)
	}
	undo, err := opts.undoPath(a.now())
	if err != nil {
		return err
	}
	r, err := a.reconciler(ctx, opts.scanOptions)
	if err != nil {
		return err
	}
	progress := a.Progress("reconcile", "keys")
	f, err := r.Scan(ctx, func(p reconcile.Progress) { progress.Update(p.Done, p.Total, p.Phase) })
	progress.Finish()
	if err != nil {
		return columnsError(err)
	}
	a.closeLater(f)
	j.result.Report = &f.Report
	if len(opts.kinds) > 0 {
		err = j.fix(ctx, r, f, undo)
	}
	return errors.Join(a.Print(j.result.render(opts)), err, j.status(ctx))
}

// fix plans, and with --execute repairs. What is planned is what is done (invariant 11).
func (j *reconcileJob) fix(ctx context.Context, r *reconcile.Reconciler, f *reconcile.Findings, path string) (err error) {
	plan, err := f.Plan(j.opts.kinds)
	if _, unsound := errors.AsType[*reconcile.UnsoundError](err); unsound {
		return withStatus(exitIncomplete, err)
	}
	if err != nil {
		return err
	}
	j.result.Plan = &plan
	if !j.opts.execute || ctx.Err() != nil {
		return nil
	}
	finish, err := j.app.record(ctx, plan)
	if err != nil {
		return err
	}
	undo := reconcile.NewUndoFile(path)
	defer func() { err = errors.Join(err, undo.Close()) }()
	progress := j.app.Progress("repair", "markers")
	rep, err := r.Fix(ctx, plan, undo, func(p reconcile.Progress) { progress.Update(p.Done, p.Total, "") })
	progress.Finish()
	j.result.Fix = &rep
	finish(resultWord(err), rep)
	return err
}

// status is the exit status of what was found, and not repaired.
func (j *reconcileJob) status(ctx context.Context) error {
	r := &j.result
	switch {
	case ctx.Err() != nil:
		return withStatus(exitInterrupted, errInterrupted)
	case !r.Report.Complete:
		return exitStatus(exitIncomplete)
	case r.Plan != nil && r.Fix == nil: // a plan
		return nil
	case r.left():
		return exitStatus(exitFinding)
	}
	return nil
}

// scanOptions are those of the flags.
func (o *reconcileOptions) scanOptions(a *app, to *reconcile.Options) error {
	to.Rate, to.MaxDuration, to.Sample, to.BizTypes = o.rate, time.Duration(o.maxDuration), o.sample, o.bizTypes
	to.Settle, to.Examples = time.Duration(o.settle), o.examples
	if ago, err := parseDuration(o.since); err == nil && ago > 0 {
		to.Since = a.now().Add(-ago)
		return nil
	}
	var err error
	if to.Since, err = parseSince(o.since, a.config.Location()); err != nil {
		return usageErrorf("--since %q: expected a date (2026-11-01), RFC 3339, or how long ago (24h, 7d)", o.since)
	}
	return nil
}

// reconcileMemory is from where on the collector works harder, in bytes: a scan holds a few megabytes however long it is,
// and all else is what its pages left behind.
const reconcileMemory = 28 << 20

// reconcileRead bounds one pipeline of a scan: some thousand commands on a busy server.
const reconcileRead = 15 * time.Second

// reconciler opens both stores. adjust adds what the configuration does not say.
func (a *app) reconciler(ctx context.Context, adjust func(*app, *reconcile.Options) error) (*reconcile.Reconciler, error) {
	cfg, err := a.Config()
	if err != nil {
		return nil, err
	}
	r := &cfg.Redis
	template, err := ledger.ParseKeyTemplate(r.Key)
	if err != nil {
		return nil, usageErrorf("redis.key: %w", err)
	}
	opts := reconcile.Options{
		Template: template, Lease: r.Lease, CompletedTTL: r.CompletedTTL, Bare: r.Markers == markersBare,
		Slack: cfg.Ledger.HorizonSlack, Retention: cfg.Ledger.Retention, Now: a.now,
	}
	if opts.LedgerBizTypes, opts.MemorySince, err = cfg.effects(); err != nil {
		return nil, err
	}
	if adjust != nil {
		if err := adjust(a, &opts); err != nil {
			return nil, err
		}
	}
	if opts.DB, opts.Scheme, err = a.ledgerDB(ctx); err != nil {
		return nil, err
	}
	if opts.Redis, err = a.scanRedis(ctx); err != nil {
		return nil, err
	}
	rec, err := reconcile.New(opts)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.command, err)
	}
	return rec, nil
}

// columnsError makes a column map that does not fit the tables a fault of the configuration.
func columnsError(err error) error {
	if errors.Is(err, ledger.ErrColumnMap) {
		return usageErrorf("ledger.columns: %w", err)
	}
	return err
}

// effects are the biz_types of the configured handlers, and since when each is vouched for: of several words the latest.
func (c *Config) effects() (kinds []string, since map[string]time.Time, err error) {
	since = map[string]time.Time{}
	for _, name := range slices.Sorted(maps.Keys(c.Handlers)) {
		h := c.Handlers[name]
		t, err := h.memorySince(c.Location())
		if err != nil {
			return nil, nil, usageErrorf("handlers.%s.memory_since: %w", name, err)
		}
		if !slices.Contains(kinds, h.BizType) {
			kinds = append(kinds, h.BizType)
		}
		if t.After(since[h.BizType]) {
			since[h.BizType] = t
		}
	}
	return kinds, since, nil
}
