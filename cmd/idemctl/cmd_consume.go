package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/idemctl/idemctl/pkg/replay/kafka"
)

// The values of --from.
const (
	fromStart = "start"
	fromEnd   = "end"
)

type consumeOptions struct {
	guardFlags

	group            string
	instanceID       string
	bizType          string
	from             choiceFlag
	batch            int
	untilEnd         bool
	sessionTimeout   durationFlag
	rebalanceTimeout durationFlag
	stall            durationFlag
	listen           string
	alwaysLook       bool // no flag: what is replayed is looked up in the ledger, whatever Redis says
}

func newConsumeCmd(a *app) *cobra.Command {
	var opts consumeOptions
	cmd := &cobra.Command{
		Use:   "consume TOPIC --group GROUP",
		Short: "Consume a topic through its guarded handlers",
		Long: `Consume a topic as a member of a consumer group, through every handler that is
configured for it (or that of --biz-type), until it is told to stop. Run it
several times with one group to share the partitions.

An offset is committed only when its message and all before it are done: each
handler has executed or absorbed it, or it is parked (a dead letter written and
acknowledged). A message that another owner holds, and a server that is away,
hold their partition and no other. A partition that moves to another member
stops between two batches.

With --until-end it ends when the group has consumed what the topic holds now,
or when every partition left is held by a record that only you can let pass.

With --listen, /metrics is for Prometheus, and /healthz answers 503 when a
partition with work has made no progress for --stall.

Exit status:
  0    every record executed or absorbed (--until-end)` + exitHelp(`  4    incomplete: a record was parked, or is held back`),
		Example: `  idemctl consume order-paid --group coupons
  idemctl consume order-paid --group coupons --until-end
  idemctl consume order-paid --group coupons --listen 127.0.0.1:9464`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runConsume(cmd.Context(), a, &opts, args[0]) },
	}
	opts.AddFlags(cmd.Flags())
	return cmd
}

// AddFlags declares the command's flags.
func (o *consumeOptions) AddFlags(fs *pflag.FlagSet) {
	o.guardFlags.AddFlags(fs)
	o.from = choiceFlag{value: fromStart, allowed: []string{fromStart, fromEnd}}
	o.sessionTimeout = durationFlag(kafka.DefaultSessionTimeout)
	o.rebalanceTimeout = durationFlag(kafka.DefaultRebalanceTimeout)
	o.stall = durationFlag(5 * time.Minute) //nolint:mnd // the documented default: above two leases of the usual length
	fs.StringVar(&o.group, "group", "", "consumer `GROUP` to join")
	fs.StringVar(&o.instanceID, "instance-id", "", "`ID` of a static member, which may restart without a rebalance")
	fs.StringVar(&o.bizType, "biz-type", "", "only the handler of this `BIZ_TYPE`")
	fs.Var(&o.from, "from", "`WHERE` a partition without a committed offset begins: start or end")
	fs.IntVar(&o.batch, "batch", kafka.DefaultBatch, "records of a partition in one transaction; 1: one at a time")
	fs.BoolVar(&o.untilEnd, "until-end", false, "stop when the group has consumed what the topic holds now")
	fs.Var(&o.sessionTimeout, "session-timeout", "how long the group waits for a member that is silent")
	fs.Var(&o.rebalanceTimeout, "rebalance-timeout", "how long the group waits for a member to give partitions up")
	fs.Var(&o.stall, "stall", "time without progress after which /healthz complains")
	fs.StringVar(&o.listen, "listen", "", "`ADDRESS` for /metrics and /healthz, host:port")
}

func (o *consumeOptions) check() error {
	switch {
	case o.group == "":
		return usageErrorf("consume: --group is missing: the group whose offsets are committed")
	case o.batch < 1 || o.batch > maxBatch:
		return usageErrorf("--batch %d: expected 1 to %d", o.batch, maxBatch)
	}
	return nil
}

// guard goes on without Redis, also from the beginning: a consumer that must restart at night must not wait for it.
func (o *consumeOptions) guard() guardOptions {
	g := o.guardOptions(o.alwaysLook)
	g.blind = true
	return g
}

// maxBatch bounds a transaction: its locks are held until the last effect has run.
const maxBatch = 1000

func runConsume(ctx context.Context, a *app, opts *consumeOptions, topic string) error {
	if err := opts.check(); err != nil {
		return err
	}
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	handlers, err := cfg.HandlersOf(topic, opts.bizType)
	switch {
	case err != nil:
		return err
	case len(handlers) == 0:
		return cfg.noHandler(topic, opts.bizType)
	}
	job, err := newConsumeJob(ctx, a, opts, topic, handlers)
	if err != nil {
		return err
	}
	ends, err := job.ends(ctx, topic)
	if err != nil {
		return err
	}
	if opts.untilEnd {
		job.plan.Until = ends
	}
	return job.run(ctx)
}
