package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/partition"
	"github.com/idemctl/idemctl/pkg/purge"
)

// purgeJob is one call of the command.
type purgeJob struct {
	app     *app
	opts    *purgeOptions
	started time.Time

	db     *sql.DB
	scheme partition.Scheme
	server mysqlx.Server
	result purgeResult
}

// run plans and prints; with --execute the very plan is carried out before (invariant 11).
func (j *purgeJob) run(ctx context.Context) error {
	if err := j.open(ctx); err != nil {
		return err
	}
	if err := j.plan(ctx); err != nil {
		return err
	}
	if !j.opts.execute {
		return j.app.Print(j.result.render(j.opts))
	}
	if err := j.result.Risk.refusal(); err != nil && !j.opts.acceptReplayRisk {
		return fmt.Errorf("purge: %w", err)
	}
	return j.execute(ctx)
}

func (j *purgeJob) open(ctx context.Context) error {
	if err := j.opts.check(); err != nil {
		return err
	}
	var err error
	if j.db, j.scheme, err = j.app.ledgerDB(ctx); err != nil {
		return err
	}
	if j.server, err = mysqlx.Inspect(ctx, j.db); err != nil {
		return fmt.Errorf("purge: %w", err)
	}
	return nil
}

func (j *purgeJob) plan(ctx context.Context) error {
	cfg := j.app.config
	options := purge.PlanOptions{Window: time.Duration(j.opts.window), RowsOnly: j.opts.rowsOnly, Retention: cfg.Ledger.Retention}
	var err error
	if options.Before, err = parseSince(j.opts.before, cfg.Location()); err != nil {
		return usageErrorf("--before %w", err)
	}
	if options.AsOf, err = j.opts.asOf.parse(cfg.Location()); err != nil {
		return err
	}
	if err := j.waitForLock(ctx); err != nil {
		return err
	}
	plan, err := purge.PlanPurge(ctx, j.db, j.scheme, cfg.Location(), options)
	switch {
	case errors.Is(err, purge.ErrCutoffFuture), errors.Is(err, purge.ErrOptions), errors.Is(err, partition.ErrTimeZone):
		return usageErrorf("plan the purge: %w", err)
	case err != nil:
		return fmt.Errorf("plan the purge: %w", err)
	}
	j.result.Plan = plan
	j.result.Risk, err = j.app.replayRisk(ctx, plan.Now, plan.Cutoff)
	return err
}

// waitForLock has --wait wait before the plan is made: one that is older than another run's end would not hold any more.
func (j *purgeJob) waitForLock(ctx context.Context) error {
	if !j.opts.execute || !j.app.flags.wait {
		return nil
	}
	return j.app.untilFree(ctx, func() error {
		lock, err := partition.LockMonths(ctx, j.db, j.scheme)
		if err != nil {
			return fmt.Errorf("purge: %w", err)
		}
		if err := lock.Release(ctx); err != nil {
			return fmt.Errorf("purge: %w", err)
		}
		return nil
	})
}

// execute carries the plan out, records the run, prints what became of it also where it was cut short, and turns it into
// an exit status.
func (j *purgeJob) execute(ctx context.Context) error {
	// Said before the run is written down, which such a server would refuse in other words.
	if err := errors.Join(j.server.RequireSingleWriter(), j.server.RequireWritable()); err != nil {
		return fmt.Errorf("purge: %w", err)
	}
	options, err := j.runOptions(ctx)
	if err != nil {
		return err
	}
	finish, err := j.app.record(ctx, j.result.Plan)
	if err != nil {
		return err
	}
	progress := j.app.Progress("purge", "rows")
	options.Progress = func(p purge.Progress) { progress.Update(p.Done, p.Rows, purgeDetail(p)) }
	var report purge.Report
	err = j.app.untilFree(ctx, func() error {
		report, err = purge.Run(ctx, j.db, j.result.Plan, options)
		return err //nolint:wrapcheck // wrapped below
	})
	progress.Finish()
	refused := err != nil && untouched(&report)
	err = purgeStatus(&report, err)
	finish(purgeWord(err), countsOfPurge(&report))
	if refused {
		return err
	}
	j.result.Report = &report
	if err == nil {
		return j.app.PrintUnlessQuiet(j.result.render(j.opts))
	}
	return errors.Join(err, j.app.Print(j.result.render(j.opts)))
}

