package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/internal/render"
	"github.com/idemctl/idemctl/internal/runlog"
	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/partition"
)

func newPartitionCmd(a *app) *cobra.Command {
	return newGroup(&cobra.Command{
		Use:   "partition",
		Short: "Create, list and check the ledger's monthly tables",
		Long: `Create, list and check the ledger's monthly tables, and the catalog that tells
every guard which ones there are and what they remember.

Exit status:
  0    done` + exitHelp(),
	}, newPartitionCreateCmd(a), newPartitionListCmd(a), newPartitionCheckCmd(a), newPartitionRotateCmd(a))
}

type partitionCreateOptions struct {
	ahead       int
	from        string
	memorySince string
	bizTypes    []string
	asOf        asOfFlag
	execute     bool
}

func newPartitionCreateCmd(a *app) *cobra.Command {
	var opts partitionCreateOptions
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Create the months that are missing",
		Long: `Create the monthly tables that are missing: from --from (or the oldest month
there is, so that holes are filled) to --ahead months after the current one. On
a ledger that does not exist yet this makes the catalog too. Without --execute
the plan is printed and nothing is changed.

A new ledger remembers nothing from before it was made, so older messages are
refused (outside_horizon). --memory-since is your word that no effect ran
outside this ledger from then on. It is given for every biz_type that has not
claimed anything yet, or for those named with --biz-type. A month that is made
after it has ended, or made again, is not remembered either, unless
--memory-since covers it.

With -q and --execute nothing is printed when all went well, for cron.

Exit status:
  0    done, or a plan was printed` + exitHelp(`  4    incomplete: another session's lock is in the way; run again
  5    busy: another run is creating, purging or restoring (see --wait)`),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runPartitionCreate(cmd.Context(), a, opts) },
	}
	opts.AddFlags(cmd.Flags())
	return cmd
}

// AddFlags declares the command's flags.
func (o *partitionCreateOptions) AddFlags(fs *pflag.FlagSet) {
	fs.IntVar(&o.ahead, "ahead", 2, "`MONTHS` after the current one that shall exist") //nolint:mnd // the documented default
	fs.StringVar(&o.from, "from", "", "first month, `YYYY-MM`")
	fs.StringVar(&o.memorySince, "memory-since", "", "`TIME` from when on no effect ran outside this ledger: a date, or RFC 3339")
	fs.StringSliceVar(&o.bizTypes, "biz-type", nil, "`BIZ_TYPE` that --memory-since is given for although it has claimed already")
	o.asOf.addTo(fs)
	fs.BoolVar(&o.execute, "execute", false, "do it")
}

func (o *partitionCreateOptions) request(loc *time.Location) (partition.CreateRequest, error) {
	req := partition.CreateRequest{Ahead: o.ahead, BizTypes: o.bizTypes}
	if o.ahead < 0 {
		return req, usageErrorf("--ahead %d: expected 0 or more", o.ahead)
	}
	if o.from != "" {
		var err error
		if req.From, err = partition.ParseMonth(o.from); err != nil {
			return req, usageErrorf("--from: %w", err)
		}
	}
	if err := o.asOf.refuse(o.execute); err != nil {
		return req, err
	}
	var err error
	if req.AsOf, err = o.asOf.parse(loc); err != nil {
		return req, err
	}
	if req.MemorySince, err = parseSince(o.memorySince, loc); err != nil {
		return req, usageErrorf("--memory-since %w", err)
	}
	if len(o.bizTypes) > 0 && o.memorySince == "" {
		return req, usageErrorf("--biz-type says for what --memory-since is given, and that is missing")
	}
	for _, b := range o.bizTypes {
		if err := ledger.ValidateBizType(b); err != nil {
			return req, usageErrorf("--biz-type: %w", err)
		}
	}
	return req, nil
}

