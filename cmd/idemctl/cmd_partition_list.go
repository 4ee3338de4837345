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
	"github.com/idemctl/idemctl/pkg/partition"
)

type partitionListOptions struct {
	exact bool
	times bool
	asOf  asOfFlag
}

func newPartitionListCmd(a *app) *cobra.Command {
	var opts partitionListOptions
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the months, their size, and what the ledger remembers",
		Long: `List the ledger's monthly tables: rows (the server's estimate, marked ~, or
counted with --exact), size, and the ends of their expiry times; with --times
also those of their creation. A month is expired when its last entry expired
before now. Below it, for each biz_type, from when on the ledger's memory is
complete.

Exit status:
  0    done` + exitHelp(),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runPartitionList(cmd.Context(), a, opts) },
	}
	opts.AddFlags(cmd.Flags())
	return cmd
}

// AddFlags declares the command's flags.
func (o *partitionListOptions) AddFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.exact, "exact", false, "count the rows instead of taking the server's estimate")
	fs.BoolVar(&o.times, "times", false, "show when the oldest and the newest entry were created")
	o.asOf.addTo(fs)
}

func runPartitionList(ctx context.Context, a *app, opts partitionListOptions) error {
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	asOf, err := opts.asOf.parse(cfg.Location())
	if err != nil {
		return err
	}
	m, err := a.Manager(ctx)
	if err != nil {
		return err
	}
	l, err := m.List(ctx, partition.ListRequest{Exact: opts.exact, AsOf: asOf, Retention: cfg.Ledger.Retention})
	switch {
	case errors.Is(err, partition.ErrTimeZone), errors.Is(err, partition.ErrColumns):
		return usageErrorf("list the months: %w", err)
	case err != nil:
		return fmt.Errorf("list the months: %w", err)
	}
	return a.Print(listResult(l, opts.times))
}

func listResult(l partition.Listing, times bool) render.Result {
	out := render.Result{Value: l, Tables: []render.Table{monthsTable(l.Tables)}}
	if times {
		out.Tables = append(out.Tables, timesTable(l.Tables))
	}
	memory := render.Table{Columns: []render.Column{{Name: "biz_type"}, {Name: "memory complete after (UTC)"}}}
	for _, biz := range sortedKeys(l.Catalog.Biz) {
		if h, ok := l.Catalog.Horizon(biz); ok {
			memory.Add(biz, milliOf(h))
		}
	}
	if len(memory.Rows) > 0 {
		out.Tables = append(out.Tables, memory)
	}
	if l.Rehearsal {
		out.Notes = append(out.Notes, asOfNote(l.Now))
	}
	if l.Legacy {
		out.Notes = append(out.Notes, "A ledger made by someone else (ledger.columns), found by its tables' names.")
	}
	if l.Catalog.LedgerID != "" {
		out.Notes = append(out.Notes, fmt.Sprintf("ledger id %s, generation %d, months of %s", l.Catalog.LedgerID, l.Catalog.Generation, l.Catalog.TimeZone))
	}
	return out
}

func monthsTable(tables []partition.Info) render.Table {
	months := render.Table{Columns: []render.Column{
		{Name: "table", Shrink: true}, {Name: "state"}, {Name: "rows", Align: render.Right},
		{Name: "size", Align: render.Right}, {Name: "expires from"}, {Name: "to"},
	}}
	for _, t := range tables {
		rows := strconv.FormatInt(t.Rows, 10)
		if !t.Exact {
			rows = "~" + rows
		}
		months.Add(t.Table, t.State, rows, byteSize(t.Bytes), dayOf(t.OldestExpire), dayOf(t.NewestExpire))
	}
	return months
}

// timesTable is a table of its own: beside the sizes it would not fit the page.
func timesTable(tables []partition.Info) render.Table {
	times := render.Table{Columns: []render.Column{{Name: "table", Shrink: true}, {Name: "created from (UTC)"}, {Name: "to"}}}
	for _, t := range tables {
		times.Add(t.Table, secondOf(t.OldestCreate), secondOf(t.NewestCreate))
	}
	return times
}

// secondOf writes a time to the second; a zero time is a dash.
func secondOf(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.DateTime)
}
