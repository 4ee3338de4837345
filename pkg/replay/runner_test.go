package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestRunCountsOutcomesInOrder(t *testing.T) {
	t.Parallel()
	source := &fakeSource{step: 2, records: map[int32][]Record{
		0: topicOf(0, "a", "a", "", "b", "bad1", "c"), 1: topicOf(1, "x", "a"), 2: {},
	}, ends: map[int32]int64{0: 8, 2: 3}}
	ledger := &fakeLedger{mode: ModeExecute, rows: map[string]Position{"c": {"orders", 0, 99}}, runs: map[string]int{}}
	r, _ := newTestRunner(t, source, ledger)
	var lines []Line
	var states []ProgressState
	plan, err := r.Plan(t.Context(), Request{
		Topic: "orders", Range: wholeRange(t), Mode: ModeExecute, PageSize: 2,
		List: func(l Line) error { lines = append(lines, l); return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	report, err := r.Run(t.Context(), plan, func(s ProgressState) { states = append(states, s) })
	if err != nil {
		t.Fatal(err)
	}
	wantTally(t, report.Total.Outcomes, "executed=3 absorbed_ledger=3 invalid=1")
	wantTally(t, report.Partitions[0].Outcomes, "executed=2 absorbed_ledger=2 invalid=1")
	if report.Stop != StopEnd || !report.Complete() || report.Finding() != FindingIncomplete || len(report.Resume()) != 0 {
		t.Errorf("stop %s, complete %v, finding %s, resume %v", report.Stop, report.Complete(), report.Finding(), report.Resume())
	}
	next := map[int32]int64{}
	for _, l := range lines {
		if l.Offset < next[l.Partition] {
			t.Errorf("line of partition %d at %d after %d", l.Partition, l.Offset, next[l.Partition]-1)
		}
		next[l.Partition] = l.Offset + 1
	}
	if len(lines) != 7 {
		t.Errorf("%d lines, want 7", len(lines))
	}
	for _, p := range report.Partitions {
		if p.Next != p.End {
			t.Errorf("partition %d: next %d, want its end %d", p.Partition, p.Next, p.End)
		}
	}
	last := states[len(states)-1]
	if last.OffsetsDone != plan.Offsets() || last.OffsetsTotal != 13 || last.Records != 7 {
		t.Errorf("last progress %+v, want all of 13 offsets and 7 records", last)
	}
	if _, err := json.Marshal(report); err != nil {
		t.Error(err)
	}
}

func TestFindingSortsReports(t *testing.T) {
	t.Parallel()
	done := PartitionReport{Bounds: Bounds{End: 1}, Next: 1}
	for _, tt := range []struct {
		name   string
		report Report
		want   Finding
	}{
		{"verify, all absorbed", Report{Mode: ModeVerify, Stop: StopEnd, Total: Totals{Records: 3, Absorbed: 3}}, FindingClean},
		{"verify, nothing there", Report{Mode: ModeVerify, Stop: StopEnd}, FindingClean},
		{"verify, one would run", Report{Mode: ModeVerify, Stop: StopEnd, Total: Totals{Records: 3, Absorbed: 2, Executed: 1}}, FindingFound},
		{"verify, one held", Report{Mode: ModeVerify, Stop: StopEnd, Total: Totals{Records: 3, Absorbed: 2, Held: 1}}, FindingFound},
		{"verify, limit", Report{Mode: ModeVerify, Stop: StopLimit, Total: Totals{Records: 3, Executed: 3}}, FindingIncomplete},
		{"verify, open transaction", Report{Mode: ModeVerify, Stop: StopEnd, Total: Totals{HeldBack: 1}}, FindingIncomplete},
		{"execute, all ran", Report{Mode: ModeExecute, Stop: StopEnd, Total: Totals{Records: 3, Absorbed: 2, Executed: 1}}, FindingClean},
		{"execute, one held", Report{Mode: ModeExecute, Stop: StopEnd, Total: Totals{Records: 3, Held: 1}}, FindingIncomplete},
		{"rehearse, one failed", Report{Mode: ModeRehearse, Stop: StopEnd, Total: Totals{Records: 3, Failed: 1}}, FindingIncomplete},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.report.Partitions = []PartitionReport{done}
			if got := tt.report.Finding(); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// hazard R12
func TestVerifyKnowsWhatTheRangeWouldExecute(t *testing.T) {
	t.Parallel()
	held := Verdict{Outcome: OutcomeOutsideHorizon, Class: Held}
	failed := Verdict{Outcome: OutcomeFailed, Class: Failed}
	phantom := Verdict{Outcome: OutcomePhantom, Class: Held}
	for _, bound := range []int{1, 1000} { // the keys spill, or not
		for _, mode := range []Mode{ModeVerify, ModeRehearse} {
			t.Run(fmt.Sprint(mode, bound), func(t *testing.T) {
				t.Parallel()
				source := &fakeSource{step: 3, records: map[int32][]Record{
					0: topicOf(0, "z", "a", "a", "h", "h", "h", "f", "f", "p", "p", "q/1", "q/1", "q/2", "A", "a "),
				}}
				ledger := &fakeLedger{mode: mode, script: map[string][]Verdict{
					"h": {held, {}, held}, "f": {{}, failed}, "p": {{}, phantom},
				}}
				r, _ := newTestRunner(t, source, ledger)
				r.opts.SeenInMemory = bound
				r.opts.TempDir = t.TempDir()
				var got []string
				_, err := replayAll(t.Context(), t, r, Request{Mode: mode, List: func(l Line) error {
					s := l.Key + " " + l.Outcome
					if l.InRange {
						s += fmt.Sprint(" by ", l.By.Offset)
					}
					got = append(got, s)
					return nil
				}})
				if err != nil {
					t.Fatal(err)
				}
				want := []string{
					"z would_execute", "a would_execute", "a absorbed_ledger by 1", "h outside_horizon", "h would_execute",
					"h absorbed_ledger by 4", "f would_execute", "f absorbed_ledger by 6", "p would_execute", "p phantom",
					"q would_execute", "q absorbed_ledger by 10", "q conflict by 10", "A would_execute", "a  would_execute",
				}
				if !slices.Equal(got, want) {
					t.Errorf("got  %q\nwant %q", got, want)
				}
			})
		}
	}
}

func TestStopIsNeverTakenForADuplicate(t *testing.T) {
	t.Parallel()
	errAway := errors.New("away")
	source := &fakeSource{step: 9, records: map[int32][]Record{0: topicOf(0, "a", "a", "b")}}
	ledger := &fakeLedger{mode: ModeRehearse, script: map[string][]Verdict{
		"a": {{}, {Outcome: OutcomeFailed, Class: Failed, Stop: errAway}},
	}}
	r, _ := newTestRunner(t, source, ledger)
	report, err := replayAll(t.Context(), t, r, Request{Mode: ModeRehearse})
	if !errors.Is(err, errAway) {
		t.Fatalf("got %v, want the handler's error", err)
	}
	wantTally(t, report.Total.Outcomes, "would_execute=1 failed=1")
}

func TestPartitionsAtOnceShareOneAccount(t *testing.T) {
	t.Parallel()
	source := &fakeSource{records: map[int32][]Record{}}
	for p := range int32(4) {
		keys := make([]string, 200)
		for i := range keys {
			keys[i] = strconv.Itoa(i % 50)
		}
		source.records[p] = topicOf(p, keys...)
	}
	r, _ := newTestRunner(t, source, &fakeLedger{mode: ModeVerify})
	r.opts.SeenInMemory, r.opts.KeysInMemory, r.opts.TempDir = 10, 1000, t.TempDir()
	lines := 0
	plan, err := r.Plan(t.Context(), Request{
		Topic: "orders", Range: wholeRange(t), Mode: ModeVerify, PageSize: 7, KeepKeys: true, List: func(Line) error { lines++; return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	last := int64(0)
	report, err := r.Run(t.Context(), plan, func(s ProgressState) { last = s.Records })
	if err != nil {
		t.Fatal(err)
	}
	wantTally(t, report.Total.Outcomes, "would_execute=50 absorbed_ledger=750")
	if lines != 800 || last != 800 || report.Keys.Excess != 750 || report.Keys.Republished != 750 || report.Total.InRange != 750 {
		t.Errorf("%d lines, %d in progress, keys %+v", lines, last, report.Keys)
	}
}

func TestRunStopsWhereTheHandlerSaysSo(t *testing.T) {
	t.Parallel()
	errAway := errors.New("month table is missing")
	source := &fakeSource{step: 10, records: map[int32][]Record{0: topicOf(0, "a", "b", "stop", "c", "d")}}
	ledger := &fakeLedger{mode: ModeExecute, script: map[string][]Verdict{
		"stop": {{Outcome: OutcomeFailed, Class: Failed, Stop: errAway, Reason: "no table"}},
	}}
	r, _ := newTestRunner(t, source, ledger)
	report, err := replayAll(t.Context(), t, r, Request{Mode: ModeExecute})
	var partial *PartialError
	if !errors.As(err, &partial) || !errors.Is(err, errAway) || partial.Done != 3 || partial.Failed != 1 {
		t.Fatalf("got %v, want a *PartialError of 3 done, 1 failed", err)
	}
	wantTally(t, report.Total.Outcomes, "executed=2 failed=1")
	if report.Stop != StopHandler || report.StoppedAt == nil || report.StoppedAt.Offset != 2 || report.StopReason != "no table" {
		t.Errorf("stop %s at %v (%s)", report.Stop, report.StoppedAt, report.StopReason)
	}
	if got := report.Resume(); len(got) != 1 || got[0].String() != "-p 0 --range 2:5" {
		t.Errorf("resume %v, want -p 0 --range 2:5", got)
	}
}

func TestRunStopsAtAPageThatCouldNotBeDecided(t *testing.T) {
	t.Parallel()
	errAway := errors.New("server is away")
	source := &fakeSource{step: 10, records: map[int32][]Record{0: topicOf(0, "a", "b", "c", "d", "e")}}
	for _, tt := range []struct {
		name    string
		handler Handler
		keys    []string
	}{
		{name: "error", handler: &fakeLedger{mode: ModeExecute, before: func(call int) error {
			if call == 2 {
				return errAway
			}
			return nil
		}}},
		{name: "a verdict too few", handler: shortHandler{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, _ := newTestRunner(t, source, tt.handler)
			report, err := replayAll(t.Context(), t, r, Request{Mode: ModeExecute, PageSize: 2})
			if _, ok := errors.AsType[*PartialError](err); !ok {
				t.Fatalf("got %v, want a *PartialError", err)
			}
			if report.Stop != StopHandler || report.Total.Records != 2 || report.Resume()[0].Range != "2:5" {
				t.Errorf("stop %s after %d, resume %v", report.Stop, report.Total.Records, report.Resume())
			}
		})
	}
}

// shortHandler forgets a verdict of the second page.
type shortHandler struct{}

func (shortHandler) Handle(_ context.Context, items []Item) ([]Verdict, error) {
	v := Verdict{Outcome: OutcomeExecuted, Class: Executed}
	if items[0].Record.Offset >= 2 {
		return []Verdict{v}, nil
	}
	return []Verdict{v, v}, nil
}

func TestRunReportsWhatTheSourceCouldNotRead(t *testing.T) {
	t.Parallel()
	records := map[int32][]Record{0: topicOf(0, "a", "b", "c")}
	for _, tt := range []struct {
		name     string
		source   *fakeSource
		mentions string
	}{
		{"error", &fakeSource{step: 2, records: records, err: errors.New("broker is gone")}, "broker is gone"},
		{"early end", &fakeSource{step: 2, records: records, early: true}, "ended at offset 2, before 3"}, // hazard R1
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, _ := newTestRunner(t, tt.source, &fakeLedger{mode: ModeExecute})
			report, err := replayAll(t.Context(), t, r, Request{Mode: ModeExecute})
			if err == nil || !strings.Contains(err.Error(), tt.mentions) || report.Stop != StopSource {
				t.Errorf("got %v (%s), want %q", err, report.Stop, tt.mentions)
			}
		})
	}
}

func TestRunEndsOnAnExtractorThatBreaks(t *testing.T) {
	t.Parallel()
	source := &fakeSource{step: 9, records: map[int32][]Record{0: topicOf(0, "a", "broken", "c")}}
	r, _ := newTestRunner(t, source, &fakeLedger{mode: ModeExecute})
	report, err := replayAll(t.Context(), t, r, Request{Mode: ModeExecute, PageSize: 1})
	if !errors.Is(err, errBroken) || report.Resume()[0].Range != "1:3" || report.StoppedAt.Offset != 1 {
		t.Errorf("got %v, resume %v at %v", err, report.Resume(), report.StoppedAt)
	}
}

func TestLimitIsExact(t *testing.T) {
	t.Parallel()
	keys := make([]string, 50)
	for i := range keys {
		keys[i] = fmt.Sprintf("k%02d", i)
	}
	for _, step := range []int{0, 1, 7} { // 0: partitions at once
		for _, tt := range []struct {
			limit int64
			want  int64
			stop  Stop
		}{{1, 1, StopLimit}, {3, 3, StopLimit}, {7, 7, StopLimit}, {99, 99, StopLimit}, {149, 149, StopLimit}, {150, 150, StopEnd}, {151, 150, StopEnd}} {
			t.Run(fmt.Sprint(step, tt.limit), func(t *testing.T) {
				t.Parallel()
				source := &fakeSource{step: step, records: map[int32][]Record{
					0: topicOf(0, keys...), 1: topicOf(1, keys...), 2: topicOf(2, keys...),
				}}
				ledger := &fakeLedger{mode: ModeExecute}
				r, _ := newTestRunner(t, source, ledger)
				report, err := replayAll(t.Context(), t, r, Request{Mode: ModeExecute, Limit: tt.limit, PageSize: 3})
				if err != nil {
					t.Fatal(err)
				}
				if n := int64(len(ledger.handled)); n != tt.want || report.Total.Records != n || report.Stop != tt.stop {
					t.Errorf("handled %d, counted %d, stop %s; want %d, %s", n, report.Total.Records, report.Stop, tt.want, tt.stop)
				}
				var left int64
				for _, p := range report.Partitions {
					left += p.End - p.Next
				}
				if left != 150-tt.want {
					t.Errorf("%d offsets left, want %d", left, 150-tt.want)
				}
			})
		}
	}
}

// waitingHandler is at a page of partition 0 when partition 1 begins, and holds it until partition 1 has ended the run.
type waitingHandler struct{ arrived, ended chan struct{} }

func (h waitingHandler) Handle(ctx context.Context, items []Item) ([]Verdict, error) {
	if items[0].Record.Partition == 0 {
		close(h.arrived)
		<-h.ended
	} else {
		<-h.arrived
	}
	return []Verdict{{Outcome: OutcomeExecuted, Class: Executed}}, ctx.Err()
}

func TestPagesUnderWayAreBroughtToTheirEnd(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		keys []string // of partition 1
		stop Stop
		left int
	}{
		{"the limit was the last record", []string{"b"}, StopEnd, 0},
		{"the limit left a record out", []string{"b", "c"}, StopLimit, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			source := &fakeSource{records: map[int32][]Record{0: topicOf(0, "a"), 1: topicOf(1, tt.keys...)}, ended: make(chan struct{})}
			r, _ := newTestRunner(t, source, waitingHandler{make(chan struct{}), source.ended})
			report, err := replayAll(t.Context(), t, r, Request{Mode: ModeExecute, Limit: 2, PageSize: 1})
			if err != nil {
				t.Fatal(err)
			}
			if report.Total.Executed != 2 || report.Stop != tt.stop || len(report.Resume()) != tt.left {
				t.Errorf("%d executed, stop %s, resume %v; want 2, %s", report.Total.Executed, report.Stop, report.Resume(), tt.stop)
			}
		})
	}
}

func TestKeyFilterPassesOthersBy(t *testing.T) {
	t.Parallel()
	source := &fakeSource{step: 3, records: map[int32][]Record{0: topicOf(0, "a", "bad1", "b", "a", "c", "a", "bad2", "a")}}
	for _, tt := range []struct {
		key     string
		limit   int64
		tally   string
		skipped int64
		next    int64
	}{
		{key: "a", tally: "executed=1 absorbed_ledger=3", skipped: 4, next: 8},
		{key: "bad1", tally: "invalid=1", skipped: 7, next: 8},
		{key: "A", tally: "", skipped: 8, next: 8},
		{key: "a", limit: 2, tally: "executed=1 absorbed_ledger=1", skipped: 2, next: 4},
	} {
		t.Run(fmt.Sprint(tt.key, tt.limit), func(t *testing.T) {
			t.Parallel()
			r, _ := newTestRunner(t, source, &fakeLedger{mode: ModeExecute})
			report, err := replayAll(t.Context(), t, r, Request{Mode: ModeExecute, Key: tt.key, Limit: tt.limit, PageSize: 2})
			if err != nil {
				t.Fatal(err)
			}
			wantTally(t, report.Total.Outcomes, tt.tally)
			if p := report.Partitions[0]; p.Filtered != tt.skipped || p.Next < tt.next {
				t.Errorf("filtered %d, next %d; want %d, %d", p.Filtered, p.Next, tt.skipped, tt.next)
			}
		})
	}
}

func TestMaxFailures(t *testing.T) {
	t.Parallel()
	keys := make([]string, 300)
	for i := range keys {
		keys[i] = "f"
	}
	failed := map[string][]Verdict{"f": {{Outcome: OutcomeFailed, Class: Failed}}}
	for _, tt := range []struct {
		given, want int
		stop        Stop
	}{{0, 100, StopMaxFailures}, {4, 10, StopMaxFailures}, {10, 10, StopMaxFailures}, {-1, 300, StopEnd}, {301, 300, StopEnd}} {
		t.Run(strconv.Itoa(tt.given), func(t *testing.T) {
			t.Parallel()
			source := &fakeSource{step: 100, records: map[int32][]Record{0: topicOf(0, keys...)}}
			r, _ := newTestRunner(t, source, &fakeLedger{mode: ModeExecute, script: failed})
			report, err := replayAll(t.Context(), t, r, Request{Mode: ModeExecute, PageSize: 10, MaxFailures: tt.given})
			if err != nil {
				t.Fatal(err)
			}
			if report.Total.Failed != int64(tt.want) || report.Stop != tt.stop || report.Finding() != FindingIncomplete {
				t.Errorf("%d failed, stop %s, finding %s; want %d, %s", report.Total.Failed, report.Stop, report.Finding(), tt.want, tt.stop)
			}
		})
	}
}

func TestListingErrorEndsTheRun(t *testing.T) {
	t.Parallel()
	errPipe := errors.New("broken pipe")
	source := &fakeSource{step: 3, records: map[int32][]Record{0: topicOf(0, "a", "b", "c")}}
	r, _ := newTestRunner(t, source, &fakeLedger{mode: ModeVerify})
	report, err := replayAll(t.Context(), t, r, Request{Mode: ModeVerify, List: func(Line) error { return errPipe }})
	if !errors.Is(err, errPipe) || report.Stop != StopOutput {
		t.Errorf("got %v (%s), want the listing's error", err, report.Stop)
	}
}

// recordingPacer notes what was asked of it.
type recordingPacer struct{ asked []int }

func (p *recordingPacer) WaitN(ctx context.Context, n int) error {
	p.asked = append(p.asked, n)
	return ctx.Err()
}

func TestRatePacesWhatIsHandled(t *testing.T) {
	t.Parallel()
	source := &fakeSource{step: 9, records: map[int32][]Record{0: topicOf(0, "a", "bad1", "b", "c", "d", "e", "f")}}
	ledger := &fakeLedger{mode: ModeExecute}
	r, _ := newTestRunner(t, source, ledger)
	plan, err := r.Plan(t.Context(), Request{Topic: "orders", Range: wholeRange(t), Mode: ModeExecute, Rate: 2.5})
	if err != nil {
		t.Fatal(err)
	}
	x := newExecution(&r.opts, plan, nil)
	defer x.close()
	pacer := &recordingPacer{}
	x.pace = pacer
	x.read(t.Context())
	if _, err := x.finish(); err != nil {
		t.Fatal(err)
	}
	if want := []int{1, 2, 2, 1}; !slices.Equal(pacer.asked, want) || !slices.Equal(ledger.pages, want) {
		t.Errorf("asked %v, pages %v; want both %v", pacer.asked, ledger.pages, want)
	}
}

func TestParseMode(t *testing.T) {
	t.Parallel()
	for _, m := range Modes() {
		if got, err := ParseMode(string(m)); err != nil || got != m {
			t.Errorf("%s: got %s, %v", m, got, err)
		}
	}
	for given, nearest := range map[string]Mode{
		"verfiy": ModeVerify, "Execute": ModeExecute, "exec": ModeExecute, "reherse": ModeRehearse, "": "", "dry-run": "",
	} {
		var mode *ModeError
		if _, err := ParseMode(given); !errors.As(err, &mode) || mode.Nearest != nearest {
			t.Errorf("%q: got %v, want %q as the nearest", given, err, nearest)
		}
	}
}

func TestRequestsThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	r, _ := newTestRunner(t, &fakeSource{}, &fakeLedger{})
	for _, req := range []Request{
		{Mode: ModeVerify},
		{Topic: "orders", Mode: "verfiy"},
		{Topic: "orders", Mode: ModeVerify, Limit: -1},
		{Topic: "orders", Mode: ModeVerify, Rate: -1},
		{Topic: "orders", Mode: ModeVerify, PageSize: -1},
		{Topic: "orders", Mode: ModeVerify, TopKeys: -1},
		{Topic: "orders", Mode: ModeVerify, InFlightWait: -time.Second},
	} {
		if _, err := r.Plan(t.Context(), req); !errors.Is(err, ErrRequest) {
			t.Errorf("%+v: got %v, want ErrRequest", req, err)
		}
	}
}
