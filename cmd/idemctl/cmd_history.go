package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/idemctl/idemctl/internal/render"
	"github.com/idemctl/idemctl/internal/runlog"
)

type historyOptions struct {
	limit   int
	command string
	since   string
}

func newHistoryCmd(a *app) *cobra.Command {
	var opts historyOptions
	cmd := &cobra.Command{
		Use:   "history [ID]",
		Short: "List the runs that may have changed the ledger",
		Long: `List the runs of idemctl that may have changed the ledger, the newest first:
when, which command, who on which host, how it ended, and what it counted. With
an ID: that run wholly, with its command line and the plan it worked by.

Times are UTC. A run that is "running" has not ended yet, or was killed.

Exit status:
  0    done` + exitHelp(),
		Example: `  idemctl history --command purge --since 7d
  idemctl history 214 -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return runHistoryOf(cmd.Context(), a, args[0])
			}
			return runHistory(cmd.Context(), a, opts)
		},
	}
	opts.AddFlags(cmd.Flags())
	return cmd
}

// AddFlags declares the command's flags.
func (o *historyOptions) AddFlags(fs *pflag.FlagSet) {
	fs.IntVar(&o.limit, "limit", 20, "the newest `N` runs; 0: all of them") //nolint:mnd // the documented default
	fs.StringVar(&o.command, "command", "", "only runs of this `COMMAND`; purge also means purge restore")
	fs.StringVar(&o.since, "since", "", "only runs since `TIME`: a date, RFC 3339, or how long ago (24h, 7d)")
}

func (o *historyOptions) filter(cfg *Config, now time.Time) (runlog.Filter, error) {
	f := runlog.Filter{Prefix: cfg.Ledger.TablePrefix, Command: o.command, Limit: o.limit}
	if o.limit < 0 {
		return f, usageErrorf("--limit %d: expected 0 or more", o.limit)
	}
	if ago, err := parseDuration(o.since); err == nil && ago > 0 {
		f.Since = now.Add(-ago)
		return f, nil
	}
	var err error
	if f.Since, err = parseSince(o.since, cfg.Location()); err != nil {
		return f, usageErrorf("--since %q: expected a date (2026-11-01), RFC 3339, or how long ago (24h, 7d)", o.since)
	}
	return f, nil
}

func runHistory(ctx context.Context, a *app, opts historyOptions) error {
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	filter, err := opts.filter(cfg, a.now())
	if err != nil {
		return err
	}
	db, err := a.DB(ctx)
	if err != nil {
		return err
	}
	entries, err := runlog.New(db).List(ctx, filter)
	if err != nil {
		return historyError(err)
	}
	return a.Print(historyResult(entries, filter.Limit))
}

// historyError says how the run table comes to be.
func historyError(err error) error {
	if errors.Is(err, runlog.ErrNoTable) {
		return fmt.Errorf("history: %w (run: idemctl partition create --execute)", err)
	}
	return fmt.Errorf("history: %w", err)
}

func historyResult(entries []runlog.Entry, limit int) render.Result {
	t := render.Table{Columns: []render.Column{
		{Name: "id", Align: render.Right, Number: true},
		{Name: "started"},
		{Name: "command"},
		{Name: "by", Shrink: true},
		{Name: "result"},
		{Name: "counts", Shrink: true, Min: 16}, //nolint:mnd // a count and its name
	}}
	running := false
	for i := range entries {
		e := &entries[i]
		t.Add(strconv.FormatInt(e.ID, 10), e.Started.Format(time.DateTime), e.Command, e.Who+"@"+e.Host, e.Result, countsInShort(e.Counts))
		running = running || e.Result == runlog.Running
	}
	lines := make([]any, len(entries))
	for i := range entries {
		lines[i] = entries[i]
	}
	out := render.Result{Value: struct {
		Runs []runlog.Entry `json:"runs"`
	}{append([]runlog.Entry{}, entries...)}, Tables: []render.Table{t}, Lines: lines}
	if len(entries) == 0 {
		out.Tables, out.Notes = nil, []string{"No such run is recorded."}
	}
	if running {
		out.Notes = append(out.Notes, "running: it has not ended yet, or was killed.")
	}
	if limit > 0 && len(entries) == limit {
		out.Notes = append(out.Notes, fmt.Sprintf("The newest %d; --limit 0 lists all.", limit))
	}
	return out
}

func runHistoryOf(ctx context.Context, a *app, number string) error {
	id, err := strconv.ParseInt(number, 10, 64)
	if err != nil || id < 1 {
		return usageErrorf("history %q: expected the number of a run", number)
	}
	db, err := a.DB(ctx)
	if err != nil {
		return err
	}
	e, err := runlog.New(db).Get(ctx, id)
	switch {
	case errors.Is(err, runlog.ErrNoRun):
		return usageErrorf("history: %w (idemctl history lists them)", err)
	case err != nil:
		return historyError(err)
	}
	return a.Print(historyOfResult(&e, a.flags.output))
}

// historyOfResult shows a run for people with its command line, plan and counts below the table, where nothing is cut.
func historyOfResult(e *runlog.Entry, format render.Format) render.Result {
	t := render.Table{Columns: []render.Column{{Name: "field"}, {Name: "value", Shrink: true}}}
	t.Add("run", strconv.FormatInt(e.ID, 10))
	t.Add("command", e.Command)
	t.Add("ledger", e.Prefix)
	t.Add("by", e.Who+"@"+e.Host)
	t.Add("version", e.Version)
	t.Add("started", e.Started.Format(time.RFC3339Nano))
	if e.Finished.IsZero() {
		t.Add("finished", "no: it goes on, or was killed")
	} else {
		t.Add("finished", fmt.Sprintf("%s, after %s", e.Finished.Format(time.RFC3339Nano), e.Finished.Sub(e.Started)))
	}
	t.Add("result", e.Result)
	out := render.Result{Value: e}
	if format == render.FormatTSV {
		t.Add("args", e.Args)
		t.Add("plan", string(e.Plan))
		t.Add("counts", string(e.Counts))
	} else {
		out.Notes = []string{"$ " + programName + " " + e.Args}
		out.Notes = append(out.Notes, documentLines("plan", e.Plan)...)
		out.Notes = append(out.Notes, documentLines("counts", e.Counts)...)
	}
	out.Tables = []render.Table{t}
	if format == render.FormatJSONL {
		out.Lines = []any{e}
	}
	return out
}
