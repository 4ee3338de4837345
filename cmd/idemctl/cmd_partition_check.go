package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/idemctl/idemctl/internal/render"
	"github.com/idemctl/idemctl/pkg/partition"
)

type partitionCheckOptions struct {
	ahead int
	asOf  asOfFlag
}

func newPartitionCheckCmd(a *app) *cobra.Command {
	var opts partitionCheckOptions
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check that the months ahead are there and every table is as it should be",
		Long: `Check the ledger's monthly tables, for cron and CI: a month that is missing (the
current one, those ahead, holes), a listed table that is gone, a table whose
definition has drifted (column by column), a month that the catalog does not
list, what is only called like a month, what a broken-off purge left, and rows
dated in the future. Each finding comes with the command that mends it. Nothing
is changed.

A finding is "fail" where work is held up, refused or at risk, and "warn" where
someone should know. With -q nothing is printed when nothing fails.

Exit status:
  0    nothing failed; warnings may be shown
  1    something failed` + exitHelp(`  4    incomplete: not everything could be looked at`),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runPartitionCheck(cmd.Context(), a, opts) },
	}
	opts.AddFlags(cmd.Flags())
	return cmd
}

// AddFlags declares the command's flags.
func (o *partitionCheckOptions) AddFlags(fs *pflag.FlagSet) {
	fs.IntVar(&o.ahead, "ahead", 1, "`MONTHS` after the current one that must be there")
	o.asOf.addTo(fs)
}

func runPartitionCheck(ctx context.Context, a *app, opts partitionCheckOptions) error {
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	if opts.ahead < 0 || opts.ahead > partition.MaxTables {
		return usageErrorf("--ahead %d: expected 0 to %d", opts.ahead, partition.MaxTables)
	}
	asOf, err := opts.asOf.parse(cfg.Location())
	if err != nil {
		return err
	}
	m, err := a.Manager(ctx)
	if err != nil {
		return err
	}
	rep, err := m.Check(ctx, partition.CheckRequest{Ahead: opts.ahead, AsOf: asOf})
	switch {
	case errors.Is(err, partition.ErrTimeZone):
		return usageErrorf("check the months: %w", err)
	case err != nil:
		return fmt.Errorf("check the months: %w", err)
	}
	code := exitDone
	switch {
	case len(rep.NotChecked) > 0:
		code = exitIncomplete
	case rep.Failed():
		code = exitFinding
	}
	out := checkResult(&rep, a.flags.output)
	if code == exitDone {
		return a.PrintUnlessQuiet(out)
	}
	return errors.Join(a.Print(out), exitStatus(code))
}

// checkResult shows each finding over several lines to people, who must read all of it, and as a row to programs.
func checkResult(rep *partition.CheckReport, format render.Format) render.Result {
	out := render.Result{Value: rep}
	if format != render.FormatTable {
		t := render.Table{Columns: []render.Column{{Name: "severity"}, {Name: "kind"}, {Name: "table"}, {Name: "what"}, {Name: "mend"}}}
		for _, f := range rep.Findings {
			t.Add(string(f.Severity), f.Kind, f.Table, f.What, f.Mend)
		}
		for _, what := range rep.NotChecked {
			t.Add("not_checked", "not_checked", "", what, "")
		}
		out.Tables = []render.Table{t}
		return out
	}
	fails := 0
	for _, f := range rep.Findings {
		if f.Severity == partition.Fail {
			fails++
		}
		out.Notes = append(out.Notes, findingText(f.Severity, f.Kind, f.Table, f.What, f.Mend))
	}
	for _, what := range rep.NotChecked {
		out.Notes = append(out.Notes, strings.TrimPrefix(indented("Not looked at: "+what), indent))
	}
	if rep.Rehearsal {
		out.Notes = append(out.Notes, asOfNote(rep.Now))
	}
	out.Notes = append(out.Notes, fmt.Sprintf("Checked %d tables: %d fail, %d warn.", rep.Tables, fails, len(rep.Findings)-fails))
	return out
}

const indent = "      "

// findingText is one finding for people: what and where, then the words, then a line to copy, which is not broken.
func findingText(severity partition.Severity, kind, table, what, mend string) string {
	head := strings.TrimRight(fmt.Sprintf("%s  %s  %s", severity, kind, table), " ")
	return head + "\n" + indented(what) + "\n" + indent + "mend: " + mend
}

func indented(s string) string {
	const page = 80
	return indent + strings.ReplaceAll(wrap(s, page-len(indent)), "\n", "\n"+indent)
}
