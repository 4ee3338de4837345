package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// gateHandler answers by script, per order id one verdict a call, the last of them for good; without one it executes.
type gateHandler struct {
	script map[string][]Verdict
	errs   []error // of the first calls
	calls  [][]string
	hang   bool // until the context ends
}

func (h *gateHandler) Handle(ctx context.Context, items []Item) ([]Verdict, error) {
	var ids []string
	for i := range items {
		ids = append(ids, items[i].OrderID)
	}
	h.calls = append(h.calls, ids)
	if h.hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if len(h.errs) > 0 {
		err := h.errs[0]
		h.errs = h.errs[1:]
		return nil, err
	}
	var out []Verdict
	for _, id := range ids {
		v := Verdict{Outcome: OutcomeExecuted, Class: Executed}
		if vs := h.script[id]; len(vs) > 0 {
			v = vs[0]
			if len(vs) > 1 {
				h.script[id] = vs[1:]
			}
		}
		out = append(out, v)
		if v.Stop != nil {
			break
		}
	}
	return out, nil //nolint:nilerr // what stops a run is said by the verdict, not by the page
}

// letters is a dead-letter topic that refuses the first writes.
type letters struct {
	refuse int
	got    []DeadLetter
}

var errRefused = errors.New("not acknowledged")

func (l *letters) park(_ context.Context, d DeadLetter) error {
	if l.refuse > 0 {
		l.refuse--
		return errRefused
	}
	l.got = append(l.got, d)
	return nil
}

