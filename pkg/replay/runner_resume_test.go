package replay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// hazard R7
func TestInterruptedRunSaysWhereToGoOn(t *testing.T) {
	t.Parallel()
	source := &fakeSource{step: 4, records: map[int32][]Record{
		0: topicOf(0, "a", "b", "c", "d", "e", "f", "g", "h"), 1: topicOf(1, "q", "r"),
	}}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	errSignal := errors.New("SIGINT")
	ledger := &fakeLedger{mode: ModeExecute, before: func(call int) error {
		if call == 2 {
			cancel(errSignal)
			return fmt.Errorf("query: %w", context.Canceled)
		}
		return nil
	}}
	r, _ := newTestRunner(t, source, ledger)
	report, err := replayAll(ctx, t, r, Request{Mode: ModeExecute, PageSize: 2})
	var partial *PartialError
	if !errors.As(err, &partial) || !errors.Is(err, context.Canceled) || !errors.Is(err, errSignal) {
		t.Fatalf("got %v, want a *PartialError that wraps context.Canceled and its cause", err)
	}
	if report.Stop != StopInterrupted || report.Total.Records != 2 || report.Finding() != FindingIncomplete {
		t.Errorf("stop %s after %d records, finding %s", report.Stop, report.Total.Records, report.Finding())
	}
	want := []ResumeRange{{Partition: 0, Range: "2:8"}, {Partition: 1, Range: "0:2"}}
	if got := report.Resume(); !slices.Equal(got, want) {
		t.Errorf("resume %v, want %v", got, want)
	}
}

func TestRunThatIsInterruptedBeforeItBeginsDoesNothing(t *testing.T) {
	t.Parallel()
	source := &fakeSource{step: 4, records: map[int32][]Record{0: topicOf(0, "a", "b")}}
	ledger := &fakeLedger{mode: ModeExecute}
	r, _ := newTestRunner(t, source, ledger)
	plan, err := r.Plan(t.Context(), Request{Topic: "orders", Range: wholeRange(t), Mode: ModeExecute})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	report, err := r.Run(ctx, plan, nil)
	if !errors.Is(err, context.Canceled) || ledger.calls != 0 || report.Resume()[0].Range != "0:2" {
		t.Errorf("got %v after %d pages, resume %v", err, ledger.calls, report.Resume())
	}
}

// hazard R7: however often a run is cut off, and by what, the runs together execute each key once and give every record an
// outcome.
func TestResumedRunsLoseNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		source := drawTopic(t)
		ledger := &fakeLedger{mode: ModeExecute, script: map[string][]Verdict{}}
		if rapid.Bool().Draw(t, "in flight") {
			ledger.script["a"] = []Verdict{{Outcome: OutcomeInFlight, Class: Held}, {Outcome: OutcomeInFlight, Class: Held}, {}}
		}
		outcome := map[Position]string{}
		left := []ResumeRange{}
		for _, p := range slices.Sorted(maps.Keys(source.records)) {
			left = append(left, ResumeRange{Partition: p, Range: fmt.Sprintf("0:%d", source.end(p))})
		}
		for round := 0; len(left) > 0; round++ {
			if round > 200 {
				t.Fatalf("no end in sight: %v is left", left)
			}
			one := left[0]
			left = append(left[1:], runOnce(t, source, ledger, one, outcome, round)...)
		}
		for key, n := range ledger.runs {
			if n != 1 {
				t.Fatalf("key %s ran %d times", key, n)
			}
		}
		for _, records := range source.records {
			for _, r := range records {
				got, ok := outcome[*position(&r)]
				if !ok || got == OutcomeInFlight {
					t.Fatalf("record %s of key %s was lost: %q", position(&r), r.Value, got)
				}
				if _, ran := ledger.rows[string(r.Value)]; !ran && string(r.Value) != "bad" {
					t.Fatalf("key %s never ran", r.Value)
				}
			}
		}
	})
}

func drawTopic(t *rapid.T) *fakeSource {
	source := &fakeSource{step: rapid.IntRange(1, 6).Draw(t, "step"), records: map[int32][]Record{}, ends: map[int32]int64{}}
	keys := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "bad", ""}), 0, 20)
	for p := range rapid.IntRange(1, 3).Draw(t, "partitions") {
		drawn := keys.Draw(t, "keys")
		source.records[int32(p)] = topicOf(int32(p), drawn...)
		source.ends[int32(p)] = int64(len(drawn))
	}
	return source
}

