package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/idemctl/idemctl/internal/render"
	"github.com/idemctl/idemctl/internal/runlog"
	"github.com/idemctl/idemctl/pkg/ledger"
)

func newStateCmd(a *app) *cobra.Command {
	return newGroup(&cobra.Command{
		Use:   "state",
		Short: "Look at orders whose effect has several steps, and move one by hand",
		Long: `Look at the state machines of effects that take several transactions (lock
stock, deduct budget, write the coupon): where an order stands, which ones stand
still, and, by hand, one transition of one order. The machines are declared in
the configuration, under machines.

Exit status:
  0    done
  1    state stuck: orders stand still; state show: the order is not known` + exitHelp(),
	}, newStateShowCmd(a), newStateStuckCmd(a), newStateAdvanceCmd(a), newStateCreateCmd(a))
}

// stateStore opens the tables of state machines for looking.
func (a *app) stateStore(ctx context.Context) (*ledger.StateStore, error) {
	db, err := a.DB(ctx)
	if err != nil {
		return nil, err
	}
	return ledger.NewStateStore(nil, db), nil
}

type stateCreateOptions struct{ execute bool }

func newStateCreateCmd(a *app) *cobra.Command {
	var opts stateCreateOptions
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Create the tables of state machines",
		Long: `Create the two tables that all state machines of a schema share:
` + ledger.StateTable + `, one row per order and machine, and
` + ledger.StateHistoryTable + `, one row per transition. Only a service with a
state machine needs them, so partition create does not make them. Without
--execute the plan is printed and nothing is changed.

Exit status:
  0    done, or a plan was printed` + exitHelp(),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runStateCreate(cmd.Context(), a, opts) },
	}
	opts.AddFlags(cmd.Flags())
	return cmd
}

// AddFlags declares the command's flags.
func (o *stateCreateOptions) AddFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.execute, "execute", false, "do it")
}

func runStateCreate(ctx context.Context, a *app, opts stateCreateOptions) error {
	store, err := a.stateStore(ctx)
	if err != nil {
		return err
	}
	plan, err := store.PlanTables(ctx)
	if err != nil {
		return fmt.Errorf("state create: %w", err)
	}
	if opts.execute && len(plan.Create) > 0 {
		if err := a.createStateTables(ctx, store, plan); err != nil {
			return err
		}
	}
	return a.Print(stateCreateResult(plan, opts.execute))
}

func (a *app) createStateTables(ctx context.Context, store *ledger.StateStore, plan ledger.StatePlan) error {
	db, err := a.DB(ctx)
	if err != nil {
		return err
	}
	if err := runlog.New(db).Ensure(ctx); err != nil {
		return fmt.Errorf("state create: %w", err)
	}
	finish, err := a.record(ctx, plan)
	if err != nil {
		return err
	}
	err = store.CreateTables(ctx, plan)
	finish(resultWord(err), plan)
	if err != nil {
		return fmt.Errorf("state create: %w", err)
	}
	return nil
}

func stateCreateResult(plan ledger.StatePlan, executed bool) render.Result {
	t := render.Table{Columns: []render.Column{{Name: "table", Shrink: true}, {Name: "action"}}}
	for _, name := range plan.Present {
		t.Add(name, "present")
	}
	action := "create"
	if executed {
		action = "created"
	}
	for _, name := range plan.Create {
		t.Add(name, action)
	}
	note := "This is the plan; nothing was changed. Add --execute to do it."
	switch {
	case len(plan.Create) == 0:
		note = "Nothing to do: both tables are there."
	case executed:
		note = fmt.Sprintf("Created %d, present before %d.", len(plan.Create), len(plan.Present))
	}
	value := struct {
		Plan     ledger.StatePlan `json:"plan"`
		Executed bool             `json:"executed"`
	}{plan, executed}
	return render.Result{Value: value, Tables: []render.Table{t}, Notes: []string{note}}
}

// ageText is for how long an order has stood, roughly: what counts at night is whether it is minutes or days.
func ageText(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Hour:
		return formatDuration(d.Truncate(time.Second))
	case d < 2*day:
		return formatDuration(d.Truncate(time.Minute))
	}
	return formatDuration(d.Truncate(day))
}
