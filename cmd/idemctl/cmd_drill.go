package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/idemctl/idemctl/internal/drill"
	"github.com/idemctl/idemctl/internal/lab"
)

// maxRepeat bounds --repeat: a night.
const maxRepeat = 1000

type drillOptions struct {
	orders     int
	faults     []string
	seed       uint64
	strategies []string
	repeat     int
	kafka      choiceFlag
}

func newDrillCmd(a *app) *cobra.Command {
	opts := drillOptions{kafka: newLabServers().kafka}
	cmd := &cobra.Command{
		Use:   "drill",
		Short: "Compare ways of building the consumer under faults, on throw-away servers",
		Long: `Start throw-away servers, send one stream of orders and one schedule of faults
through each way of building the consumer, and count the effects of each order:
how many there are too many (duplicates), and how many orders have none (lost).

Strategies: naive (effect, then commit the offset), token (front token only),
redis-only (SET NX EX), select-insert (SELECT, then INSERT), ledger-only (unique
row, no filter), two-layer (as commonly published), guard and guard-batch (this
project, one message at a time and 20 in a transaction).

Faults: redelivery, crash, rebalance, redis-flush, redis-stall, redis-failover,
foreign-completed, mysql-failover, mysql-kill, locks, slow, month-turn, burst.
They come at counts of messages that the seed decides, never at times.

Only the guard's rows are asserted; of the others what happened is reported.
Two MariaDB, two Redis and a Kafka are started, and nothing else is touched.

Exit status:
  0    the guard lost and repeated nothing
  1    the guard lost, repeated or parked something
  2    usage or configuration is wrong; nothing was done
  3    the drill could not be carried out
  130  interrupted (Ctrl-C, SIGTERM); the runs that were over are reported`,
		Example: `  idemctl drill
  idemctl drill --faults crash,redis-flush --strategy two-layer,guard
  idemctl drill --repeat 50 --strategy guard,guard-batch -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDrill(cmd.Context(), a, &opts) },
	}
	opts.AddFlags(cmd.Flags())
	return cmd
}

// AddFlags declares the command's flags.
func (o *drillOptions) AddFlags(fs *pflag.FlagSet) {
	fs.IntVar(&o.orders, "orders", drill.DefaultOrders, fmt.Sprintf("publish `N` different orders, %d to %d", drill.MinOrders, drill.MaxOrders))
	fs.StringSliceVar(&o.faults, "faults", []string{drill.All}, "`FAULTS` to inject, separated by commas; all, or none")
	fs.Uint64Var(&o.seed, "seed", 1, "`N` that decides the stream and where the faults come")
	fs.StringSliceVar(&o.strategies, "strategy", []string{drill.All}, "`STRATEGIES` to drill, separated by commas; all")
	fs.IntVar(&o.repeat, "repeat", 1, "do all of it `N` times, each time with the next seed")
	fs.Var(&o.kafka, "kafka", "`KAFKA` to start: embedded (in this process) or apache (a real node)")
}

// plan reads the flags.
func (o *drillOptions) plan() (drill.Options, error) {
	switch {
	case o.orders < drill.MinOrders || o.orders > drill.MaxOrders:
		return drill.Options{}, usageErrorf("--orders %d: expected %d to %d", o.orders, drill.MinOrders, drill.MaxOrders)
	case o.repeat < 1 || o.repeat > maxRepeat:
		return drill.Options{}, usageErrorf("--repeat %d: expected 1 to %d", o.repeat, maxRepeat)
	}
	faults, err := drill.ParseFaults(o.faults)
	if err != nil {
		return drill.Options{}, usageErrorf("--faults: %w", err)
	}
	strategies, err := drill.ParseStrategies(o.strategies)
	if err != nil {
		return drill.Options{}, usageErrorf("--strategy: %w", err)
	}
	return drill.Options{Orders: o.orders, Faults: faults, Seed: o.seed, Strategies: strategies, Repeat: o.repeat}, nil
}

func runDrill(ctx context.Context, a *app, opts *drillOptions) (err error) {
	if err := a.refuseOwnServers(); err != nil {
		return err
	}
	plan, err := opts.plan()
	if err != nil {
		return err
	}
	began := a.now()
	servers, err := drill.StartServers(ctx, lab.NewHost(a.getenv), opts.kafka.value, nil)
	if err != nil {
		return a.labError(ctx, err)
	}
	defer func() { err = errors.Join(err, servers.Close()) }()
	started := a.now().Sub(began)
	progress := a.Progress("drill", "runs")
	plan.Now, plan.Logger = a.now, a.log()
	plan.Progress = func(done, total int, r *drill.Result) {
		progress.Update(int64(done), int64(total), fmt.Sprintf("%s, seed %d", r.Strategy, r.Seed))
	}
	report, err := drill.Run(ctx, servers, plan)
	progress.Finish()
	if err != nil {
		err = ended(ctx, err)
		if report == nil || len(report.Results) == 0 {
			return err
		}
		// What is over is over: a night's runs are not thrown away for the last one.
		return errors.Join(err, a.Print(drillResult(report, started.Round(100*time.Millisecond))))
	}
	if err := a.Print(drillResult(report, started.Round(100*time.Millisecond))); err != nil {
		return err
	}
	if !report.OK {
		return exitStatus(exitFinding)
	}
	return nil
}
