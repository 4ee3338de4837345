package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/idemctl/idemctl/internal/render"
	"github.com/idemctl/idemctl/pkg/ledger/reconcile"
)

func newReconcileUndoCmd(a *app) *cobra.Command {
	var execute bool
	cmd := &cobra.Command{
		Use:   "undo FILE",
		Short: "Put back what reconcile --fix has changed",
		Long: `Put the markers that a repair has changed back as they were, from its undo file:
where what the repair left is still there, and with the time to live that was
left then, less the time since. COMPLETED is never put back for a key that has
no row: a message that never ran would be dropped. Without --execute the plan is
printed and nothing is changed.

An undo may be run again: what was put back is not touched a second time.

Exit status:
  0    done, or a plan was printed` + exitHelp(),
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runReconcileUndo(cmd.Context(), a, args[0], execute)
		},
	}
	cmd.Flags().BoolVar(&execute, "execute", false, "do it")
	return cmd
}

// reconcileUndoResult is what `reconcile undo` says.
type reconcileUndoResult struct {
	Plan reconcile.UndoPlan `json:"plan"`
	// Report is missing where only the plan was asked for.
	Report *reconcile.UndoReport `json:"report,omitempty"`
}

func runReconcileUndo(ctx context.Context, a *app, file string, execute bool) error {
	var path pathFlag
	if err := path.Set(file); err != nil {
		return usageErrorf("FILE: %w", err)
	}
	plan, err := reconcile.ReadUndo(string(path))
	if errors.Is(err, reconcile.ErrUndoFile) || errors.Is(err, os.ErrNotExist) {
		return usageErrorf("reconcile undo: %w", err)
	}
	if err != nil {
		return fmt.Errorf("reconcile undo: %w", err)
	}
	result := reconcileUndoResult{Plan: plan}
	if !execute {
		return a.Print(result.render())
	}
	r, err := a.reconciler(ctx, nil)
	if err != nil {
		return err
	}
	finish, err := a.record(ctx, plan)
	if err != nil {
		return err
	}
	progress := a.Progress("undo", "markers")
	rep, err := r.Undo(ctx, plan, func(p reconcile.Progress) { progress.Update(p.Done, p.Total, "") })
	progress.Finish()
	finish(resultWord(err), rep)
	if errors.Is(err, reconcile.ErrUndoFile) {
		return usageErrorf("reconcile undo: %w", err)
	}
	if _, begun := errors.AsType[*reconcile.PartialError](err); err != nil && !begun {
		return columnsError(err)
	}
	result.Report = &rep
	return errors.Join(a.Print(result.render()), err)
}

func (r *reconcileUndoResult) render() render.Result {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	made := fmt.Sprintf("Made by a repair at %s, ledger %s.", r.Plan.Made.UTC().Format(time.RFC3339), render.Text(r.Plan.LedgerID))
	out := render.Result{Value: r, Lines: []any{r}, Notes: []string{made}}
	if r.Plan.Torn {
		out.Notes = append(out.Notes, "The last line is torn: the repair broke off there, before it changed anything of it.")
	}
	if rep := r.Report; rep != nil {
		t := render.Table{Columns: []render.Column{{Name: "markers"}, {Name: "count", Align: render.Right, Number: true}, {Name: "means", Shrink: true}}}
		t.Add("restored", number(rep.Restored), "as before the repair")
		t.Add("changed", number(rep.Changed), "not as the repair left them: not touched")
		t.Add("gone", number(rep.Gone), "what the repair left has expired since")
		t.Add("expired", number(rep.Expired), "would have expired by now without the repair")
		t.Add("refused", number(rep.Refused), "COMPLETED, and the ledger has no row")
		out.Tables = []render.Table{t}
		return out
	}
	t := render.Table{Columns: []render.Column{{Name: "finding"}, {Name: "markers", Align: render.Right, Number: true}}}
	for _, k := range r.Plan.Kinds {
		t.Add(string(k.Kind), number(k.Lines))
	}
	out.Tables = []render.Table{t}
	out.Notes = append(out.Notes, "This is the plan; nothing was changed. Add --execute to do it.")
	return out
}