func runPartitionCreate(ctx context.Context, a *app, opts partitionCreateOptions) error {
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	req, err := opts.request(cfg.Location())
	if err != nil {
		return err
	}
	if err := cfg.requireOwnLedger("partition create"); err != nil {
		return err
	}
	m, err := a.Manager(ctx)
	if err != nil {
		return err
	}
	plan, err := m.PlanCreate(ctx, req)
	switch {
	case errors.Is(err, partition.ErrTimeZone), errors.Is(err, partition.ErrTooManyTables), errors.Is(err, partition.ErrVouchFuture):
		return usageErrorf("plan the months: %w", err)
	case err != nil:
		return fmt.Errorf("plan the months: %w", err)
	}
	result := partitionCreateResult{Plan: plan}
	if opts.execute {
		if err := a.createMonths(ctx, m, &result); err != nil {
			return err
		}
	}
	out := result.render(cfg.Location())
	if opts.execute {
		return a.PrintUnlessQuiet(out)
	}
	return a.Print(out)
}

func (a *app) createMonths(ctx context.Context, m *partition.Manager, result *partitionCreateResult) error {
	db, err := a.WritableDB(ctx)
	if err != nil {
		return fmt.Errorf("create the months: %w", err)
	}
	if err := runlog.New(db).Ensure(ctx); err != nil {
		return fmt.Errorf("create the months: %w", err)
	}
	finish, err := a.record(ctx, result.Plan)
	if err != nil {
		return err
	}
	var rep partition.CreateReport
	err = a.untilFree(ctx, func() error {
		rep, err = m.Create(ctx, result.Plan)
		return err
	})
	finish(resultWord(err), rep)
	if err != nil {
		return fmt.Errorf("create the months: %w", err)
	}
	result.Report = &rep
	return nil
}

// untilFree tries again while another run holds the lock, if --wait asks for it.
func (a *app) untilFree(ctx context.Context, job func() error) error {
	const every = time.Second
	for {
		err := job()
		if !a.flags.wait || !errors.Is(err, mysqlx.ErrLockHeld) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(every):
		}
	}
}

// resultWord is how a run's end is recorded.
func resultWord(err error) string {
	switch exitCode(err) {
	case exitDone:
		return "done"
	case exitInterrupted:
		return "interrupted"
	case exitBusy:
		return "busy"
	case exitIncomplete:
		return "deferred"
	}
	return "failed"
}

// partitionCreateResult is what `partition create` says.
type partitionCreateResult struct {
	Plan partition.CreatePlan `json:"plan"`
	// Report is missing where only the plan was asked for.
	Report *partition.CreateReport `json:"report,omitempty"`
}

func (r *partitionCreateResult) render(loc *time.Location) render.Result {
	t := render.Table{Columns: []render.Column{
		{Name: "month"}, {Name: "table", Shrink: true}, {Name: "action"}, {Name: "memory complete after"},
	}}
	for _, s := range r.Plan.Steps {
		since := "unchanged"
		if !s.RaisesHorizon.IsZero() {
			since = s.RaisesHorizon.In(loc).Format(time.RFC3339)
		}
		t.Add(s.Month.String(), s.Table, s.Action, since)
	}
	out := render.Result{Value: r, Tables: []render.Table{t}, Notes: r.notes()}
	if len(r.Plan.Steps) == 0 {
		out.Tables = nil
	}
	return out
}

func (r *partitionCreateResult) notes() []string {
	var notes []string
	if r.Plan.NewLedger {
		notes = append(notes, "A new ledger: the catalog is made too. Months are those of "+r.Plan.TimeZone+".")
	}
	if !r.Plan.MemorySince.IsZero() {
		whom := "every biz_type that has not claimed yet"
		if len(r.Plan.BizTypes) > 0 {
			whom = strings.Join(r.Plan.BizTypes, ", ")
		}
		notes = append(notes, fmt.Sprintf("Vouched for since %s: %s.", r.Plan.MemorySince.Format(time.RFC3339), whom))
	}
	if r.Plan.Rehearsal {
		notes = append(notes, asOfNote(r.Plan.Now))
	}
	switch {
	case r.Report != nil:
		notes = append(notes, fmt.Sprintf("Created %d, listed %d, present before %d.", len(r.Report.Created), len(r.Report.Listed), r.Report.Present))
	case r.Plan.Empty():
		notes = append(notes, fmt.Sprintf("Nothing to do: all %d months are there.", r.Plan.Present))
	case r.Plan.Rehearsal:
	default:
		notes = append(notes, "This is the plan; nothing was changed. Add --execute to do it.")
	}
	return notes
}