func newTestGate(t *testing.T, opts GateOptions) *Gate {
	t.Helper()
	for i := range opts.Handlers {
		x, err := NewExtractor(ExtractorConfig{Key: "id", BizType: "COUPON", Location: time.UTC})
		if err != nil {
			t.Fatal(err)
		}
		opts.Handlers[i].Extractor = x
	}
	g, err := NewGate(opts)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// admit makes a batch of the order ids; "-" is a record without one.
func admit(g *Gate, ids ...string) []*Pending {
	var batch []*Pending
	for i, id := range ids {
		value := fmt.Sprintf(`{"id":%q}`, id)
		if id == "-" {
			value = `{}`
		}
		batch = append(batch, g.Admit(Record{
			Topic: "orders", Offset: int64(i), Value: []byte(value), Timestamp: time.Date(2026, 11, 11, 0, 0, i, 0, time.UTC),
		}))
	}
	return batch
}

func held(outcome string) Verdict { return Verdict{Outcome: outcome, Class: Held, Reason: "because"} }
func failed(reason string) Verdict {
	return Verdict{Outcome: OutcomeFailed, Class: Failed, Reason: reason}
}
func trouble(reason string) Verdict {
	return Verdict{Outcome: OutcomeFailed, Class: Failed, Reason: reason, Stop: errors.New(reason)}
}

// Only the contiguous prefix passes; what was done behind it is not done again. hazard G15
func TestGatePassesTheContiguousPrefix(t *testing.T) {
	t.Parallel()
	h := &gateHandler{script: map[string][]Verdict{"C": {held(OutcomeInFlight), {Outcome: OutcomeExecuted, Class: Executed}}}}
	g := newTestGate(t, GateOptions{Handlers: []GateHandler{{Name: "coupon", Handler: h}}})
	batch := admit(g, "A", "B", "C", "D", "E")
	n, wait := g.Pass(t.Context(), batch)
	if n != 2 || wait.After <= 0 || !strings.HasPrefix(wait.Reason, "in_flight: because") || wait.Err != nil || wait.Blocked {
		t.Fatalf("%d have passed, then %+v", n, wait)
	}
	n, wait = g.Pass(t.Context(), batch[n:])
	if n != 3 || wait != (Wait{}) {
		t.Errorf("%d of the rest have passed, then %+v", n, wait)
	}
	if want := [][]string{{"A", "B", "C", "D", "E"}, {"C"}}; !slices.EqualFunc(h.calls, want, slices.Equal) {
		t.Errorf("asked for %v, want %v", h.calls, want)
	}
}

// An offset passes when each of several handlers lets it, and the one that did is not asked again.
func TestGateOneOfSeveralHandlersHolds(t *testing.T) {
	t.Parallel()
	one := &gateHandler{}
	two := &gateHandler{script: map[string][]Verdict{"A": {held(OutcomeInFlight), held(OutcomeInFlight), {Outcome: OutcomeAbsorbedLedger, Class: Absorbed}}}}
	g := newTestGate(t, GateOptions{Handlers: []GateHandler{{Name: "one", Handler: one}, {Name: "two", Handler: two}}})
	batch := admit(g, "A")
	for range 2 {
		if n, wait := g.Pass(t.Context(), batch); n != 0 || wait.After <= 0 {
			t.Fatalf("%d have passed, then %+v", n, wait)
		}
	}
	if n, _ := g.Pass(t.Context(), batch); n != 1 {
		t.Error("it has not passed though both handlers are through")
	}
	if len(one.calls) != 1 || len(two.calls) != 3 {
		t.Errorf("the handlers were asked %d and %d times, want 1 and 3", len(one.calls), len(two.calls))
	}
}

// A record passes as parked only once the dead letter is acknowledged. hazard G16
func TestGateParksBeforeItPasses(t *testing.T) {
	t.Parallel()
	for _, outcome := range []string{OutcomeConflict, OutcomeOutsideHorizon, OutcomePhantom, OutcomeInvalid} {
		t.Run(outcome, func(t *testing.T) {
			t.Parallel()
			l := &letters{refuse: 2}
			var seen []Observation
			g := newTestGate(t, GateOptions{
				Handlers: []GateHandler{{
					Name: "coupon", DeadLetter: "orders.dlq", Handler: &gateHandler{script: map[string][]Verdict{"A": {held(outcome)}}},
				}},
				Park: l.park, Observe: func(o Observation) { seen = append(seen, o) },
			})
			batch := admit(g, "A", "B")
			if outcome == OutcomeInvalid {
				batch = admit(g, "-", "B")
			}
			for range 2 {
				if n, wait := g.Pass(t.Context(), batch); n != 0 || !errors.Is(wait.Err, errRefused) || wait.Blocked || !strings.Contains(wait.Reason, "orders.dlq") {
					t.Fatalf("%d have passed without an acknowledgement, then %+v", n, wait)
				}
			}
			if n, _ := g.Pass(t.Context(), batch); n != 2 || len(l.got) != 1 {
				t.Fatalf("%d have passed, %d dead letters", n, len(l.got))
			}
			d := l.got[0]
			if d.Topic != "orders.dlq" || d.Handler != "coupon" || d.Outcome != outcome || d.Reason == "" || d.Attempts != 3 || d.Record.Offset != 0 {
				t.Errorf("the dead letter is %+v", d)
			}
			last := seen[len(seen)-1]
			if last.Record.Offset != 0 || !last.Parked || !last.Passed || last.Attempt != 3 {
				t.Errorf("last observed: %+v", last)
			}
		})
	}
}

// An effect that fails is tried MaxAttempts times, however often a server was away or another owner was at it before: those do
// not count, and never park. hazard G16
func TestGateAttemptsAreBounded(t *testing.T) {
	t.Parallel()
	l := &letters{}
	script := []Verdict{held(OutcomeInFlight), trouble("away"), trouble("away"), failed("1"), trouble("away"), held(OutcomeInFlight), failed("2"), failed("3"), failed("4")}
	h := &gateHandler{script: map[string][]Verdict{"A": script}, errs: []error{errors.New("refused"), errors.New("refused")}}
	g := newTestGate(t, GateOptions{Handlers: []GateHandler{{Name: "coupon", Handler: h, MaxAttempts: 3, DeadLetter: "dlq"}}, Park: l.park})
	batch := admit(g, "A")
	calls := 0
	for n := 0; n == 0; calls++ {
		var wait Wait
		if n, wait = g.Pass(t.Context(), batch); n == 0 && (wait.After < retryFloor || wait.After > retryCeiling) {
			t.Errorf("call %d: wait %v", calls, wait.After)
		}
		if calls > 20 {
			t.Fatal("it never passes")
		}
	}
	if len(l.got) != 1 || l.got[0].Reason != "3" || calls != 10 {
		t.Errorf("%d calls, parked %+v, want the third failure at the tenth call", calls, l.got)
	}
}

// A server's trouble, a missing month and another owner's lease are waited for, however long it takes.
func TestGateNeverParksWhatIsNotTheRecordsFault(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]*gateHandler{
		"in flight": {script: map[string][]Verdict{"A": {held(OutcomeInFlight)}}},
		"server":    {script: map[string][]Verdict{"A": {trouble("month table is missing")}}},
		"handler":   {errs: slices.Repeat([]error{errors.New("away")}, 200)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &letters{}
			g := newTestGate(t, GateOptions{Handlers: []GateHandler{{Name: "coupon", Handler: h, MaxAttempts: 1, DeadLetter: "dlq"}}, Park: l.park})
			batch := admit(g, "A", "B")
			for i := range 100 {
				n, wait := g.Pass(t.Context(), batch)
				if n != 0 || len(l.got) != 0 || wait.Blocked || wait.After < retryFloor || wait.After > retryCeiling {
					t.Fatalf("try %d: %d have passed, %d parked, then %+v", i, n, len(l.got), wait)
				}
			}
		})
	}
}

