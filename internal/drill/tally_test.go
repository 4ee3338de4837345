package drill

import (
	"strings"
	"testing"
	"time"

	"github.com/idemctl/idemctl/pkg/ledger"
)

func TestTakeAccount(t *testing.T) {
	t.Parallel()
	orders := []string{"a", "b", "c"}
	for name, c := range map[string]struct {
		effects map[string]int
		want    Account
		exact   bool
	}{
		"exact":     {map[string]int{"a": 1, "b": 1, "c": 1}, Account{Orders: 3, Effects: 3}, true},
		"duplicate": {map[string]int{"a": 3, "b": 1, "c": 1}, Account{Orders: 3, Effects: 5, Duplicates: 2}, false},
		"lost":      {map[string]int{"a": 1, "b": 1}, Account{Orders: 3, Effects: 2, Lost: 1}, false},
		// One too many and one too few are not nothing.
		"both":    {map[string]int{"a": 2, "b": 1}, Account{Orders: 3, Effects: 3, Duplicates: 1, Lost: 1}, false},
		"unknown": {map[string]int{"a": 1, "b": 1, "c": 1, "d": 2}, Account{Orders: 3, Effects: 5, Unknown: 2}, false},
		"nothing": {nil, Account{Orders: 3, Lost: 3}, false},
	} {
		got := takeAccount(orders, c.effects)
		if got != c.want || got.Exact() != c.exact {
			t.Errorf("%s: %+v, exact %v; want %+v", name, got, got.Exact(), c.want)
		}
	}
}

func TestPercentile(t *testing.T) {
	t.Parallel()
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(i+1))
	}
	for _, c := range []struct {
		of   []time.Duration
		p    int
		want time.Duration
	}{
		{hundred, 50, 50},
		{hundred, 99, 99},
		{hundred[:1], 50, 1},
		{hundred[:1], 99, 1},
		{hundred[:2], 50, 1},
		{hundred[:3], 99, 3},
		{nil, 50, 0},
	} {
		if got := percentile(c.of, c.p); got != c.want {
			t.Errorf("p%d of %d: %d, want %d", c.p, len(c.of), got, c.want)
		}
	}
}

// What a stretch comes to is what was counted between its marks, not before and not after.
func TestMeasures(t *testing.T) {
	t.Parallel()
	var c tally
	at := time.Date(2026, 11, 11, 0, 0, 0, 0, time.UTC)
	c.count(ledger.Executed)
	c.took(time.Hour)
	start := c.mark(10, at)
	for range 6 {
		c.count(ledger.AbsorbedFilter)
	}
	c.count(ledger.AbsorbedLedger)
	c.count(ledger.AbsorbedLedger)
	c.count(ledger.Executed)
	c.count(ledger.Failed)
	for i := range 10 {
		c.took(time.Duration(10-i) * time.Millisecond)
	}
	end := c.mark(35, at.Add(2*time.Second))
	c.count(ledger.AbsorbedFilter)
	c.took(time.Hour)
	p := c.since(start, end)
	want := Measures{Deliveries: 10, Executed: 1, AbsorbedFilter: 6, AbsorbedLedger: 2, FilterShare: 0.75, PerSecond: 5, P50: 5, P99: 10, Statements: 2.5}
	if got := p.measures(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	p.add(&p)
	if got := p.measures(); got.Deliveries != 20 || got.Statements != 2.5 || got.PerSecond != 5 || got.FilterShare != 0.75 {
		t.Errorf("twice: %+v", got)
	}
	var none passage
	if got := none.measures(); got != (Measures{}) {
		t.Errorf("nothing: %+v", got)
	}
}

// The verdict asserts the guard, and nothing of the others.
func TestReport(t *testing.T) {
	t.Parallel()
	exact, wrong := Account{Orders: 5, Effects: 5}, Account{Orders: 5, Effects: 5, Duplicates: 1, Lost: 1}
	row := func(name string, guarded bool, results ...Result) Row {
		r := Row{Strategy: name, Guarded: guarded}
		for i := range results {
			r.add(&results[i])
		}
		return r
	}
	for name, c := range map[string]struct {
		rows []Row
		ok   bool
		word string
	}{
		"all is well":         {[]Row{row("naive", false, Result{Account: wrong}), row("guard", true, Result{Account: exact}, Result{Account: exact})}, true, "drill: ok runs=2 orders=10 effects=10 duplicates=0 lost=0"},
		"one run of the two":  {[]Row{row("guard", true, Result{Account: exact}, Result{Account: wrong, Failed: true})}, false, "drill: FAILED runs=2 orders=10 effects=10 duplicates=1 lost=1"},
		"a first run is kept": {[]Row{row("guard", true, Result{Account: wrong, Failed: true}, Result{Account: exact})}, false, "FAILED"},
		"another guard":       {[]Row{row("guard", true, Result{Account: exact}), row("guard-batch", true, Result{Account: wrong, Failed: true})}, false, "FAILED"},
		"no run is over":      {[]Row{row("guard", true)}, false, "drill: incomplete runs=0"},
		"no guard":            {[]Row{row("naive", false, Result{Account: wrong})}, true, "drill: the guard was not drilled"},
	} {
		rep := Report{Seed: 3, Rows: c.rows, Complete: true}
		rep.finish()
		if rep.OK != c.ok || !strings.Contains(rep.Verdict(), c.word) {
			t.Errorf("%s: %v, %s", name, rep.OK, rep.Verdict())
		}
	}
	broken := Report{Seed: 3, Rows: []Row{row("guard", true, Result{Account: exact})}}
	broken.finish()
	if got := broken.Verdict(); !strings.HasPrefix(got, "drill: incomplete runs=1 ") {
		t.Errorf("broken off: %s", got)
	}
}