// untouched says that a run that ended with an error had not begun with anything: the error says all there is to say.
func untouched(r *purge.Report) bool {
	return r.Deleted == 0 && len(r.Horizon) == 0 && !slices.ContainsFunc(r.Months, func(m purge.MonthReport) bool {
		return m.Outcome != purge.OutcomeUnfinished && m.Outcome != purge.OutcomeKept || m.Archive != "" || m.HeldAs != ""
	})
}

func (j *purgeJob) runOptions(ctx context.Context) (purge.RunOptions, error) {
	o := j.opts
	options := purge.RunOptions{
		Batch: o.batch, Pause: time.Duration(o.pause), MaxRows: o.maxRows, RunTime: time.Duration(o.runTime),
		MaxLag: time.Duration(o.maxLag), Hold: time.Duration(o.hold), Parallel: o.parallel, Now: j.app.now,
	}
	if o.hold == 0 {
		options.Hold = -1 // as the library says "not at all"
	}
	if o.stopFile != "" {
		options.Stop = func() bool {
			_, err := os.Stat(string(o.stopFile))
			return err == nil
		}
	}
	if o.archive != "" {
		options.Archive = &purge.ArchiveOptions{Dir: string(o.archive), Tool: programName + " " + version(), Server: j.server.Name(), Now: j.app.now}
	}
	if o.replica != "" {
		lag, err := j.app.replicaLag(ctx, o.replica)
		if err != nil {
			return options, err
		}
		options.Lag = lag
	}
	return options, nil
}

func purgeDetail(p purge.Progress) string {
	detail := p.Table + " " + string(p.Phase)
	if p.Waiting != "" {
		detail += ", waiting for " + p.Waiting
	}
	return detail
}

// purgeStatus is the exit status by the long help.
func purgeStatus(r *purge.Report, err error) error {
	switch {
	case r.Ended == purge.EndedInterrupted, errors.Is(err, context.Canceled):
		return withStatus(exitInterrupted, errInterrupted)
	case errors.Is(err, purge.ErrCutoffFuture), errors.Is(err, purge.ErrOptions), errors.Is(err, purge.ErrRehearsal):
		return usageErrorf("purge: %w", err)
	case err != nil:
		return fmt.Errorf("purge: %w", err)
	case !r.Ended.Complete():
		return exitStatus(exitIncomplete)
	}
	return nil
}

func purgeWord(err error) string {
	if exitCode(err) == exitIncomplete {
		return "incomplete"
	}
	return resultWord(err)
}

// purgeCounts is what the run table keeps of a report: what it comes to, without each window.
type purgeCounts struct {
	Run         string                `json:"run"`
	Ended       purge.Ended           `json:"ended"`
	Deleted     int64                 `json:"deleted"`
	DroppedRows int64                 `json:"dropped_rows"`
	Skipped     int64                 `json:"skipped"`
	Dropped     []string              `json:"dropped_months"`
	Deferred    []purgeDeferral       `json:"deferred"`
	Archives    []string              `json:"archives"`
	Horizon     []purge.HorizonChange `json:"horizon"`
}

type purgeDeferral struct {
	Table  string `json:"table"`
	Reason string `json:"reason"`
}

func countsOfPurge(r *purge.Report) purgeCounts {
	c := purgeCounts{
		Run: r.Run, Ended: r.Ended, Deleted: r.Deleted, DroppedRows: r.DroppedRows, Skipped: r.Skipped, Dropped: r.Dropped(), Horizon: r.Horizon,
	}
	for _, m := range r.Months {
		if m.Outcome == purge.OutcomeDeferred {
			c.Deferred = append(c.Deferred, purgeDeferral{Table: m.Table.Name, Reason: m.Reason})
		}
		if m.Archive != "" {
			c.Archives = append(c.Archives, m.Archive)
		}
	}
	return c
}