// Without a dead-letter topic a record at fault holds its partition, and says that no time will help.
func TestGateWithoutDeadLetterHolds(t *testing.T) {
	t.Parallel()
	h := &gateHandler{script: map[string][]Verdict{"A": {failed("1")}, "B": {held(OutcomeConflict)}, "C": {held(OutcomeInFlight)}}}
	g := newTestGate(t, GateOptions{Handlers: []GateHandler{{Name: "coupon", Handler: h, MaxAttempts: 2}}})
	batch := admit(g, "A")
	if n, wait := g.Pass(t.Context(), batch); n != 0 || wait.Blocked || wait.After != effectDelay {
		t.Errorf("after the first failure: %d have passed, then %+v", n, wait)
	}
	for range 20 {
		if n, wait := g.Pass(t.Context(), batch); n != 0 || !wait.Blocked || !strings.Contains(wait.Reason, "no dead_letter is configured") {
			t.Fatalf("%d have passed, then %+v", n, wait)
		}
	}
	// What is held for good behind a record that is waited for does not block yet.
	if _, wait := g.Pass(t.Context(), admit(g, "C", "B")); wait.Blocked || !strings.HasPrefix(wait.Reason, OutcomeInFlight) {
		t.Errorf("then %+v", wait)
	}
	if n, wait := g.Pass(t.Context(), admit(g, "D", "B", "C")); n != 1 || !wait.Blocked || !strings.HasPrefix(wait.Reason, OutcomeConflict) {
		t.Errorf("%d have passed, then %+v", n, wait)
	}
}

// The soonest of several waits ends first, and nothing is waited for without an end.
func TestGateWaitsForTheSoonest(t *testing.T) {
	t.Parallel()
	short := held(OutcomeInFlight)
	short.RetryAfter = 70 * time.Millisecond
	h := &gateHandler{script: map[string][]Verdict{"A": {held(OutcomeInFlight)}, "B": {short}}}
	g := newTestGate(t, GateOptions{Handlers: []GateHandler{{Name: "coupon", Handler: h}}})
	if _, wait := g.Pass(t.Context(), admit(g, "A", "B")); wait.After != short.RetryAfter {
		t.Errorf("wait %v, want %v", wait.After, short.RetryAfter)
	}
}

// A handler that hangs is cut off at the deadline, and its records are tried again. hazard G21
func TestGateDeadline(t *testing.T) {
	t.Parallel()
	h := &gateHandler{hang: true}
	l := &letters{}
	g := newTestGate(t, GateOptions{
		Handlers: []GateHandler{{Name: "coupon", Handler: h, MaxAttempts: 1, DeadLetter: "dlq"}}, Park: l.park, Deadline: 10 * time.Millisecond,
	})
	batch := admit(g, "A")
	if n, wait := g.Pass(t.Context(), batch); n != 0 || !errors.Is(wait.Err, context.DeadlineExceeded) || len(l.got) != 0 {
		t.Errorf("%d have passed, then %+v", n, wait)
	}
	h.hang = false
	if n, _ := g.Pass(t.Context(), batch); n != 1 {
		t.Error("it does not pass when the handler is well again")
	}
}

// Every decision is seen, those of a handler that could not be asked too.
func TestGateObserves(t *testing.T) {
	t.Parallel()
	var seen []string
	h := &gateHandler{script: map[string][]Verdict{"B": {held(OutcomeInFlight)}}, errs: []error{errors.New("away")}}
	g := newTestGate(t, GateOptions{
		Handlers: []GateHandler{{Name: "coupon", Handler: h}},
		Observe: func(o Observation) {
			seen = append(seen, fmt.Sprintf("%s@%d %s %v %d", o.Handler, o.Record.Offset, o.Verdict.Outcome, o.Passed, o.Attempt))
		},
	})
	batch := admit(g, "A", "B")
	g.Pass(t.Context(), batch)
	g.Pass(t.Context(), batch)
	want := []string{"coupon@0 failed false 1", "coupon@1 failed false 1", "coupon@0 executed true 2", "coupon@1 in_flight false 2"}
	if !slices.Equal(seen, want) {
		t.Errorf("seen %q, want %q", seen, want)
	}
}

func TestNewGateRefuses(t *testing.T) {
	t.Parallel()
	x := &Extractor{}
	for name, opts := range map[string]GateOptions{
		"no handlers":  {},
		"no extractor": {Handlers: []GateHandler{{Handler: &gateHandler{}}}},
		"no handler":   {Handlers: []GateHandler{{Extractor: x}}},
		"nobody parks": {Handlers: []GateHandler{{Extractor: x, Handler: &gateHandler{}, DeadLetter: "dlq"}}},
		"attempts":     {Handlers: []GateHandler{{Extractor: x, Handler: &gateHandler{}, MaxAttempts: -1}}},
	} {
		if _, err := NewGate(opts); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