// runOnce runs one range, cut off in a way that is drawn, and returns what is left of it.
func runOnce(t *rapid.T, source *fakeSource, ledger *fakeLedger, one ResumeRange, outcome map[Position]string, round int) []ResumeRange {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req := Request{
		Topic: "orders", Partitions: []int32{one.Partition}, Range: rangeOf(t, one.Range), Mode: ModeExecute,
		PageSize:     rapid.IntRange(1, 5).Draw(t, "page"),
		InFlightWait: rapid.SampledFrom([]time.Duration{0, 3 * time.Second}).Draw(t, "wait"),
		List:         func(l Line) error { outcome[l.Position] = l.Outcome; return nil },
	}
	how := rapid.SampledFrom([]string{"end", "limit", "cancel", "cancel in the page", "error", "stop"}).Draw(t, "how")
	at := rapid.IntRange(1, 4).Draw(t, "at")
	ledger.calls, ledger.before = 0, nil
	script := maps.Clone(ledger.script)
	switch how {
	case "limit":
		req.Limit = int64(at)
	case "cancel", "cancel in the page", "error":
		ledger.before = func(call int) error {
			switch {
			case call != at:
			case how == "error":
				return errors.New("away")
			default:
				cancel()
				if how == "cancel in the page" {
					return ctx.Err()
				}
			}
			return nil
		}
	case "stop":
		key := rapid.SampledFrom([]string{"a", "c", "e"}).Draw(t, "stop at")
		if round < 50 {
			ledger.script[key] = []Verdict{{Outcome: OutcomeFailed, Class: Failed, Stop: errors.New("no table")}}
		}
	}
	r, _ := newTestRunner(t, source, ledger)
	report, err := replayAll(ctx, t, r, req)
	if how == "stop" {
		ledger.script = script
	}
	if err != nil && report.Stop == StopEnd {
		t.Fatalf("an end beside %v", err)
	}
	var records int64
	for _, n := range report.Total.Outcomes {
		records += n
	}
	if records != report.Total.Records {
		t.Fatalf("outcomes %v do not sum up to %d records", report.Total.Outcomes, report.Total.Records)
	}
	return report.Resume()
}

func TestKeysInFlightAreTriedAgainAtTheEnd(t *testing.T) {
	t.Parallel()
	inFlight := Verdict{Outcome: OutcomeInFlight, Class: Held, RetryAfter: 300 * time.Millisecond}
	for _, tt := range []struct {
		name   string
		script []Verdict
		wait   time.Duration
		want   string
		resume int
		stop   Stop
	}{
		{"not asked for", []Verdict{inFlight, {}}, 0, "executed=3 in_flight=1", 1, StopEnd},
		{"the lease ends", []Verdict{inFlight, inFlight, {}}, 10 * time.Second, "executed=4", 0, StopEnd},
		{"its owner finishes", []Verdict{inFlight, inFlight, {Outcome: OutcomeAbsorbedLedger, Class: Absorbed}}, 10 * time.Second,
			"executed=3 absorbed_ledger=1", 0, StopEnd},
		{"it never ends", []Verdict{inFlight}, 10 * time.Second, "executed=3 in_flight=1", 1, StopEnd},
		{"the handler stops", []Verdict{inFlight, {Outcome: OutcomeFailed, Class: Failed, Stop: errors.New("away")}}, 10 * time.Second,
			"executed=3 failed=1", 1, StopHandler},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			source := &fakeSource{step: 4, records: map[int32][]Record{0: topicOf(0, "a", "held", "b", "c")}}
			ledger := &fakeLedger{mode: ModeExecute, script: map[string][]Verdict{"held": tt.script}}
			r, clock := newTestRunner(t, source, ledger)
			start := clock.Now()
			report, err := replayAll(t.Context(), t, r, Request{Mode: ModeExecute, InFlightWait: tt.wait})
			if (err != nil) != (tt.stop != StopEnd) || report.Stop != tt.stop {
				t.Fatalf("got %v, stop %s; want %s", err, report.Stop, tt.stop)
			}
			wantTally(t, report.Total.Outcomes, tt.want)
			if got := report.Resume(); len(got) != tt.resume || (len(got) > 0 && got[0].Range != "1:4") {
				t.Errorf("resume %v, want %d from 1", got, tt.resume)
			}
			if waited := clock.Now().Sub(start); waited > tt.wait {
				t.Errorf("waited %s, at most %s was asked for", waited, tt.wait)
			}
			if len(clock.waits) > 0 && clock.waits[0] != inFlight.RetryAfter {
				t.Errorf("first retry after %s, want what the lease had left, %s", clock.waits[0], inFlight.RetryAfter)
			}
		})
	}
}

