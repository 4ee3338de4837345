package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// StuckRequest asks for orders that stand still.
type StuckRequest struct {
	// Specs are the machines to look at; each says which of its states are terminal.
	Specs []MachineSpec
	// Older is for how long an order must not have moved.
	Older time.Duration
	// Limit bounds the orders returned for each state; 0 means 100. Counts are not bounded by it.
	Limit int
}

// StuckReport is what Stuck found.
type StuckReport struct {
	// Cutoff is the one moment (database's clock, UTC) that every order was held against.
	Cutoff time.Time
	// Groups are the states that orders stand still in, by biz_type and then in the machine's order.
	Groups []StuckGroup
	// Undeclared are biz_types that the table has and no machine of the request is of: their orders were not looked at.
	Undeclared []string
}

// Count is the number of orders that stand still.
func (r *StuckReport) Count() int64 {
	var n int64
	for i := range r.Groups {
		n += r.Groups[i].Count
	}
	return n
}

// StuckGroup are the orders that stand still in one state.
type StuckGroup struct {
	BizType string
	State   string
	// Unknown says that the machine has no such state.
	Unknown bool
	Count   int64
	// Orders are the oldest of them, up to the request's limit.
	Orders []State
}

// Stuck finds the orders that stand in a state that is not terminal since before now minus req.Older. A state that a
// machine does not have is not terminal for it. It reads the index of states only, without locks.
func (s *StateStore) Stuck(ctx context.Context, req StuckRequest) (StuckReport, error) {
	if req.Older < 0 || req.Limit < 0 {
		return StuckReport{}, errors.New("stuck: older and limit: expected 0 or more")
	}
	if req.Limit == 0 {
		req.Limit = 100
	}
	now, err := mysqlx.Now(ctx, s.read)
	if err != nil {
		return StuckReport{}, err
	}
	rep := StuckReport{Cutoff: now.Add(-req.Older).Truncate(time.Millisecond)}
	places, err := s.places(ctx)
	if err != nil {
		return rep, err
	}
	for _, p := range places {
		i := slices.IndexFunc(req.Specs, func(m MachineSpec) bool { return m.BizType == p.biz })
		switch {
		case i < 0:
			if !slices.Contains(rep.Undeclared, p.biz) {
				rep.Undeclared = append(rep.Undeclared, p.biz)
			}
			continue
		case req.Specs[i].IsTerminal(p.state) || !p.oldest.Before(rep.Cutoff):
			continue
		}
		g := StuckGroup{BizType: p.biz, State: p.state, Unknown: !req.Specs[i].Has(p.state)}
		if err := s.standing(ctx, &g, rep.Cutoff, req.Limit); err != nil {
			return rep, err
		}
		if g.Count > 0 {
			rep.Groups = append(rep.Groups, g)
		}
	}
	slices.SortStableFunc(rep.Groups, func(a, b StuckGroup) int {
		return cmp.Or(cmp.Compare(a.BizType, b.BizType), cmp.Compare(rankState(req.Specs, &a), rankState(req.Specs, &b)))
	})
	return rep, nil
}

// rankState is a state's place in its machine; one that the machine does not have comes first.
func rankState(specs []MachineSpec, g *StuckGroup) int {
	i := slices.IndexFunc(specs, func(m MachineSpec) bool { return m.BizType == g.BizType })
	return slices.Index(specs[i].States, g.State)
}

// place is one state of one machine, as the table has it.
type place struct {
	biz, state string
	oldest     time.Time
}

// places jumps through the index from one state to the next, however many orders are in each.
func (s *StateStore) places(ctx context.Context) ([]place, error) {
	rows, err := s.read.QueryContext(ctx, "SELECT biz_type, state, MIN(updated_at) FROM "+StateTable+" GROUP BY biz_type, state ORDER BY biz_type, state")
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", StateTable, noTables(err))
	}
	defer rows.Close()
	var all []place
	for rows.Next() {
		var p place
		if err := rows.Scan(&p.biz, &p.state, &p.oldest); err != nil {
			return nil, fmt.Errorf("read %s: %w", StateTable, err)
		}
		all = append(all, p)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read %s: %w", StateTable, err)
	}
	return all, nil
}

// standing counts the orders of a group and reads the oldest.
func (s *StateStore) standing(ctx context.Context, g *StuckGroup, cutoff time.Time, limit int) error {
	where := " FROM " + StateTable + " WHERE biz_type = ? AND state = ? AND updated_at < ?"
	args := []any{[]byte(g.BizType), []byte(g.State), cutoff}
	if err := s.read.QueryRowContext(ctx, "SELECT COUNT(*)"+where, args...).Scan(&g.Count); err != nil {
		return fmt.Errorf("count the orders in %s: %w", g.State, err)
	}
	rows, err := s.read.QueryContext(ctx, "SELECT order_id, biz_type, state, version, updated_at"+where+" ORDER BY updated_at, order_id LIMIT ?",
		append(args, limit)...)
	if err != nil {
		return fmt.Errorf("read the orders in %s: %w", g.State, err)
	}
	if g.Orders, err = scanStates(rows); err != nil {
		return fmt.Errorf("read the orders in %s: %w", g.State, err)
	}
	return nil
}
