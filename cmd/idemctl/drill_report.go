package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/idemctl/idemctl/internal/drill"
	"github.com/idemctl/idemctl/internal/render"
)

// drillResult is a drill's report in every format. Lines are the strategies.
func drillResult(rep *drill.Report, started time.Duration) render.Result {
	lines := make([]any, len(rep.Rows))
	for i := range rep.Rows {
		lines[i] = &rep.Rows[i]
	}
	tables := []render.Table{drillAccount(rep), drillCost(rep)}
	if drillHasBurst(rep) {
		tables = append(tables, drillBurst(rep))
	}
	return render.Result{Value: rep, Lines: lines, Tables: tables, Notes: drillNotes(rep, started)}
}

// drillAccount is what became of the orders.
func drillAccount(rep *drill.Report) render.Table {
	t := render.Table{
		Title: "What became of the orders",
		Columns: append([]render.Column{{Name: "strategy"}},
			drillColumns("orders", "effects", "duplicates", "lost", "parked", "by filter", "by ledger")...),
	}
	for i := range rep.Rows {
		r := &rep.Rows[i]
		t.Add(r.Strategy, strconv.Itoa(r.Orders), strconv.Itoa(r.Effects), strconv.Itoa(r.Duplicates), strconv.Itoa(r.Lost), strconv.Itoa(r.Parked),
			strconv.FormatInt(r.All.AbsorbedFilter, 10), strconv.FormatInt(r.All.AbsorbedLedger, 10))
	}
	return t
}

// drillCost is what it cost, faults included.
func drillCost(rep *drill.Report) render.Table {
	t := drillMeasures("What it cost, faults included")
	for i := range rep.Rows {
		drillAdd(&t, rep.Rows[i].Strategy, &rep.Rows[i].All)
	}
	return t
}

// drillBurst is the burst alone.
func drillBurst(rep *drill.Report) render.Table {
	t := drillMeasures("The burst alone: one order, 1000 deliveries, 200 at once")
	for i := range rep.Rows {
		if b := rep.Rows[i].Burst; b != nil {
			drillAdd(&t, rep.Rows[i].Strategy, b)
		}
	}
	return t
}

func drillHasBurst(rep *drill.Report) bool {
	for i := range rep.Rows {
		if rep.Rows[i].Burst != nil {
			return true
		}
	}
	return false
}

func drillMeasures(title string) render.Table {
	return render.Table{
		Title:   title,
		Columns: append([]render.Column{{Name: "strategy"}}, drillColumns("deliveries", "msg/s", "p50 ms", "p99 ms", "SQL/msg", "filter %")...),
	}
}

func drillAdd(t *render.Table, name string, m *drill.Measures) {
	share := ""
	if m.AbsorbedFilter+m.AbsorbedLedger > 0 {
		share = drillNumber(100*m.FilterShare, 1) //nolint:mnd // per cent
	}
	t.Add(name, strconv.Itoa(m.Deliveries), drillNumber(m.PerSecond, 0), drillNumber(m.P50, 1), drillNumber(m.P99, 1), drillNumber(m.Statements, 2), share) //nolint:mnd // digits
}

func drillNumber(f float64, digits int) string { return strconv.FormatFloat(f, 'f', digits, 64) }

func drillColumns(names ...string) []render.Column {
	columns := make([]render.Column, len(names))
	for i, n := range names {
		columns[i] = render.Column{Name: n, Align: render.Right, Number: true}
	}
	return columns
}

// drillNotes say what was drilled, what must be looked at, and the verdict.
func drillNotes(rep *drill.Report, started time.Duration) []string {
	var notes []string
	injected := len(rep.Schedule)
	runs := "1 run"
	if n := len(rep.Results); n != 1 {
		runs = fmt.Sprintf("%d runs", n)
	}
	notes = append(notes, wrap(fmt.Sprintf("Seed %d: %d orders in %d records, %d faults in each of %s.", rep.Seed, rep.Orders, rep.Records, injected, runs), render.DefaultWidth))
	took := time.Duration(rep.Took * float64(time.Second)).Round(100 * time.Millisecond) //nolint:mnd // tenths of a second
	notes = append(notes, wrap(fmt.Sprintf("Started in %s, drilled in %s: %s.", started, took, strings.Join(rep.Servers, ", ")), render.DefaultWidth),
		"filter % is the share of the duplicates that Redis absorbed alone.")
	for i := range rep.Results {
		r := &rep.Results[i]
		if !r.Failed {
			continue
		}
		again := fmt.Sprintf("%s, seed %d: duplicates=%d lost=%d parked=%d. The same again: %s drill --seed %d --strategy %s --faults %s --orders %d",
			r.Strategy, r.Seed, r.Duplicates, r.Lost, r.Parked, programName, r.Seed, r.Strategy, rep.Kinds(), rep.Orders-drillHot(rep))
		for _, note := range append([]string{again}, r.Notes...) {
			notes = append(notes, wrap(note, render.DefaultWidth))
		}
	}
	return append(notes, "", rep.Verdict())
}

// drillHot is how many of the orders are the burst's.
func drillHot(rep *drill.Report) int {
	if drillHasBurst(rep) {
		return 1
	}
	return 0
}
