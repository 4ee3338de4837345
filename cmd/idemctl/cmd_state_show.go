package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/internal/render"
	"github.com/idemctl/idemctl/pkg/ledger"
)

type stateShowOptions struct{ bizType string }

func newStateShowCmd(a *app) *cobra.Command {
	var opts stateShowOptions
	cmd := &cobra.Command{
		Use:   "show ORDER_ID",
		Short: "Show where an order stands, and how it came there",
		Long: `Show where an order stands in each state machine that knows it, where it can go
from there, and every transition that it has made: when, by whom, and why. A
machine that the configuration does not declare is shown too, without a word on
where it leads. Times are UTC.

Exit status:
  0    done
  1    no machine knows the order` + exitHelp(),
		Example: `  idemctl state show 20261111-8842 --biz-type COUPON`,
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return runStateShow(cmd.Context(), a, args[0], opts) },
	}
	opts.AddFlags(cmd.Flags())
	return cmd
}

// AddFlags declares the command's flags.
func (o *stateShowOptions) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.bizType, "biz-type", "", "only the machine of this `BIZ_TYPE`")
}

// shownState is an order in one machine, as state show says it.
type shownState struct {
	BizType   string    `json:"biz_type"`
	State     string    `json:"state"`
	Version   int64     `json:"version"`
	UpdatedAt time.Time `json:"updated_at"`
	// Declared says that the configuration has a machine of this biz_type with this state; the next two are known only then.
	Declared bool          `json:"declared"`
	Terminal bool          `json:"terminal"`
	Next     []string      `json:"next"`
	History  []shownChange `json:"history"`

	hasMachine bool
}

// shownChange is one transition.
type shownChange struct {
	Version int64     `json:"version"`
	At      time.Time `json:"at"`
	From    string    `json:"from"` // empty: the order was begun
	To      string    `json:"to"`
	Who     string    `json:"who"`
	Why     string    `json:"why"`
	ClaimID string    `json:"claim_id"`
}

// stateShowResult is what state show says.
type stateShowResult struct {
	OrderID string `json:"order_id"`
	// OrderIDB64 is there where the order's id is not UTF-8.
	OrderIDB64 []byte       `json:"order_id_b64,omitempty"`
	Now        time.Time    `json:"now"` // the database's clock
	Machines   []shownState `json:"machines"`
}

func runStateShow(ctx context.Context, a *app, orderID string, opts stateShowOptions) error {
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	if err := ledger.ValidateOrderID(orderID); err != nil {
		return usageErrorf("state show: %w", err)
	}
	if opts.bizType != "" {
		if err := ledger.ValidateBizType(opts.bizType); err != nil {
			return usageErrorf("--biz-type: %w", err)
		}
	}
	result, err := a.showState(ctx, cfg, orderID, opts.bizType)
	if err != nil {
		return fmt.Errorf("state show: %w", err)
	}
	if err := a.Print(result.render()); err != nil {
		return err
	}
	if len(result.Machines) == 0 {
		return exitStatus(exitFinding)
	}
	return nil
}

func (a *app) showState(ctx context.Context, cfg *Config, orderID, bizType string) (*stateShowResult, error) {
	db, err := a.DB(ctx)
	if err != nil {
		return nil, err
	}
	store := ledger.NewStateStore(nil, db)
	result := &stateShowResult{OrderID: orderID, Machines: []shownState{}}
	if !utf8.ValidString(orderID) {
		result.OrderIDB64 = []byte(orderID)
	}
	if result.Now, err = mysqlx.Now(ctx, db); err != nil {
		return nil, err
	}
	states, err := store.Find(ctx, orderID)
	if err != nil {
		return nil, err
	}
	for i := range states {
		if bizType != "" && states[i].Key.BizType != bizType {
			continue
		}
		changes, err := store.History(ctx, states[i].Key)
		if err != nil {
			return nil, err
		}
		result.Machines = append(result.Machines, describeState(cfg, &states[i], changes))
	}
	return result, nil
}

// describeState puts what the tables say of an order beside what the configuration says of its machine.
func describeState(cfg *Config, st *ledger.State, changes []ledger.StateChange) shownState {
	s := shownState{BizType: st.Key.BizType, State: st.State, Version: st.Version, UpdatedAt: st.UpdatedAt, Next: []string{}, History: []shownChange{}}
	for i := range cfg.specs {
		if spec := &cfg.specs[i]; spec.BizType == s.BizType {
			s.hasMachine = true
			s.Declared, s.Terminal, s.Next = spec.Has(st.State), spec.IsTerminal(st.State), append(s.Next, spec.Next(st.State)...)
		}
	}
	for i := range changes {
		c := &changes[i]
		s.History = append(s.History, shownChange{
			Version: c.Version, At: c.At, From: c.From, To: c.To, Who: c.Who, Why: c.Why, ClaimID: hex.EncodeToString(c.ClaimID[:]),
		})
	}
	return s
}

// where says in words what a state means for the order.
func (s *shownState) where() string {
	switch {
	case !s.hasMachine:
		return "no machine configured"
	case !s.Declared:
		return "not a state of the machine"
	case s.Terminal:
		return "terminal"
	}
	return strings.Join(s.Next, ", ")
}

func (r *stateShowResult) render() render.Result {
	states := render.Table{Columns: []render.Column{
		{Name: "biz_type"}, {Name: "state", Shrink: true}, {Name: "since (UTC)"}, {Name: "age", Align: render.Right}, {Name: "next", Shrink: true, Min: 10},
	}}
	out := render.Result{Value: r}
	for i := range r.Machines {
		s := &r.Machines[i]
		states.Add(s.BizType, s.State, milliOf(s.UpdatedAt), ageText(r.Now.Sub(s.UpdatedAt)), s.where())
	}
	if len(r.Machines) == 0 {
		out.Notes = []string{"No state machine knows " + render.Key([]byte(r.OrderID)) + "."}
		return out
	}
	out.Tables = []render.Table{states}
	history := render.Table{Columns: []render.Column{
		{Name: "biz_type", Once: true}, {Name: "at (UTC)"}, {Name: "from", Shrink: true}, {Name: "to", Shrink: true}, {Name: "who", Shrink: true}, {Name: "why", Shrink: true},
	}}
	for i := range r.Machines {
		for _, c := range r.Machines[i].History {
			from := c.From
			if from == "" {
				from = "-"
			}
			history.Add(r.Machines[i].BizType, milliOf(c.At), from, c.To, render.Text(c.Who), render.Text(c.Why))
		}
	}
	if len(history.Rows) > 0 {
		out.Tables = append(out.Tables, history)
	}
	return out
}
