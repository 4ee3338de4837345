package render_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/olekukonko/tablewriter/pkg/twwidth"
	"pgregory.net/rapid"

	"github.com/idemctl/idemctl/internal/render"
)

func text(t *testing.T, table render.Table, width int) string {
	t.Helper()
	var b strings.Builder
	if err := table.WriteText(&b, width); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestText(t *testing.T) { // hazard T4
	t.Parallel()
	table := render.Table{
		Title: "Outcomes of order-paid",
		Columns: []render.Column{
			{Name: "biz_type"}, {Name: "outcome_word"}, {Name: "n", Align: render.Right}, {Name: "key", Shrink: true},
		},
	}
	table.Add("COUPON", "absorbed_ledger", "12", "20261111-8842")
	table.Add("SHIP_MENT", "", "3456", "  two leading blanks")
	table.Add("订单", "executed", "1", "\x1b[31mred\nline")
	want := `Outcomes of order-paid
biz_type   outcome_word        n  key
COUPON     absorbed_ledger    12  20261111-8842
SHIP_MENT                   3456    two leading blanks
订单       executed            1  \x1b[31mred\nline
`
	if got := text(t, table, 80); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestTextShrinks(t *testing.T) {
	t.Parallel()
	table := render.Table{Columns: []render.Column{{Name: "key", Shrink: true}, {Name: "reason", Shrink: true, Min: 10}, {Name: "n"}}}
	table.Add(strings.Repeat("k", 60), strings.Repeat("r", 60), "123456")
	want := "key                  reason               n\n" + strings.Repeat("k", 18) + "…  " + strings.Repeat("r", 18) + "…  123456\n"
	if got := text(t, table, 48); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	// Columns that should not be cut are, when there is no other way.
	table = render.Table{Columns: []render.Column{{Name: "a"}, {Name: "b", Shrink: true, Min: 3}}}
	table.Add(strings.Repeat("a", 90), "bbbbbb")
	if got, want := text(t, table, 20), "a                b\n"+strings.Repeat("a", 14)+"…  bb…\n"; got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// Whatever the cells hold: one line a row, no line wider than the page, columns that begin where their headers do.
func TestTextFitsThePage(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		columns := rapid.IntRange(1, 6).Draw(t, "columns")
		table := render.Table{}
		for range columns {
			table.Columns = append(table.Columns, render.Column{Name: "some_name", Shrink: rapid.Bool().Draw(t, "shrink"), Align: render.Align(rapid.IntRange(0, 1).Draw(t, "align"))})
		}
		cell := rapid.OneOf(rapid.StringN(0, 100, 300), rapid.StringOfN(rapid.RuneFrom([]rune("订单é_ a\n\x1b")), 0, 80, -1))
		for range rapid.IntRange(0, 4).Draw(t, "rows") {
			row := make([]string, columns)
			for i := range row {
				row[i] = cell.Draw(t, "cell")
			}
			table.Add(row...)
		}
		var b strings.Builder
		if err := table.WriteText(&b, 80); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
		if len(lines) != len(table.Rows)+1 {
			t.Fatalf("%d lines for %d rows:\n%s", len(lines), len(table.Rows), b.String())
		}
		for _, l := range lines {
			if w := twwidth.Width(l); w > 80 {
				t.Fatalf("a line is %d wide:\n%s", w, b.String())
			}
		}
	})
}

func TestMalformedTable(t *testing.T) {
	t.Parallel()
	short := render.Table{Columns: []render.Column{{Name: "a"}, {Name: "b"}}, Rows: [][]string{{"1", "2"}, {"1"}}}
	for name, write := range map[string]func(*render.Table) error{
		"text":  func(t *render.Table) error { return t.WriteText(&strings.Builder{}, 80) },
		"tsv":   func(t *render.Table) error { return t.WriteTSV(&strings.Builder{}) },
		"jsonl": func(t *render.Table) error { return t.WriteJSONL(&strings.Builder{}, "c", "v") },
	} {
		if err := write(&short); !errors.Is(err, render.ErrTable) {
			t.Errorf("%s: a short row: %v", name, err)
		}
		if err := write(&render.Table{}); !errors.Is(err, render.ErrTable) {
			t.Errorf("%s: no columns: %v", name, err)
		}
	}
}

func TestTSV(t *testing.T) {
	t.Parallel()
	table := render.Table{Columns: []render.Column{{Name: "key", Shrink: true}, {Name: "n"}}}
	table.Add(strings.Repeat("k", 200), "1")
	table.Add("a\tb\nc\\d\xff", "")
	var b strings.Builder
	if err := table.WriteTSV(&b); err != nil {
		t.Fatal(err)
	}
	if want := "key\tn\n" + strings.Repeat("k", 200) + "\t1\n" + `a\tb\nc\\d\xff` + "\t\n"; b.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", b.String(), want)
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	table := render.Table{Columns: []render.Column{{Name: "key"}, {Name: "n", Number: true}}}
	table.Add("a<b>\"\xff", "9007199254740993")
	table.Add("c", "")
	table.Add("d", "n/a")
	table.Add("e", "01")
	var b strings.Builder
	if err := table.WriteJSONL(&b, "replay", "v1"); err != nil {
		t.Fatal(err)
	}
	want := `{"command":"replay","version":"v1","key":"a<b>\"\ufffd","n":9007199254740993}
{"command":"replay","version":"v1","key":"c","n":null}
{"command":"replay","version":"v1","key":"d","n":"n/a"}
{"command":"replay","version":"v1","key":"e","n":"01"}
`
	if b.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", b.String(), want)
	}
	if err := render.JSONLine(&b, "c", "v", []int{1}); !errors.Is(err, render.ErrNoObject) {
		t.Errorf("an array as a line: %v", err)
	}
	b.Reset()
	if err := render.JSONLine(&b, "c", "v", struct{}{}); err != nil || b.String() != `{"command":"c","version":"v"}`+"\n" {
		t.Errorf("an empty object: %q, %v", b.String(), err)
	}
}

