package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/idemctl/idemctl/internal/render"
	"github.com/idemctl/idemctl/pkg/partition"
)

func newPartitionRotateCmd(a *app) *cobra.Command {
	var execute bool
	cmd := &cobra.Command{
		Use:   "rotate",
		Short: "Give the ledger a new id, after a failover or restore that may have lost commits",
		Long: `Give the ledger a new id. COMPLETED markers in Redis carry the id of the ledger
that they were written for, and only those of the present id absorb a message
alone. After a failover or a restore that may have lost commits, a marker of
before may speak of a row that is gone: with a new id, each such marker costs a
look into the ledger, and the ledger decides. Nothing is deleted or written
again, and running guards take the new id up by themselves.

Without --execute the plan is printed and nothing is changed.

Exit status:
  0    done, or a plan was printed` + exitHelp(),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runPartitionRotate(cmd.Context(), a, execute) },
	}
	cmd.Flags().BoolVar(&execute, "execute", false, "do it")
	return cmd
}

func runPartitionRotate(ctx context.Context, a *app, execute bool) error {
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	if err := cfg.requireOwnLedger("partition rotate"); err != nil {
		return err
	}
	m, err := a.Manager(ctx)
	if err != nil {
		return err
	}
	plan, err := m.PlanRotate(ctx)
	switch {
	case errors.Is(err, partition.ErrTimeZone):
		return usageErrorf("plan the rotation: %w", err)
	case err != nil:
		return fmt.Errorf("plan the rotation: %w", err)
	}
	result := partitionRotateResult{Plan: plan}
	if !execute {
		return a.Print(result.render())
	}
	if _, err := a.WritableDB(ctx); err != nil {
		return fmt.Errorf("rotate the ledger id: %w", err)
	}
	finish, err := a.record(ctx, plan)
	if err != nil {
		return err
	}
	rep, err := m.Rotate(ctx, plan)
	finish(resultWord(err), rep)
	if err != nil {
		return fmt.Errorf("rotate the ledger id: %w", err)
	}
	result.Report = &rep
	return a.PrintUnlessQuiet(result.render())
}

// partitionRotateResult is what `partition rotate` says.
type partitionRotateResult struct {
	Plan partition.RotatePlan `json:"plan"`
	// Report is missing where only the plan was asked for.
	Report *partition.RotateReport `json:"report,omitempty"`
}

func (r *partitionRotateResult) render() render.Result {
	t := render.Table{Columns: []render.Column{{Name: "ledger id"}, {Name: "becomes"}, {Name: "generation", Align: render.Right}}}
	notes := []string{`COMPLETED markers written before no longer absorb a message alone: each costs a
look into the ledger, until it expires or is written again.`}
	if r.Report == nil {
		t.Add(r.Plan.LedgerID, "a new one", strconv.FormatInt(r.Plan.Generation, 10))
		notes = append(notes, "This is the plan; nothing was changed. Add --execute to do it.")
	} else {
		t.Add(r.Report.OldLedgerID, r.Report.LedgerID, strconv.FormatInt(r.Report.Generation, 10))
	}
	return render.Result{Value: r, Tables: []render.Table{t}, Notes: notes}
}
