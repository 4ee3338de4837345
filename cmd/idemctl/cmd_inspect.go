package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/idemctl/idemctl/internal/doctor/inspect"
	"github.com/idemctl/idemctl/pkg/ledger"
)

type inspectOptions struct {
	rangeOptions

	bizType string
	topic   string
	hex     bool
}

func newInspectCmd(a *app) *cobra.Command {
	var opts inspectOptions
	cmd := &cobra.Command{
		Use:   "inspect ORDER_ID...",
		Short: "Show all that is known of an order",
		Long: `Show all that is known of an order, for each biz_type: the marker in Redis and
what its TTL means, the ledger's rows in all months and held tables, from when
on the ledger's memory is complete, the runs that may have touched it, where it
stands in a state machine, and, with --topic, its records and what would come of
each. The first line says in words what a redelivery would meet. Nothing is
changed.

An order id of any bytes is given as $'...' with the escapes of bash, or in hex
with --hex. Without --biz-type: those of all handlers, and whatever the months
hold. Times are UTC.

Exit status:
  0    done, also where nothing is known of the order` + exitHelp(`  4    incomplete: Redis does not answer, or not the whole range was read`),
		Example: `  idemctl inspect 20261111-8842
  idemctl inspect 20261111-8842 --topic order-paid --range @2026-11-11
  idemctl inspect '$'\''ORD\x001'\''' --biz-type COUPON -o json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runInspect(cmd.Context(), a, &opts, cmd.Flags(), args)
		},
	}
	opts.AddFlags(cmd.Flags())
	return cmd
}

// AddFlags declares the command's flags.
func (o *inspectOptions) AddFlags(fs *pflag.FlagSet) {
	o.rangeOptions.AddFlags(fs)
	fs.StringVar(&o.bizType, "biz-type", "", "only this `BIZ_TYPE`")
	fs.StringVar(&o.topic, "topic", "", "also look for its records in a range of this `TOPIC`")
	fs.BoolVar(&o.hex, "hex", false, "the order ids are given in hex")
}

// check refuses what no server need be asked about.
func (o *inspectOptions) check(fs *pflag.FlagSet) error {
	if o.bizType != "" {
		if err := ledger.ValidateBizType(o.bizType); err != nil {
			return usageErrorf("--biz-type: %w", err)
		}
	}
	if o.topic == "" {
		for _, name := range []string{"range", "partition", "allow-clipped"} {
			if fs.Changed(name) {
				return usageErrorf("--%s says which records of a topic: name it with --topic", name)
			}
		}
	}
	return nil
}

func runInspect(ctx context.Context, a *app, opts *inspectOptions, fs *pflag.FlagSet, args []string) error {
	if err := opts.check(fs); err != nil {
		return err
	}
	ids, err := orderIDs(args, opts.hex)
	if err != nil {
		return err
	}
	search, err := newRecordSearch(a, opts)
	if err != nil {
		return err
	}
	looker, err := a.looker(ctx, opts)
	if err != nil {
		return err
	}
	result := inspectResult{Orders: []inspect.Order{}}
	for _, id := range ids {
		o, err := looker.Look(ctx, id)
		if err != nil {
			return fmt.Errorf("inspect: %w", err)
		}
		result.Orders = append(result.Orders, o)
	}
	serr := search.run(ctx, a, &result)
	if ctx.Err() != nil {
		return serr
	}
	if err := a.Print(result.render(a.flags.output)); err != nil {
		return errors.Join(serr, err)
	}
	if serr != nil {
		return serr
	}
	if result.incomplete() {
		return exitStatus(exitIncomplete)
	}
	return nil
}

// looker opens what an order is looked up in. A Redis that does not answer is part of what is found: the ledger decides, so
// it is looked into all the same.
func (a *app) looker(ctx context.Context, opts *inspectOptions) (*inspect.Looker, error) {
	cfg, err := a.Config()
	if err != nil {
		return nil, err
	}
	scheme, err := cfg.scheme()
	if err != nil {
		return nil, err
	}
	template, err := ledger.ParseKeyTemplate(cfg.Redis.Key)
	if err != nil {
		return nil, usageErrorf("redis.key: %w", err)
	}
	db, err := a.DB(ctx)
	if err != nil {
		return nil, err
	}
	o := inspect.Options{
		DB: db, Scheme: scheme, Template: template, Lease: cfg.Redis.Lease, Slack: cfg.Ledger.HorizonSlack, Bare: cfg.Redis.Markers == markersBare, Only: opts.bizType,
	}
	for _, name := range sortedKeys(cfg.Handlers) {
		o.BizTypes = append(o.BizTypes, cfg.Handlers[name].BizType)
	}
	if cfg.redisConfigured() {
		var client redis.UniversalClient
		client, err = a.patientRedis(ctx, cfg)
		if o.RedisErr, err = split(err); err != nil {
			return nil, err
		}
		o.Redis = client
	}
	l, err := inspect.New(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("inspect: %w", err)
	}
	return l, nil
}
