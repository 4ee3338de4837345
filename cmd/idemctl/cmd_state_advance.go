package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/idemctl/idemctl/internal/render"
	"github.com/idemctl/idemctl/pkg/ledger"
)

type stateAdvanceOptions struct {
	from, to string
	why      string
	bizType  string
	execute  bool
}

func newStateAdvanceCmd(a *app) *cobra.Command {
	var opts stateAdvanceOptions
	cmd := &cobra.Command{
		Use:   "advance ORDER_ID",
		Short: "Make one transition of one order by hand",
		Long: `Make one transition of one order by hand, by compare-and-set: only if the order
stands at --from, and only one that the machine has. The history keeps who made
it and why. Without --execute the plan is printed and nothing is changed.

It runs NO effect. It records that the transition's work is done, or is not to
be done: whoever locks the stock by hand advances the order to STOCK_LOCKED, and
the consumer goes on from there. An order that fails again and again is moved to
the machine's own CANCELLED.

An order that is at --to already is left as it is (status 0); one that stands
elsewhere is refused (status 3).

Exit status:
  0    done, or it was at --to before, or a plan was printed` + exitHelp(),
		Example: `  idemctl state advance 20261111-8842 --from NEW --to CANCELLED --why 'no stock'`,
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return runStateAdvance(cmd.Context(), a, args[0], opts) },
	}
	opts.AddFlags(cmd.Flags())
	return cmd
}

// AddFlags declares the command's flags.
func (o *stateAdvanceOptions) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.from, "from", "", "the `STATE` that the order stands at")
	fs.StringVar(&o.to, "to", "", "the `STATE` that it shall come to")
	fs.StringVar(&o.why, "why", "", "the reason, as `TEXT` for the history")
	fs.StringVar(&o.bizType, "biz-type", "", "the machine, where several are configured, by its `BIZ_TYPE`")
	fs.BoolVar(&o.execute, "execute", false, "do it")
}

// maxReason is the width of the history's column, in bytes.
const maxReason = 512

func (o *stateAdvanceOptions) validate() error {
	for _, f := range []struct{ flag, value string }{{"--from", o.from}, {"--to", o.to}, {"--why", o.why}} {
		switch {
		case strings.TrimSpace(f.value) == "":
			return usageErrorf("state advance needs %s", f.flag)
		case strings.HasPrefix(f.value, "--"):
			return usageErrorf("%s %q looks like a flag; its value is missing", f.flag, f.value)
		}
	}
	switch {
	case !utf8.ValidString(o.why):
		return usageErrorf("--why is not UTF-8")
	case len(o.why) > maxReason:
		return usageErrorf("--why has %d bytes, at most %d", len(o.why), maxReason)
	}
	return nil
}

// stateAdvancePlan is what state advance does. It is executed as it is shown.
type stateAdvancePlan struct {
	OrderID    string            `json:"order_id"`
	OrderIDB64 []byte            `json:"order_id_b64,omitempty"` // where the id is not UTF-8
	BizType    string            `json:"biz_type"`
	Transition ledger.Transition `json:"transition"`
	Who        string            `json:"who"`
	Why        string            `json:"why"`
	// Current is where the order stood when the plan was made; at the target: there is nothing to do.
	Current string `json:"current"`

	outcome ledger.StateOutcome
}

// stateAdvanceReport is what the execution of a plan did.
type stateAdvanceReport struct {
	Outcome string `json:"outcome"` // advanced or duplicate
	State   string `json:"state"`
	ClaimID string `json:"claim_id,omitempty"` // of the history row
}

// stateAdvanceResult is what state advance says.
type stateAdvanceResult struct {
	Plan   stateAdvancePlan    `json:"plan"`
	Report *stateAdvanceReport `json:"report,omitempty"`
}

