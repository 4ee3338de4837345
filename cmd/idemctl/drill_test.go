package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/idemctl/idemctl/internal/drill"
	"github.com/idemctl/idemctl/internal/render"
)

func drillReport() *drill.Report {
	m := drill.Measures{
		Deliveries: 1234567, Executed: 1, AbsorbedFilter: 1234000, AbsorbedLedger: 567, FilterShare: 0.9995, PerSecond: 12345.6, P50: 1234.56, P99: 61234.5, Statements: 12.345,
	}
	big := drill.Account{Orders: 100_001, Effects: 234_567, Duplicates: 134_566, Lost: 12_345}
	return &drill.Report{
		Seed: 18446744073709551615, Repeat: 2, Orders: 100_001, Records: 117_000, Faults: drill.Faults(),
		Servers: []string{"2 x MariaDB 10.11.19", "2 x Redis 7.0.15", "Apache Kafka 4.4.0"}, Took: 4321.987,
		Rows: []drill.Row{
			{Strategy: "select-insert", Account: big, All: m, Burst: &m},
			{Strategy: "guard-batch", Guarded: true, Runs: 2, Account: big, All: m, Burst: &m, Failed: true},
		},
		Results: []drill.Result{{
			Strategy: "guard-batch", Seed: 18446744073709551615, Failed: true, Account: big,
			Notes: []string{"parked drill-1-guard[4]@1: outside_horizon: time 2026-10-31T23:59:57.656Z is not after 2026-11-01T00:05:00.000Z, from when on it remembers"},
		}},
	}
}

// Whatever the numbers, 80 columns; and a guard that failed says how to see it again.
func TestDrillReport(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	rep := drillReport()
	p := render.Printer{W: &out, Format: render.FormatTable, Command: "drill"}
	if err := p.Print(drillResult(rep, 1700*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > render.DefaultWidth {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	flat := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"idemctl drill --seed 18446744073709551615 --strategy guard-batch --faults all --orders 100000",
		"drill: FAILED runs=2 orders=100001 effects=234567 duplicates=134566 lost=12345",
		"outside_horizon", "The burst alone",
	} {
		if !strings.Contains(flat, want) {
			t.Errorf("it does not say %q:\n%s", want, out.String())
		}
	}
	out.Reset()
	p.Format = render.FormatJSON
	if err := p.Print(drillResult(rep, time.Second)); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Result struct {
			OK         *bool `json:"ok"`
			Strategies []map[string]any
			Runs       []map[string]any
		}
	}
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil || doc.Result.OK == nil || *doc.Result.OK {
		t.Fatalf("%v: %s", err, out.String())
	}
	for _, key := range []string{"strategy", "orders", "effects", "duplicates", "lost", "parked", "all", "burst", "guarded", "runs"} {
		if _, ok := doc.Result.Strategies[1][key]; !ok {
			t.Errorf("JSON has no %s: %v", key, doc.Result.Strategies[1])
		}
	}
	// Without a burst there is no table of it.
	for i := range rep.Rows {
		rep.Rows[i].Burst = nil
	}
	if r := drillResult(rep, time.Second); len(r.Tables) != 2 {
		t.Errorf("%d tables", len(r.Tables))
	}
}

// The help names every strategy and every fault, and the documentation explains each.
func TestDrillIsDocumented(t *testing.T) {
	t.Parallel()
	help := newDrillCmd(newApp(&streams{Err: &errWriter{}}, func() []string { return nil })).Long
	doc := readDoc(t, "docs/drill.md")
	var names []string
	for _, s := range drill.Strategies() {
		names = append(names, s.Traits().Name)
	}
	for _, f := range drill.Faults() {
		names = append(names, string(f))
	}
	words := strings.FieldsFunc(help, func(r rune) bool { return strings.ContainsRune(" \n,.:()", r) })
	for _, n := range names {
		if !slices.Contains(words, n) {
			t.Errorf("the help does not name %s", n)
		}
		if !strings.Contains(doc, "| `"+n+"` |") {
			t.Errorf("docs/drill.md does not explain %s", n)
		}
	}
}
