package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/idemctl/idemctl/internal/doctor"
)

type doctorOptions struct {
	only    []string
	skip    []string
	strict  bool
	group   string
	metrics pathFlag
}

func newDoctorCmd(a *app) *cobra.Command {
	var opts doctorOptions
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check this setup for what would lose orders or do them twice",
		Long: `Check the servers and the configuration for what would lose orders or do them
twice: tables, settings, retention, clocks, privileges, markers of other
writers. Nothing is changed anywhere; Redis and the newest rows are sampled.

Each check is ok, warn or fail, with what was read, why it matters and what
mends it. A check whose server is not configured is skipped; one that could not
be carried out is unknown. --only and --skip take names of checks, or of groups
of them (ledger, mysql, redis, topic, time, config). docs/doctor.md explains
each.

Exit status:
  0    nothing that fails was found
  1    a check failed; with --strict, or warned` + exitHelp(`  4    incomplete: something could not be looked at`),
		Example: `  idemctl doctor --group order-paid-coupon
  idemctl doctor --only ledger,mysql.sql-mode --strict -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDoctor(cmd.Context(), a, &opts) },
	}
	opts.AddFlags(cmd.Flags())
	return cmd
}

// AddFlags declares the command's flags.
func (o *doctorOptions) AddFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&o.only, "only", nil, "only these `CHECKS`, separated by commas")
	fs.StringSliceVar(&o.skip, "skip", nil, "not these `CHECKS`, separated by commas")
	fs.BoolVar(&o.strict, "strict", false, "a warning is a finding too (exit status 1)")
	fs.StringVar(&o.group, "group", "", "the live consumer's `GROUP`, to look at the age of its lag")
	fs.Var(&o.metrics, "metrics-file", "write the result to `FILE` for the textfile collector")
}

// checks are those that the flags leave, in their own order.
func (o *doctorOptions) checks() ([]doctor.Check, error) {
	all := doctor.Checks()
	for flag, names := range map[string][]string{"--only": o.only, "--skip": o.skip} {
		for _, name := range names {
			if !slices.ContainsFunc(all, func(c doctor.Check) bool { return checkNamed(c, name) }) {
				return nil, unknownCheck(flag, name, all)
			}
		}
	}
	var left []doctor.Check
	for _, c := range all {
		named := func(name string) bool { return checkNamed(c, name) }
		if (len(o.only) == 0 || slices.ContainsFunc(o.only, named)) && !slices.ContainsFunc(o.skip, named) {
			left = append(left, c)
		}
	}
	if len(left) == 0 {
		return nil, usageErrorf("--only and --skip leave no check")
	}
	return left, nil
}

// checkNamed says whether a name, of one check or of a group, means c.
func checkNamed(c doctor.Check, name string) bool {
	group, _, _ := strings.Cut(c.Name, ".")
	return name == c.Name || name == group
}

func unknownCheck(flag, name string, all []doctor.Check) error {
	var names, groups []string
	for _, c := range all {
		group, _, _ := strings.Cut(c.Name, ".")
		if !slices.Contains(groups, group) {
			groups = append(groups, group)
		}
		names = append(names, c.Name)
	}
	if near, ok := nearest(name, slices.Concat(names, groups)); ok {
		return usageErrorf("%s: there is no check %q; did you mean %q?", flag, name, near)
	}
	return usageErrorf("%s: there is no check %q; groups of them are %s", flag, name, strings.Join(groups, ", "))
}

func runDoctor(ctx context.Context, a *app, opts *doctorOptions) error {
	checks, err := opts.checks()
	if err != nil {
		return err
	}
	started := a.now()
	setup, err := a.doctorSetup(ctx, checks)
	if err != nil {
		return err
	}
	setup.Group = opts.group
	rep, err := doctor.Run(ctx, doctor.NewFacts(setup), checks)
	if err != nil {
		return fmt.Errorf("doctor: %w", err)
	}
	status := doctorStatus(&rep, opts.strict)
	if opts.metrics != "" {
		if err := a.doctorMetrics(&rep, string(opts.metrics), started, exitCode(status)); err != nil {
			return err
		}
	}
	if err := a.Print(doctorResult(&rep, opts.strict, a.flags.output)); err != nil {
		return err
	}
	return status
}

// doctorStatus is the exit status by the table of the long help. Who has not looked at everything cannot say that the rest
// is well, so incomplete comes before found; and who has seen nothing at all could not do what was asked.
func doctorStatus(rep *doctor.Report, strict bool) error {
	switch {
	case rep.Count(doctor.Unknown) > 0 && rep.Looked() == 0:
		return exitStatus(exitFailure)
	case rep.Count(doctor.Unknown) > 0:
		return exitStatus(exitIncomplete)
	case rep.Count(doctor.Fail) > 0 || strict && rep.Count(doctor.Warn) > 0:
		return exitStatus(exitFinding)
	}
	return nil
}
