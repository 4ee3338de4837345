package main

import (
	"context"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/idemctl/idemctl/pkg/purge"
)

type purgeOptions struct {
	window           durationFlag
	before           string
	asOf             asOfFlag
	archive          pathFlag
	maxRows          int64
	runTime          durationFlag
	maxLag           durationFlag
	replica          string
	batch            int
	pause            waitFlag
	hold             waitFlag
	parallel         int
	rowsOnly         bool
	stopFile         pathFlag
	metricsFile      pathFlag
	acceptReplayRisk bool
	execute          bool
}

func newPurgeCmd(a *app) *cobra.Command {
	opts := purgeOptions{window: durationFlag(purge.DefaultWindow), hold: waitFlag(purge.DefaultHold)}
	cmd := newGroup(&cobra.Command{
		Use:   "purge",
		Short: "Let expired entries go, by rows or whole months, with an archive if asked",
		Long: `Let the ledger's expired entries go: rows past expire_at in windows of 30 days,
oldest first; a past month of which every row is expired is renamed, held,
checked again and dropped. Without --execute the plan is printed and nothing is
changed.

Before the first row goes, the horizon is raised: a message older than that is
refused from then on (outside_horizon), since the ledger can no longer prove
that it is new. With --archive each row is in a verified file before it goes.

Where Kafka is configured, the ledger's retention is compared with how far back
the handlers' topics can be replayed; if that is further, --execute is refused.

Exit status:
  0    done, or a plan was printed` + exitHelp(
			`  4    incomplete: a month was put off, or --max-rows, --run-time or the stop
       file ended the run; the result says which, and the next run goes on`,
			`  5    busy: another run is creating, purging or restoring (see --wait)`),
		Example: `  idemctl purge
  idemctl purge --execute --archive /var/backups/idem --run-time 2h
  idemctl purge -q --execute --metrics-file /var/lib/node_exporter/idem.prom`,
	}, newPurgeRestoreCmd(a), newPurgeArchivesCmd(a))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return runPurge(cmd.Context(), a, &opts) }
	opts.AddFlags(cmd.Flags())
	return cmd
}

// AddFlags declares the command's flags.
func (o *purgeOptions) AddFlags(fs *pflag.FlagSet) {
	fs.Var(&o.window, "window", "slice of expiry times that is worked and reported as one, whole days")
	fs.StringVar(&o.before, "before", "", "only rows that expired before `TIME`, a date or RFC 3339; else before the database's now")
	o.asOf.addTo(fs)
	fs.Var(&o.archive, "archive", "write the rows to a file in this `FOLDER` first")
	fs.Int64Var(&o.maxRows, "max-rows", 0, "end after `N` rows; 0: no limit")
	fs.Var(&o.runTime, "run-time", "end after so `LONG`")
	fs.Var(&o.maxLag, "max-lag", "pause while --replica is further behind than this, or does not know")
	fs.StringVar(&o.replica, "replica", "", "`HOST:PORT` of a replica to wait for, with the ledger's own user and password")
	fs.IntVar(&o.batch, "batch", purge.DefaultBatch, "at most `N` rows in one DELETE")
	fs.Var(&o.pause, "pause", "wait so `LONG` after each DELETE, a quarter more or less")
	fs.Var(&o.hold, "hold", "how `LONG` a renamed month waits for late rows before it is checked again and dropped")
	fs.IntVar(&o.parallel, "parallel", defaultPurgeParallel, "run `N` DELETEs at once")
	fs.BoolVar(&o.rowsOnly, "rows-only", false, "drop no month: delete its rows")
	fs.Var(&o.stopFile, "stop-file", "end soon after this `FILE` appears")
	fs.Var(&o.metricsFile, "metrics-file", "write metrics of the run to this `FILE`, for a textfile collector")
	fs.BoolVar(&o.acceptReplayRisk, "accept-replay-risk", false, "purge although a topic can be replayed further back than the ledger remembers")
	fs.BoolVar(&o.execute, "execute", false, "do it")
	for _, unset := range []string{"run-time", "max-lag"} {
		fs.Lookup(unset).DefValue = "" // there is none
	}
}

// check refuses what no server need be asked about.
func (o *purgeOptions) check() error {
	window := time.Duration(o.window)
	switch {
	case window%day != 0:
		return usageErrorf("--window %s: expected whole days, such as 30d", formatDuration(window))
	case o.maxRows < 0:
		return usageErrorf("--max-rows %d: expected 0 or more", o.maxRows)
	case o.batch < 1 || o.batch > purge.MaxBatch:
		return usageErrorf("--batch %d: expected 1 to %d", o.batch, purge.MaxBatch)
	case o.parallel < 1 || o.parallel > purge.MaxParallel:
		return usageErrorf("--parallel %d: expected 1 to %d", o.parallel, purge.MaxParallel)
	case o.maxLag > 0 && o.replica == "":
		return usageErrorf("--max-lag needs --replica HOST:PORT: there is nobody to ask how far behind he is")
	case o.replica != "" && o.maxLag == 0:
		return usageErrorf("--replica says whom to wait for; say at how much lag with --max-lag")
	case o.metricsFile != "" && !o.execute:
		return usageErrorf("--metrics-file is about a run: it goes with --execute")
	}
	if err := o.asOf.refuse(o.execute); err != nil {
		return err
	}
	if o.asOf.text != "" && o.before != "" {
		return usageErrorf("--as-of and --before both say when the rows must have expired: give one")
	}
	if o.metricsFile != "" {
		if err := existingFolder("--metrics-file", filepath.Dir(string(o.metricsFile))); err != nil {
			return err
		}
	}
	if o.archive != "" {
		return existingFolder("--archive", string(o.archive))
	}
	return nil
}

// defaultPurgeParallel keeps a second processor of the server busy; what is deleted at once stays small.
const defaultPurgeParallel = 2

// runPurge plans, and with --execute carries the plan out. However it ends, the metrics file says so.
func runPurge(ctx context.Context, a *app, opts *purgeOptions) error {
	job := &purgeJob{app: a, opts: opts, started: a.now()}
	return job.measured(ctx, job.run(ctx))
}
