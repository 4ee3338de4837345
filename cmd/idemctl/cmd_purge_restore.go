package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/idemctl/idemctl/internal/render"
	"github.com/idemctl/idemctl/pkg/partition"
	"github.com/idemctl/idemctl/pkg/purge"
)

type purgeRestoreOptions struct {
	into    string
	execute bool
}

func newPurgeRestoreCmd(a *app) *cobra.Command {
	var opts purgeRestoreOptions
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Bring an archive's rows back into a table",
		Long: `Bring the rows of an archive back: into the month they came from, or into the
table named by --into. FILE is either of the archive's two files, or what their
names share. The archive is verified first, every byte of it. Without --execute
the plan is printed and nothing is changed.

Restored rows keep their create_time and expire after a whole retention from
now, so that the next purge leaves them. A row that is there already stays as it
is, so a restore may be run again. A key that the ledger has with other content,
or in another month, is a conflict: it is left untouched and reported.

A key that is back absorbs its messages again. The horizon stays where it is:
other keys of that time may still be missing. A table that is none of the
ledger's months protects nothing: no guard looks into it.

Exit status:
  0    done, or a plan was printed` + exitHelp(`  4    incomplete: there were conflicts; all else is restored`,
			`  5    busy: another run is creating, purging or restoring (see --wait)`),
		Example: `  idemctl purge restore archive/t_idempotent_flow_202604.20260601T020000Z.1a2b3c4d.jsonl.zst
  idemctl purge restore FILE --into restored_202604 --execute`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runPurgeRestore(cmd.Context(), a, opts, args[0])
		},
	}
	opts.AddFlags(cmd.Flags())
	return cmd
}

// AddFlags declares the command's flags.
func (o *purgeRestoreOptions) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.into, "into", "", "`TABLE` to restore into instead of the archive's month; made if it is not there")
	fs.BoolVar(&o.execute, "execute", false, "do it")
}

func runPurgeRestore(ctx context.Context, a *app, opts purgeRestoreOptions, file string) error {
	var path pathFlag
	if err := path.Set(file); err != nil {
		return usageErrorf("FILE: %w", err)
	}
	if strings.HasPrefix(opts.into, "-") {
		return usageErrorf("--into: %q looks like a flag; the table's name is missing", opts.into)
	}
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	archive, err := purge.OpenArchive(string(path))
	if err != nil {
		return restoreError(err)
	}
	db, scheme, err := a.ledgerDB(ctx)
	if err != nil {
		return err
	}
	plan, err := purge.PlanRestore(ctx, db, scheme, cfg.Location(), archive, purge.RestoreOptions{Into: opts.into, Retention: cfg.Ledger.Retention})
	if err != nil {
		return restoreError(err)
	}
	result := purgeRestoreResult{Plan: plan}
	if !opts.execute {
		return a.Print(result.render())
	}
	err = a.restore(ctx, &result)
	if err != nil && (result.Report == nil || result.Report.Rows == 0) {
		return restoreError(err)
	}
	if perr := a.Print(result.render()); perr != nil {
		return perr
	}
	if err != nil {
		return restoreError(err)
	}
	if result.Report.Conflicts > 0 {
		return exitStatus(exitIncomplete)
	}
	return nil
}

// restoreError gives the errors that the operator's own words caused the exit code of a usage error.
func restoreError(err error) error {
	for _, usage := range []error{
		purge.ErrInto, purge.ErrOtherLedger, purge.ErrRestoreLegacy, purge.ErrNotArchive, partition.ErrTimeZone,
	} {
		if errors.Is(err, usage) {
			return usageErrorf("purge restore: %w", err)
		}
	}
	return fmt.Errorf("purge restore: %w", err)
}

// restore acts on the plan and records the run. What was done before an error is in the result.
func (a *app) restore(ctx context.Context, result *purgeRestoreResult) error {
	db, err := a.WritableDB(ctx)
	if err != nil {
		return err
	}
	finish, err := a.record(ctx, result.Plan)
	if err != nil {
		return err
	}
	progress := a.Progress("restore", "rows")
	var rep purge.RestoreReport
	err = a.untilFree(ctx, func() error {
		rep, err = purge.Restore(ctx, db, result.Plan, func(r purge.RestoreReport) { progress.Update(r.Rows, result.Plan.Rows, "") })
		return err
	})
	progress.Finish()
	result.Report = &rep
	word := resultWord(err)
	if err == nil && rep.Conflicts > 0 {
		word = "incomplete"
	}
	finish(word, rep)
	return err
}

// purgeRestoreResult is what `purge restore` says.
type purgeRestoreResult struct {
	Plan purge.RestorePlan `json:"plan"`
	// Report is missing where only the plan was asked for.
	Report *purge.RestoreReport `json:"report,omitempty"`
}

