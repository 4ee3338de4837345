package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/idemctl/idemctl/internal/render"
)

// result is a line that was measured.
type result struct {
	line
	oursValue, rivalValue float64
}

func (r *result) ratio() float64 {
	if r.rivalValue == 0 {
		return 0
	}
	return r.oursValue / r.rivalValue
}

// met reports whether the ratio is what was wanted.
func (r *result) met() bool {
	if r.atMost {
		return r.ratio() <= r.wanted
	}
	return r.ratio() >= r.wanted
}

func (r *result) want() string {
	sign := "≥ "
	if r.atMost {
		sign = "≤ "
	}
	return sign + strconv.FormatFloat(r.wanted, 'g', -1, 64)
}

// String is the line for machines. What its fields mean does not change; new ones go behind.
func (r *result) String() string {
	return fmt.Sprintf("BENCH name=%s ours=%s rival=%s ratio=%.2f unit=%s", r.name, number(r.oursValue), number(r.rivalValue), r.ratio(), r.unit)
}

// number shows whole numbers where nothing behind the point can be trusted.
func number(v float64) string {
	if v >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}

// report prints the line of a contest that is over.
func (b *bench) report(name string, ours, rival float64) error {
	for _, l := range lines() {
		if l.name != name {
			continue
		}
		r := result{line: l, oursValue: ours, rivalValue: rival}
		b.results = append(b.results, r)
		if _, err := fmt.Fprintln(b.out, r.String()); err != nil {
			return fmt.Errorf("write the results: %w", err)
		}
		return nil
	}
	return fmt.Errorf("there is no line %s", name)
}

// table prints all results for people, in the order of the list.
func (b *bench) table() error {
	t := render.Table{
		Title: fmt.Sprintf("Medians of %d rounds, turns of %v; batches of %d by %d goroutines", b.opts.rounds,
			b.opts.length.Round(time.Millisecond), batchSize, b.opts.batchers),
		Columns: []render.Column{
			{Name: "line"}, {Name: "ours", Align: render.Right}, {Name: "rival", Align: render.Right}, {Name: "unit"},
			{Name: "ratio", Align: render.Right}, {Name: "wanted"}, {Name: "met"},
		},
	}
	for _, name := range lineNames() {
		for i := range b.results {
			r := &b.results[i]
			if r.name != name {
				continue
			}
			met := "yes"
			if !r.met() {
				met = "NO"
			}
			t.Add(r.name, number(r.oursValue), number(r.rivalValue), r.unit, fmt.Sprintf("%.2f", r.ratio()), r.want(), met)
		}
	}
	if _, err := fmt.Fprintln(b.out); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	return t.WriteText(b.out, 0)
}
