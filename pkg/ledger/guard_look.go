package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/partition"
)

// LookPage is how many keys one page of look-ups carries at most: an IN list that the range optimizer still takes.
const LookPage = 500

// lookAttempts bounds how often looks are repeated because the catalog changed under them.
const lookAttempts = 10

// Classify says what Do would do with each message, by looks alone: nothing is written anywhere. Executed reads as "would
// execute"; the same key twice among the messages is not told apart.
func (g *Guard) Classify(ctx context.Context, messages []Message) ([]Result, error) {
	results := make([]Result, len(messages))
	var ask []int
	for i := range messages {
		if res, bad := g.refuse(&messages[i]); bad {
			results[i] = res
		} else {
			ask = append(ask, i)
		}
	}
	for page := range pages(ask, LookPage) {
		if err := g.classifyPage(ctx, messages, page, results); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// pages cuts a list into pieces of at most n.
func pages[T any](list []T, n int) func(yield func([]T) bool) {
	return func(yield func([]T) bool) {
		for len(list) > 0 {
			k := min(n, len(list))
			if !yield(list[:k]) {
				return
			}
			list = list[k:]
		}
	}
}

func (g *Guard) classifyPage(ctx context.Context, messages []Message, page []int, results []Result) error {
	asked := make([]*Message, len(page))
	for n, i := range page {
		asked[n] = &messages[i]
	}
	markers, degraded, err := g.lookMarkers(ctx, asked)
	if err != nil {
		return err
	}
	rows, snap, err := g.lookUnknown(ctx, asked)
	if err != nil {
		return err
	}
	for n, m := range asked {
		res := g.classify(m, snap, rows[n], markers[n])
		res.Marker, res.Degraded = markers[n], degraded
		results[page[n]] = res
	}
	return nil
}

// lookUnknown finds the rows of messages, in order, without looking up those of which it is known already that they have
// one. A fingerprint wants the row itself.
func (g *Guard) lookUnknown(ctx context.Context, messages []*Message) ([]*Entry, *snapshot, error) {
	known, snap := g.known.Load(), g.current()
	if known != nil && known.generation != snap.Generation {
		known = nil
	}
	rows := make([]*Entry, len(messages))
	var at []int
	var unknown []*Message
	for n, m := range messages {
		had := false
		if known != nil && len(m.Fingerprint) == 0 {
			var err error
			if had, err = known.has(m.Key.OrderID); err != nil {
				return nil, nil, err
			}
		}
		if had {
			rows[n] = &known.entry
		} else {
			at, unknown = append(at, n), append(unknown, m)
		}
	}
	if len(unknown) == 0 {
		return rows, snap, nil
	}
	found, snap, err := g.lookRows(ctx, unknown)
	for i, m := range unknown {
		rows[at[i]] = found[m.Key.OrderID]
	}
	return rows, snap, err
}

func (g *Guard) lookMarkers(ctx context.Context, messages []*Message) ([]Marker, bool, error) {
	if g.opts.Filter == nil {
		return make([]Marker, len(messages)), false, nil
	}
	keys := make([]Key, len(messages))
	for i, m := range messages {
		keys[i] = m.Key
	}
	markers, err := g.opts.Filter.Look(ctx, keys)
	if errors.Is(err, ErrFilterAway) {
		return make([]Marker, len(messages)), true, nil
	}
	return markers, false, err
}

// classify combines what both stores say of one message.
func (g *Guard) classify(m *Message, snap *snapshot, row *Entry, marker Marker) Result {
	if row != nil {
		return g.existing(m, row, marker, snap.LedgerID)
	}
	_, home := snap.Home(g.month(m))
	home = home || g.opts.Store.Legacy() // where its owner keeps a row is not the guard's to say
	switch {
	case marker.State == MarkerProcessing:
		return inFlight(marker)
	case !home || !g.mayRun(m, marker, snap):
		return g.absent(m, snap, home, marker)
	}
	return Result{Outcome: Executed}
}

// lookRows reads the rows of messages: first in their home months, then what was not found in all the others. The generation
// is read last, and must be that of the snapshot returned.
func (g *Guard) lookRows(ctx context.Context, messages []*Message) (map[string]*Entry, *snapshot, error) {
	var last error
	for range lookAttempts {
		snap := g.current()
		rows, err := g.lookIn(ctx, snap, messages)
		last = err
		if err == nil {
			var gen int64
			if gen, err = g.opts.Store.generation(ctx, g.opts.Store.read); err == nil && gen == snap.Generation {
				return rows, snap, nil
			}
		}
		if err != nil && mysqlx.Number(err) != mysqlx.ErrNoSuchTable {
			return nil, nil, fmt.Errorf("look up %d keys: %w", len(messages), err)
		}
		if err := g.reload(ctx); err != nil {
			return nil, nil, err
		}
	}
	if last == nil {
		last = partition.ErrCatalogChanged
	}
	return nil, nil, fmt.Errorf("look up %d keys: gave up after %d looks: %w", len(messages), lookAttempts, last)
}

func (g *Guard) lookIn(ctx context.Context, snap *snapshot, messages []*Message) (map[string]*Entry, error) {
	rows := make(map[string]*Entry, len(messages))
	home := map[partition.Month][]string{}
	asked := make(map[string]bool, len(messages))
	for _, m := range messages {
		if !asked[m.Key.OrderID] {
			asked[m.Key.OrderID] = true
			home[g.month(m)] = append(home[g.month(m)], m.Key.OrderID)
		}
	}
	for _, t := range snap.Tables {
		if err := g.lookTable(ctx, t, home[t.Month], rows); err != nil {
			return nil, err
		}
	}
	for _, t := range snap.Tables {
		var rest []string
		for month, ids := range home {
			if month == t.Month {
				continue
			}
			for _, id := range ids {
				if rows[id] == nil {
					rest = append(rest, id)
				}
			}
		}
		if err := g.lookTable(ctx, t, rest, rows); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

func (g *Guard) lookTable(ctx context.Context, t partition.Table, ids []string, rows map[string]*Entry) error {
	return lookUnder(t, func(name string) error { return g.lookPages(ctx, name, ids, rows) })
}

// lookUnder looks into a month of the catalog under whichever of its names it has: first where it comes from, then where it
// goes, so that a look which meets a rename finds it in one of the two.
//
// A held month that is not there was dropped, and has no rows left to look for: the catalog never calls a table held whose
// horizon it does not hold already, and a table that is put back is called moving before it moves. So within one generation
// a held month can only go, and whoever reads the generation after the look, as every caller does, knows all that it may
// have held to be outside the horizon. Otherwise a purge that broke off between DROP and taking the name off the list would
// hold every consumer until the next purge. Of any other month the error of the server is returned (mysqlx.ErrNoSuchTable).
func lookUnder(t partition.Table, look func(name string) error) error {
	var err error
	for _, name := range t.Names() {
		if err = look(name); mysqlx.Number(err) != mysqlx.ErrNoSuchTable {
			return err
		}
	}
	if t.State == partition.Held {
		return nil
	}
	return err
}

// lookPages reads rows by pages of keys.
func (g *Guard) lookPages(ctx context.Context, table string, ids []string, rows map[string]*Entry) error {
	for page := range pages(ids, LookPage) {
		found, err := g.opts.Store.find(ctx, g.opts.Store.read, table, g.opts.BizType, page, "")
		if err != nil {
			return err
		}
		for i := range found {
			rows[found[i].Key.OrderID] = &found[i]
		}
	}
	return nil
}