func (r *purgeRestoreResult) render() render.Result {
	out := render.Result{Value: r, Notes: r.notes()}
	if r.Report == nil {
		out.Tables = []render.Table{r.planTable()}
		return out
	}
	out.Tables = []render.Table{r.countTable()}
	if len(r.Report.Examples) > 0 {
		out.Tables = append(out.Tables, r.conflictTable())
	}
	return out
}

func (r *purgeRestoreResult) planTable() render.Table {
	m := &r.Plan.Manifest
	action := "restore"
	if r.Plan.Create {
		action = "create, restore"
	}
	t := render.Table{Columns: []render.Column{
		{Name: "table", Shrink: true}, {Name: "action"}, {Name: "biz_type", Shrink: true}, {Name: "rows", Align: render.Right, Number: true},
		{Name: "created up to (UTC)"},
	}}
	for _, b := range m.BizTypes {
		t.Add(r.Plan.Target, action, bizWord(b.BizType), strconv.FormatInt(b.Rows, 10), b.MaxCreate.UTC().Format("2006-01-02 15:04:05"))
	}
	if len(m.BizTypes) == 0 {
		t.Add(r.Plan.Target, action, "-", "0", "-")
	}
	return t
}

// bizWord is a biz_type, which another writer may have left empty, for a table.
func bizWord(biz string) string {
	if biz == "" {
		return "-"
	}
	return render.Key([]byte(biz))
}

func (r *purgeRestoreResult) countTable() render.Table {
	t := render.Table{Columns: []render.Column{
		{Name: "table", Shrink: true}, {Name: "result"}, {Name: "rows", Align: render.Right, Number: true},
	}}
	for _, c := range []struct {
		word string
		n    int64
	}{{"restored", r.Report.Restored}, {"present", r.Report.Present}, {"conflict", r.Report.Conflicts}} {
		t.Add(r.Report.Table, c.word, strconv.FormatInt(c.n, 10))
	}
	return t
}

func (r *purgeRestoreResult) conflictTable() render.Table {
	t := render.Table{Title: "Conflicts, left untouched:", Columns: []render.Column{
		{Name: "biz_type", Shrink: true}, {Name: "order_id", Shrink: true, Min: 16}, {Name: "the ledger has it", Shrink: true, Min: 16}, {Name: "in table", Shrink: true},
	}}
	for _, c := range r.Report.Examples {
		t.Add(bizWord(c.Key.BizType), render.Key([]byte(c.Key.OrderID)), c.Reason, c.Table)
	}
	return t
}

func (r *purgeRestoreResult) notes() []string {
	p := &r.Plan
	note := func(format string, args ...any) string {
		return wrap(fmt.Sprintf(format, args...), render.DefaultWidth)
	}
	notes := []string{note("Archive %s: verified, %s of run %s.", render.Text(p.Archive), count(p.Rows, "row"), p.Manifest.Run)}
	notes = append(notes, note("Restored rows expire at %s; their create_time is kept.", p.Expiry.UTC().Format("2006-01-02 15:04:05 MST")))
	if p.Protects {
		notes = append(notes, note("The horizon stays where it is: other keys of that time may still be missing."))
	} else {
		notes = append(notes, note("%s is no month of the ledger: no guard looks into it, so it protects nothing.", p.Target))
	}
	if p.LedgerID != "" && p.Manifest.LedgerID != "" && p.LedgerID != p.Manifest.LedgerID {
		notes = append(notes, note("The ledger's id is %s now; it was %s when the rows were archived.", p.LedgerID, p.Manifest.LedgerID))
	}
	if len(p.LeftOut) > 0 {
		notes = append(notes, note("Columns that the table has not, left out: %s.", render.Text(strings.Join(p.LeftOut, ", "))))
	}
	if r.Report == nil {
		return append(notes, "This is the plan; nothing was changed. Add --execute to do it.")
	}
	return append(notes, r.reportNotes(note)...)
}

func (r *purgeRestoreResult) reportNotes(note func(format string, args ...any) string) []string {
	var notes []string
	rep := r.Report
	if n := rep.PresentExpired; n > 0 {
		notes = append(notes, note("%s present already had expired: the next purge takes them again.", count(n, "row")))
	}
	if more := rep.Conflicts - int64(len(rep.Examples)); more > 0 {
		notes = append(notes, note("%s more in conflict, not shown.", count(more, "row")))
	}
	if !rep.Complete {
		notes = append(notes, note("Ended after %d of %s. Run it again: what is restored stays, the rest follows.", rep.Rows, count(r.Plan.Rows, "row")))
	}
	return notes
}
