package replay

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

type keyedLine struct {
	Line

	class Class
}

// hazard R12
func TestKeyReportEqualsANaiveOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(rapid.Custom(drawKeyedLine), 0, 120).Draw(t, "lines")
		top := rapid.IntRange(1, 6).Draw(t, "top")
		sink := newKeysSink(dir, rapid.SampledFrom([]int{1, 300, 2000, 1 << 20}).Draw(t, "bound"), "orders")
		defer sink.close()
		for i := range lines {
			if err := sink.add(&lines[i].Line, lines[i].class); err != nil {
				t.Fatal(err)
			}
		}
		got, err := sink.report(top)
		if err != nil {
			t.Fatal(err)
		}
		got.Spilled = 0
		if want := naiveKeyReport(lines, top); !reflect.DeepEqual(*got, want) {
			t.Fatalf("got  %+v\nwant %+v", *got, want)
		}
	})
}

func drawKeyedLine(t *rapid.T) keyedLine {
	outcomes := map[string]Class{
		OutcomeExecuted: Executed, OutcomeAbsorbedFilter: Absorbed, OutcomeAbsorbedLedger: Absorbed, OutcomeConflict: Held, "new_word": Failed,
	}
	var l keyedLine
	l.Outcome = rapid.SampledFrom([]string{
		OutcomeExecuted, OutcomeAbsorbedFilter, OutcomeAbsorbedLedger, OutcomeConflict, "new_word",
	}).Draw(t, "outcome")
	l.class = outcomes[l.Outcome]
	l.Key = rapid.SampledFrom([]string{"a", "b", "B", "b ", "c\x00", "日本"}).Draw(t, "key")
	l.Position = drawPosition(t)
	l.Topic = "orders"
	l.Time = time.UnixMilli(rapid.Int64Range(-5, 1000).Draw(t, "time")).UTC()
	if rapid.Bool().Draw(t, "by") {
		by := drawPosition(t)
		l.By, l.InRange = &by, rapid.Bool().Draw(t, "in range")
	}
	return l
}

func drawPosition(t *rapid.T) Position {
	return Position{
		Topic:     rapid.SampledFrom([]string{"orders", "orders", "older"}).Draw(t, "topic"),
		Partition: rapid.Int32Range(0, 1).Draw(t, "partition"), Offset: rapid.Int64Range(0, 5).Draw(t, "offset"),
	}
}

// naiveKeyReport is the report by its definition, with everything in memory.
func naiveKeyReport(lines []keyedLine, top int) KeyReport {
	groups := map[string][]keyedLine{}
	for _, l := range lines {
		groups[l.Key] = append(groups[l.Key], l)
	}
	report := KeyReport{Top: []KeyLine{}}
	for key, group := range groups {
		slices.SortStableFunc(group, func(a, b keyedLine) int { return comparePositions(&a.Position, &b.Position) })
		line := KeyLine{Key: key, Outcomes: Tally{}, By: naiveBy(group), First: group[0].Time, Last: group[0].Time}
		offsets := map[Position]bool{}
		for _, l := range group {
			line.Deliveries++
			line.Outcomes[l.Outcome]++
			offsets[l.Position] = true
			if l.Time.Before(line.First) {
				line.First = l.Time
			}
			if l.Time.After(line.Last) {
				line.Last = l.Time
			}
			by := cmp.Or(l.By, line.By)
			switch {
			case l.class != Absorbed:
			case by == nil:
				line.Unattributed++
			case *by == l.Position:
				line.Redelivered++
			default:
				line.Republished++
			}
		}
		line.Offsets, line.GapMS = int64(len(offsets)), line.Last.Sub(line.First).Milliseconds()
		report.Keys++
		report.Excess += line.Deliveries - 1
		report.Redelivered += line.Redelivered
		report.Republished += line.Republished
		report.Unattributed += line.Unattributed
		if line.Deliveries > 1 {
			report.Repeated++
			report.Top = append(report.Top, line)
		}
	}
	slices.SortFunc(report.Top, func(a, b KeyLine) int {
		return cmp.Or(cmp.Compare(b.Deliveries, a.Deliveries), strings.Compare(a.Key, b.Key))
	})
	report.Top = report.Top[:min(top, len(report.Top))]
	return report
}

func naiveBy(group []keyedLine) *Position {
	for _, l := range group {
		if l.By != nil && !l.InRange {
			return l.By
		}
	}
	for _, l := range group {
		if l.class == Executed {
			return &l.Position
		}
	}
	for _, l := range group {
		if l.By != nil {
			return l.By
		}
	}
	return nil
}

// TestIncidentByKey is the incident in small: one order published again under a new offset 12 s later, one record that was
// executed before and is read again.
func TestIncidentByKey(t *testing.T) {
	t.Parallel()
	records := topicOf(3, "20261111-8842", "x", "y", "x")
	records = append(records, Record{
		Topic: "orders", Partition: 3, Offset: 4, Value: []byte("20261111-8842"), Timestamp: records[0].Timestamp.Add(12 * time.Second),
	})
	ledger := &fakeLedger{mode: ModeExecute, rows: map[string]Position{"x": {"orders", 3, 1}}, runs: map[string]int{}}
	r, _ := newTestRunner(t, &fakeSource{step: 9, records: map[int32][]Record{3: records}}, ledger)
	report, err := replayAll(t.Context(), t, r, Request{Mode: ModeExecute, KeepKeys: true})
	if err != nil {
		t.Fatal(err)
	}
	k := report.Keys
	if k.Keys != 3 || k.Repeated != 2 || k.Excess != 2 || k.Redelivered != 1 || k.Republished != 2 || len(k.Top) != 2 {
		t.Fatalf("got %+v", k)
	}
	coupon := k.Top[0]
	if coupon.Key != "20261111-8842" || coupon.GapMS != 12_000 || *coupon.By != (Position{"orders", 3, 0}) || coupon.Republished != 1 ||
		fmt.Sprint(coupon.Outcomes.Rows()) != "[{executed 1} {absorbed_ledger 1}]" {
		t.Errorf("got %+v by %v", coupon, coupon.By)
	}
	if x := k.Top[1]; x.Key != "x" || *x.By != (Position{"orders", 3, 1}) || x.Redelivered != 1 || x.Republished != 1 {
		t.Errorf("got %+v", x)
	}
}

func TestExamplesAreTheFirstOfEachOutcome(t *testing.T) {
	t.Parallel()
	var x examples
	tally := Tally{}
	for i := range 100 {
		l := Line{Outcome: []string{OutcomeExecuted, OutcomeInvalid}[i%2]}
		l.Partition, l.Offset = int32(i%3), int64((i*37)%100)
		x.add(&l)
		tally[l.Outcome]++
	}
	lines := x.lines(tally)
	if len(lines) != 2*examplesKept || lines[0].Outcome != OutcomeExecuted || lines[examplesKept].Outcome != OutcomeInvalid {
		t.Fatalf("got %v", lines)
	}
	for i, l := range lines {
		if l.Partition != 0 || (i%examplesKept > 0 && l.Offset <= lines[i-1].Offset) {
			t.Errorf("example %d is %v", i, l)
		}
	}
}
