package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/idemctl/idemctl/internal/render"
	"github.com/idemctl/idemctl/pkg/ledger"
)

type stateStuckOptions struct {
	older   time.Duration
	bizType string
	limit   int
}

func newStateStuckCmd(a *app) *cobra.Command {
	opts := stateStuckOptions{older: 10 * time.Minute} //nolint:mnd // the documented default
	cmd := &cobra.Command{
		Use:   "stuck",
		Short: "Find orders that stand still short of their end",
		Long: `Find the orders that have not moved for --older and stand in a state that is
not terminal. A state that the machine does not have (it was declared otherwise
once) counts as not terminal. The moment they are held against is taken once,
from the database's clock.

Nothing is wrong with the tables then: the consumer that would go on is down, or
fails at that step. A delivery of the message goes on where the order stands.

Exit status:
  0    no order stands still
  1    some do` + exitHelp(`  4    the table has a biz_type that no machine of the configuration is of`),
		Example: `  idemctl state stuck --older 1h
  idemctl state stuck --biz-type COUPON -o jsonl`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runStateStuck(cmd.Context(), a, opts) },
	}
	opts.AddFlags(cmd.Flags())
	return cmd
}

// AddFlags declares the command's flags.
func (o *stateStuckOptions) AddFlags(fs *pflag.FlagSet) {
	fs.Var((*durationFlag)(&o.older), "older", "not moved for `DURATION`")
	fs.StringVar(&o.bizType, "biz-type", "", "only the machine of this `BIZ_TYPE`")
	fs.IntVar(&o.limit, "limit", 20, "list the oldest `N` orders of each state; all are counted") //nolint:mnd // the documented default
}

// stuckGroup is a state that orders stand still in.
type stuckGroup struct {
	BizType string `json:"biz_type"`
	State   string `json:"state"`
	Unknown bool   `json:"unknown,omitempty"` // not a state of the machine
	Orders  int64  `json:"orders"`
}

// stuckOrder is an order that stands still.
type stuckOrder struct {
	OrderID    string    `json:"order_id"`
	OrderIDB64 []byte    `json:"order_id_b64,omitempty"` // where the id is not UTF-8
	BizType    string    `json:"biz_type"`
	State      string    `json:"state"`
	Since      time.Time `json:"since"`
}

// stuckResult is what state stuck says.
type stuckResult struct {
	Older      string       `json:"older"`
	Cutoff     time.Time    `json:"cutoff"`
	Stuck      int64        `json:"stuck"`
	Groups     []stuckGroup `json:"groups"`
	Orders     []stuckOrder `json:"orders"` // the oldest of each group
	Undeclared []string     `json:"undeclared,omitempty"`

	older time.Duration
}

func runStateStuck(ctx context.Context, a *app, opts stateStuckOptions) error {
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	specs, err := cfg.MachineSpecs(opts.bizType)
	if err != nil {
		return err
	}
	if opts.limit < 1 {
		return usageErrorf("--limit %d: expected 1 or more", opts.limit)
	}
	store, err := a.stateStore(ctx)
	if err != nil {
		return err
	}
	rep, err := store.Stuck(ctx, ledger.StuckRequest{Specs: specs, Older: opts.older, Limit: opts.limit})
	if err != nil {
		return fmt.Errorf("state stuck: %w", err)
	}
	if opts.bizType != "" {
		rep.Undeclared = nil // nobody asked for the others
	}
	result := newStuckResult(&rep, opts.older)
	if err := a.Print(result.render()); err != nil {
		return err
	}
	switch {
	case len(rep.Undeclared) > 0:
		return exitStatus(exitIncomplete)
	case result.Stuck > 0:
		return exitStatus(exitFinding)
	}
	return nil
}

func newStuckResult(rep *ledger.StuckReport, older time.Duration) *stuckResult {
	r := &stuckResult{
		Older: formatDuration(older), Cutoff: rep.Cutoff, Stuck: rep.Count(), Groups: []stuckGroup{}, Orders: []stuckOrder{},
		Undeclared: rep.Undeclared, older: older,
	}
	for i := range rep.Groups {
		g := &rep.Groups[i]
		r.Groups = append(r.Groups, stuckGroup{BizType: g.BizType, State: g.State, Unknown: g.Unknown, Orders: g.Count})
		for _, st := range g.Orders {
			o := stuckOrder{OrderID: st.Key.OrderID, BizType: g.BizType, State: g.State, Since: st.UpdatedAt}
			if !utf8.ValidString(o.OrderID) {
				o.OrderIDB64 = []byte(o.OrderID)
			}
			r.Orders = append(r.Orders, o)
		}
	}
	return r
}

func (r *stuckResult) render() render.Result {
	out := render.Result{Value: r, Lines: make([]any, len(r.Orders))}
	groups := render.Table{Columns: []render.Column{{Name: "biz_type", Once: true}, {Name: "state", Shrink: true}, {Name: "orders", Align: render.Right, Number: true}}}
	orders := render.Table{Columns: []render.Column{
		{Name: "order_id", Shrink: true}, {Name: "biz_type"}, {Name: "state", Shrink: true}, {Name: "since (UTC)"}, {Name: "age", Align: render.Right},
	}}
	unknown := false
	for _, g := range r.Groups {
		groups.Add(g.BizType, g.State, strconv.FormatInt(g.Orders, 10))
		unknown = unknown || g.Unknown
	}
	now := r.Cutoff.Add(r.older)
	for i, o := range r.Orders {
		orders.Add(render.Key([]byte(o.OrderID)), o.BizType, o.State, milliOf(o.Since), ageText(now.Sub(o.Since)))
		out.Lines[i] = o
	}
	if len(r.Groups) > 0 {
		out.Tables = []render.Table{orders, groups}
	}
	out.Notes = r.notes(unknown)
	return out
}

func (r *stuckResult) notes(unknown bool) []string {
	var notes []string
	switch listed := int64(len(r.Orders)); {
	case r.Stuck == 0:
		notes = append(notes, "No order stands still for longer than "+r.Older+".")
	case listed < r.Stuck:
		notes = append(notes, fmt.Sprintf("%d orders stand still for longer than %s; the oldest %d are listed.", r.Stuck, r.Older, listed))
	default:
		notes = append(notes, fmt.Sprintf("%d orders stand still for longer than %s.", r.Stuck, r.Older))
	}
	if unknown {
		notes = append(notes, "Some are in a state that the machine does not have: it was declared otherwise once.")
	}
	if len(r.Undeclared) > 0 {
		const page = 80
		notes = append(notes, wrap("Not looked at, since no machine is configured for them: "+strings.Join(r.Undeclared, ", ")+".", page))
	}
	return notes
}