func TestPrinter(t *testing.T) {
	t.Parallel()
	one := render.Table{Columns: []render.Column{{Name: "a"}}}
	one.Add("1")
	two := render.Table{Columns: []render.Column{{Name: "b"}}}
	two.Add("2")
	result := render.Result{Tables: []render.Table{one, two}, Notes: []string{"next: x\x1b"}}
	tests := map[string]struct {
		format render.Format
		result render.Result
		want   string
	}{
		"table":                 {render.FormatTable, result, "a\n1\n\nb\n2\n\nnext: x\\x1b\n"},
		"tsv":                   {render.FormatTSV, result, "a\n1\n\nb\n2\n"},
		"json of the rows":      {render.FormatJSON, result, `{"command":"c","version":"v","result":[{"a":"1"},{"b":"2"}]}`},
		"json of a value":       {render.FormatJSON, render.Result{Value: 7, Tables: result.Tables}, `{"command":"c","version":"v","result":7}`},
		"jsonl of the rows":     {render.FormatJSONL, result, `{"command":"c","version":"v","a":"1"}` + "\n"},
		"jsonl of lines":        {render.FormatJSONL, render.Result{Lines: []any{map[string]int{"x": 1}}}, `{"command":"c","version":"v","x":1}` + "\n"},
		"jsonl of no lines":     {render.FormatJSONL, render.Result{Lines: []any{}, Tables: result.Tables}, ""},
		"notes alone":           {render.FormatTable, render.Result{Notes: []string{"a\nb"}}, "a\nb\n"},
		"jsonl of a value only": {render.FormatJSONL, render.Result{Value: map[string]int{"x": 1}}, `{"command":"c","version":"v","x":1}` + "\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b strings.Builder
			if err := (render.Printer{W: &b, Format: tt.format, Command: "c", Version: "v"}).Print(tt.result); err != nil {
				t.Fatal(err)
			}
			got := b.String()
			if tt.format == render.FormatJSON {
				got = compact(t, got)
			}
			if got != tt.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, tt.want)
			}
		})
	}
	if err := (render.Printer{W: &strings.Builder{}, Format: "xml"}).Print(result); !errors.Is(err, render.ErrFormat) {
		t.Errorf("an unknown format: %v", err)
	}
}

func compact(t *testing.T, s string) string {
	t.Helper()
	var raw json.RawMessage
	if err := json.Unmarshal([]byte(s), &raw); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(raw)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestOnceColumns(t *testing.T) {
	t.Parallel()
	table := render.Table{Columns: []render.Column{{Name: "partition", Once: true}, {Name: "range", Once: true}, {Name: "outcome"}}}
	table.Add("0", "1:5", "executed")
	table.Add("0", "1:5", "executed")
	table.Add("1", "1:5", "executed")
	table.Add("1", "2:5", "invalid")
	var text, tsv strings.Builder
	if err := table.WriteText(&text, 0); err != nil {
		t.Fatal(err)
	}
	want := "partition  range  outcome\n0          1:5    executed\n                  executed\n1          1:5    executed\n           2:5    invalid\n"
	if got := text.String(); got != want {
		t.Errorf("text:\n%s\nwant\n%s", got, want)
	}
	if err := table.WriteTSV(&tsv); err != nil {
		t.Fatal(err)
	}
	if want := "0\t1:5\texecuted\n0\t1:5\texecuted\n1\t"; !strings.Contains(tsv.String(), want) {
		t.Errorf("TSV lost what it repeats:\n%s", tsv.String())
	}
}