func TestHandlerThatGivesUpWhenToldLeavesItsRecordInFlight(t *testing.T) {
	t.Parallel()
	inFlight := Verdict{Outcome: OutcomeInFlight, Class: Held}
	source := &fakeSource{step: 4, records: map[int32][]Record{0: topicOf(0, "a", "h1", "h2", "b")}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ledger := &fakeLedger{mode: ModeExecute, script: map[string][]Verdict{
		"h1": {inFlight, {Outcome: OutcomeFailed, Class: Failed, Stop: context.Canceled}}, "h2": {inFlight},
	}, before: func(call int) error {
		if call == 2 {
			cancel()
		}
		return nil
	}}
	r, _ := newTestRunner(t, source, ledger)
	report, err := replayAll(ctx, t, r, Request{Mode: ModeExecute, InFlightWait: time.Minute})
	if !errors.Is(err, context.Canceled) || report.Stop != StopInterrupted {
		t.Fatalf("got %v, stop %s", err, report.Stop)
	}
	wantTally(t, report.Total.Outcomes, "executed=2 in_flight=2")
	if got := report.Resume(); len(got) != 1 || got[0].Range != "1:4" {
		t.Errorf("resume %v, want 1:4", got)
	}
}

func TestRecordsBehindAStopInARetryStayInFlight(t *testing.T) {
	t.Parallel()
	inFlight := Verdict{Outcome: OutcomeInFlight, Class: Held}
	errAway := errors.New("away")
	source := &fakeSource{step: 4, records: map[int32][]Record{0: topicOf(0, "a", "h1", "h2", "b")}}
	ledger := &fakeLedger{mode: ModeExecute, script: map[string][]Verdict{
		"h1": {inFlight, {Outcome: OutcomeFailed, Class: Failed, Stop: errAway}}, "h2": {inFlight},
	}}
	r, _ := newTestRunner(t, source, ledger)
	report, err := replayAll(t.Context(), t, r, Request{Mode: ModeExecute, InFlightWait: time.Minute})
	if !errors.Is(err, errAway) {
		t.Fatalf("got %v", err)
	}
	wantTally(t, report.Total.Outcomes, "executed=2 in_flight=1 failed=1")
	if got := report.Resume(); len(got) != 1 || got[0].Range != "1:4" {
		t.Errorf("resume %v, want 1:4", got)
	}
}

// hazard R3
func TestWhatAnOpenTransactionHoldsBackIsLeft(t *testing.T) {
	t.Parallel()
	source := &fakeSource{step: 4, records: map[int32][]Record{0: topicOf(0, "a", "b")}, heldBy: 3}
	r, _ := newTestRunner(t, source, &fakeLedger{mode: ModeExecute})
	report, err := replayAll(t.Context(), t, r, Request{Mode: ModeExecute})
	if err != nil || report.Finding() != FindingIncomplete || report.Total.HeldBack != 3 {
		t.Fatalf("got %v, finding %s, %d held back", err, report.Finding(), report.Total.HeldBack)
	}
	if got := report.Resume(); len(got) != 1 || got[0].Range != "2:5" {
		t.Errorf("resume %v, want 2:5", got)
	}
}

func TestRetryDelay(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		left  time.Duration
		tries int
		want  time.Duration
	}{
		{0, 0, time.Second}, {0, 1, 2 * time.Second}, {0, 3, 8 * time.Second}, {0, 4, 10 * time.Second}, {0, 1000, 10 * time.Second},
		{time.Minute, 0, time.Second}, {time.Minute, 9, 10 * time.Second}, {3 * time.Second, 9, 3 * time.Second},
		{time.Millisecond, 0, 50 * time.Millisecond},
	} {
		if got := retryDelay(tt.left, tt.tries); got != tt.want {
			t.Errorf("%s left after %d tries: got %s, want %s", tt.left, tt.tries, got, tt.want)
		}
	}
}

func TestInterruptedWaitKeepsTheRecord(t *testing.T) {
	t.Parallel()
	source := &fakeSource{step: 4, records: map[int32][]Record{0: topicOf(0, "a", "held", "b")}}
	ledger := &fakeLedger{mode: ModeExecute, script: map[string][]Verdict{"held": {{Outcome: OutcomeInFlight, Class: Held}}}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, clock := newTestRunner(t, source, ledger)
	r.opts.Wait = func(ctx context.Context, d time.Duration) error {
		cancel()
		return clock.Wait(ctx, d)
	}
	report, err := replayAll(ctx, t, r, Request{Mode: ModeExecute, InFlightWait: time.Minute})
	if !errors.Is(err, context.Canceled) || report.Stop != StopInterrupted {
		t.Fatalf("got %v, stop %s", err, report.Stop)
	}
	wantTally(t, report.Total.Outcomes, "executed=2 in_flight=1")
	if got := report.Resume(); len(got) != 1 || got[0].Range != "1:3" {
		t.Errorf("resume %v, want 1:3", got)
	}
}