func runStateAdvance(ctx context.Context, a *app, orderID string, opts stateAdvanceOptions) error {
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	if err := opts.validate(); err != nil {
		return err
	}
	spec, err := cfg.MachineSpec(opts.bizType)
	if err != nil {
		return err
	}
	plan := stateAdvancePlan{
		OrderID: orderID, BizType: spec.BizType, Transition: ledger.Transition{From: opts.from, To: opts.to}, Who: operator(), Why: opts.why,
	}
	if !utf8.ValidString(orderID) {
		plan.OrderIDB64 = []byte(orderID)
	}
	// Before any server is asked: what the machine does not have is a mistake of typing.
	if err := ledger.ValidateOrderID(orderID); err != nil {
		return advanceError(err)
	}
	if err := spec.Check(plan.Transition); err != nil {
		return advanceError(err)
	}
	machine, err := a.stateMachine(ctx, spec, plan.Who)
	if err != nil {
		return advanceError(err)
	}
	seen, err := machine.Classify(ctx, plan.key(), plan.Transition)
	if err != nil {
		return advanceError(err)
	}
	plan.Current, plan.outcome = seen.State, seen.Outcome
	if err := plan.refuseLate(&seen); err != nil {
		return err
	}
	result := stateAdvanceResult{Plan: plan}
	if opts.execute {
		if result.Report, err = a.advance(ctx, machine, &plan); err != nil {
			return err
		}
	}
	return a.Print(result.render())
}

func (p *stateAdvancePlan) key() ledger.Key {
	return ledger.Key{BizType: p.BizType, OrderID: p.OrderID}
}

// refuseLate ends the command for an order that is beyond the target.
func (p *stateAdvancePlan) refuseLate(seen *ledger.StateResult) error {
	if seen.Outcome != ledger.StateLate {
		return nil
	}
	how := "it has passed " + p.Transition.To
	if seen.Bypassed {
		how = "it went another way and was never at " + p.Transition.To
	}
	return withStatus(exitFailure, fmt.Errorf("state advance: %s %q: too late for %s: the order stands at %s: %s",
		p.BizType, p.OrderID, p.Transition, seen.State, how))
}

func (a *app) stateMachine(ctx context.Context, spec ledger.MachineSpec, who string) (*ledger.StateMachine, error) {
	read, err := a.DB(ctx)
	if err != nil {
		return nil, err
	}
	tx, err := a.GuardDB(ctx)
	if err != nil {
		return nil, err
	}
	return ledger.NewStateMachine(ctx, ledger.StateOptions{Store: ledger.NewStateStore(tx, read), Spec: spec, Who: who})
}

// advance executes the plan. The compare-and-set decides, not what the plan saw.
func (a *app) advance(ctx context.Context, machine *ledger.StateMachine, plan *stateAdvancePlan) (*stateAdvanceReport, error) {
	finish, err := a.record(ctx, plan)
	if err != nil {
		return nil, err
	}
	res, err := machine.Advance(ctx, plan.key(), ledger.StateStep{Transition: plan.Transition, Why: plan.Why})
	if err != nil {
		err = advanceError(err)
	} else {
		err = plan.refuseLate(&res)
	}
	rep := &stateAdvanceReport{Outcome: res.Outcome.String(), State: res.State}
	if res.Outcome == ledger.StateAdvanced {
		rep.ClaimID = hex.EncodeToString(res.ClaimID[:])
	}
	finish(resultWord(err), rep)
	if err != nil {
		return nil, err
	}
	return rep, nil
}

// advanceError gives an error of a state machine its exit status: what the operator typed is at fault, or the order's state.
func advanceError(err error) error {
	_, elsewhere := errors.AsType[*ledger.TransitionError](err)
	typed := errors.Is(err, ledger.ErrIllegalTransition) && !elsewhere || errors.Is(err, ledger.ErrKey)
	err = fmt.Errorf("state advance: %w", err)
	if typed {
		return withStatus(exitUsage, err)
	}
	return err
}

// operator is who works at this terminal.
func operator() string {
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	return userName() + "@" + host
}

func (r *stateAdvanceResult) render() render.Result {
	p := &r.Plan
	t := render.Table{Columns: []render.Column{
		{Name: "order_id", Shrink: true}, {Name: "biz_type"}, {Name: "from", Shrink: true}, {Name: "to", Shrink: true}, {Name: "who", Shrink: true}, {Name: "why", Shrink: true},
	}}
	t.Add(render.Key([]byte(p.OrderID)), p.BizType, p.Transition.From, p.Transition.To, render.Text(p.Who), render.Text(p.Why))
	note := "This is the plan; nothing was changed. Add --execute to do it. No effect is run."
	switch {
	case r.Report != nil && r.Report.Outcome == ledger.StateAdvanced.String():
		note = "Advanced to " + p.Transition.To + ". No effect was run."
	case r.Report != nil || p.outcome == ledger.StateDuplicate:
		note = "Nothing to do: the order is at " + p.Transition.To + " already."
	}
	return render.Result{Value: r, Tables: []render.Table{t}, Notes: []string{note}}
}
