package ledgertest

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/idemctl/idemctl/pkg/ledger"
)

func executesOnce(t *testing.T, mk bench, do Do) {
	w := mk(t)
	g := w.Guard()
	m := w.NewMessage()
	res, err := do(t.Context(), g, m, w.Grant(m))
	w.Want(ledger.Executed, res, err)
	if got, want := w.Marker(m), "COMPLETED:"+g.LedgerID(); got != want {
		t.Errorf("marker %q, want %q", got, want)
	}
	res, err = do(t.Context(), g, m, w.Grant(m))
	w.Want(ledger.AbsorbedFilter, res, err)

	// hazard G14: an evicted marker. The ledger decides, by a locking read after the duplicate-key error (hazard G11), and the
	// marker is there again.
	w.Forget(m)
	res, err = do(t.Context(), g, m, w.Grant(m))
	w.Want(ledger.AbsorbedLedger, res, err)
	if res.Entry == nil || res.Entry.Source == nil || res.Entry.Source.Offset != 10233 {
		t.Errorf("the entry does not name the record that executed it: %+v", res.Entry)
	}
	if !strings.HasPrefix(w.Marker(m), "COMPLETED:") {
		t.Errorf("marker after absorption: %q", w.Marker(m))
	}
	w.ExactlyOnce(m)
}

// hazard G6: every lax collation would merge some of these.
func keysAreByteExact(t *testing.T, mk bench, do Do) {
	w := mk(t)
	g := w.Guard()
	for _, id := range []string{"ORD-1", "ord-1", "ORD-1 ", "ÖRD-1", "ORD-1\x00", "ORD-\xff", strings.Repeat("k", ledger.MaxOrderID)} {
		m := w.Message(id)
		res, err := do(t.Context(), g, m, w.Grant(m))
		w.Want(ledger.Executed, res, err)
		w.Forget(m)
		res, err = do(t.Context(), g, m, w.Grant(m))
		w.Want(ledger.AbsorbedLedger, res, err)
		w.ExactlyOnce(m)
	}
}

// hazard G5: a length is checked here, never cut by a server.
func invalidBeforeSQL(t *testing.T, mk bench, do Do) {
	w := mk(t)
	g := w.Guard()
	long := w.Message(strings.Repeat("k", ledger.MaxOrderID+1))
	other := w.NewMessage()
	other.Key.BizType = "SHIPMENT"
	early := w.NewMessage()
	early.Time = time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, m := range []ledger.Message{w.Message(""), long, other, early} {
		res, err := do(t.Context(), g, m, w.Grant(m))
		w.Want(ledger.Invalid, res, err)
		if res.Reason == "" {
			t.Error("invalid without a reason")
		}
		w.Nothing(m)
	}
}

// hazard G13
func conflictOfFingerprints(t *testing.T, mk bench, do Do) {
	w := mk(t)
	g := w.Guard()
	m := w.NewMessage()
	m.Fingerprint = bytes.Repeat([]byte{1}, 16)
	res, err := do(t.Context(), g, m, w.Grant(m))
	w.Want(ledger.Executed, res, err)
	changed := m
	changed.Fingerprint = bytes.Repeat([]byte{2}, 16)
	for range 2 { // by the filter's word first, then by the ledger's
		res, err = do(t.Context(), g, changed, w.Grant(m))
		w.Want(ledger.Conflict, res, err)
		res, err = do(t.Context(), g, m, w.Grant(m))
		if err != nil || !res.Outcome.MayPass() || res.Outcome == ledger.Executed {
			t.Fatalf("the same content: %s, %v", res.Outcome, err)
		}
		w.Forget(m)
	}
	w.ExactlyOnce(m)
}

// hazard G2: while the effect runs the marker is a lease; COMPLETED comes after COMMIT.
func completedOnlyAfterCommit(t *testing.T, mk bench, do Do) {
	w := mk(t)
	m := w.NewMessage()
	var at []string
	g := w.Guard(func(o *ledger.GuardOptions) {
		o.OnStep = func(_ context.Context, s ledger.Step, m ledger.Message) {
			if s == ledger.StepEffect || s == ledger.StepCommitted {
				at = append(at, w.Marker(m))
			}
		}
	})
	res, err := do(t.Context(), g, m, w.Grant(m))
	w.Want(ledger.Executed, res, err)
	if len(at) != 2 || !strings.HasPrefix(at[0], "PROCESSING:") || !strings.HasPrefix(at[1], "PROCESSING:") {
		t.Errorf("markers during the effect and right after COMMIT: %q, want this claim's lease", at)
	}
}

// hazard G1, hazard G4: a foreign lease is never a duplicate, and never released by who does not own it.
func foreignLeaseIsInFlight(t *testing.T, mk bench, do Do) {
	w := mk(t)
	g := w.Guard()
	m := w.NewMessage()
	for _, value := range []string{"PROCESSING", "PROCESSING:someone"} {
		w.SetMarker(m, value, time.Minute)
		res, err := do(t.Context(), g, m, w.Grant(m))
		w.Want(ledger.InFlight, res, err)
		if res.RetryAfter <= 0 || res.RetryAfter > time.Minute {
			t.Errorf("retry after %v, want the rest of the lease", res.RetryAfter)
		}
		if got := w.Marker(m); got != value {
			t.Errorf("the owner's lease is now %q", got)
		}
		w.Nothing(m)
	}
	w.Forget(m) // the lease has ended
	res, err := do(t.Context(), g, m, w.Grant(m))
	w.Want(ledger.Executed, res, err)

	w.SetMarker(m, "PROCESSING:late", time.Minute) // the row decides, whoever holds the lease
	res, err = do(t.Context(), g, m, w.Grant(m))
	w.Want(ledger.AbsorbedLedger, res, err)
	w.ExactlyOnce(m)
}

func leaseWithoutEndIsTakenOver(t *testing.T, mk bench, do Do) {
	w := mk(t)
	clock := w.Now
	g := w.Guard(func(o *ledger.GuardOptions) { o.Now = func() time.Time { return clock } })
	m := w.NewMessage()
	w.SetMarker(m, "PROCESSING:dead", 0)
	res, err := do(t.Context(), g, m, w.Grant(m))
	w.Want(ledger.InFlight, res, err)
	clock = clock.Add(w.Lease - time.Second)
	res, err = do(t.Context(), g, m, w.Grant(m))
	w.Want(ledger.InFlight, res, err)
	w.SetMarker(m, "PROCESSING:another", 0) // another value: its lease begins anew
	clock = clock.Add(2 * time.Second)
	res, err = do(t.Context(), g, m, w.Grant(m))
	w.Want(ledger.InFlight, res, err)
	w.Nothing(m)
	clock = clock.Add(w.Lease)
	res, err = do(t.Context(), g, m, w.Grant(m))
	w.Want(ledger.Executed, res, err)
	w.ExactlyOnce(m)
}

// hazard G27: only this ledger's id absorbs alone.
func foreignCompletedCostsALook(t *testing.T, mk bench, do Do) {
	w := mk(t)
	hold := w.Guard()
	run := w.Guard(func(o *ledger.GuardOptions) { o.Phantom = ledger.Run })
	look := w.Guard(func(o *ledger.GuardOptions) { o.AlwaysLook = true })
	for _, value := range []string{"COMPLETED", "COMPLETED:0123456789abcdef"} {
		m := w.NewMessage()
		w.SetMarker(m, value, time.Minute)
		res, err := do(t.Context(), hold, m, w.Grant(m))
		w.Want(ledger.Phantom, res, err)
		w.Nothing(m)
		res, err = do(t.Context(), run, m, w.Grant(m))
		w.Want(ledger.Executed, res, err)
		w.SetMarker(m, value, time.Minute)
		res, err = do(t.Context(), hold, m, w.Grant(m))
		w.Want(ledger.AbsorbedLedger, res, err)
		w.ExactlyOnce(m)
	}
	// This ledger's own word, and no row: a server that lost commits. A guard that always looks finds it.
	m := w.NewMessage()
	w.SetMarker(m, "COMPLETED:"+look.LedgerID(), time.Minute)
	res, err := do(t.Context(), look, m, w.Grant(m))
	w.Want(ledger.Phantom, res, err)
	w.Nothing(m)
}

func bareMarkers(t *testing.T, mk bench, do Do) {
	w := mk(t)
	bare := w.Filter(func(o *ledger.FilterOptions) { o.Bare = true })
	g := w.Guard(func(o *ledger.GuardOptions) { o.Filter = bare })
	m := w.NewMessage()
	boom := errors.New("boom")
	_, err := do(t.Context(), g, m, func(context.Context, ledger.Tx) error { return boom })
	if !errors.Is(err, boom) {
		t.Fatalf("error %v, want %v", err, boom)
	}
	if got := w.Marker(m); got != "PROCESSING" {
		t.Errorf("marker %q: a bare lease is never released early", got)
	}
	w.Forget(m)
	res, err := do(t.Context(), g, m, w.Grant(m))
	w.Want(ledger.Executed, res, err)
	if got := w.Marker(m); got != "COMPLETED" {
		t.Errorf("marker %q, want COMPLETED", got)
	}
	res, err = do(t.Context(), g, m, w.Grant(m))
	w.Want(ledger.AbsorbedLedger, res, err) // never by the filter alone
	w.ExactlyOnce(m)
}

func alienValueIsLeftAlone(t *testing.T, mk bench, do Do) {
	w := mk(t)
	g := w.Guard()
	text, list := w.NewMessage(), w.NewMessage()
	w.SetMarker(text, "DONE", time.Minute)
	w.must(w.Space.Client.RPush(t.Context(), w.Template.Name(list.Key), "x").Err())
	for _, m := range []ledger.Message{text, list} {
		res, err := do(t.Context(), g, m, w.Grant(m))
		w.Want(ledger.Executed, res, err)
		res, err = do(t.Context(), g, m, w.Grant(m))
		w.Want(ledger.AbsorbedLedger, res, err)
		w.ExactlyOnce(m)
	}
	if got := w.Marker(text); got != "DONE" {
		t.Errorf("the alien value is now %q", got)
	}
}

// hazard G3: a lease that ended while its owner still works. The unique key decides, the loser's write goes with it.
func expiredLease(t *testing.T, mk bench, do Do) {
	w := mk(t)
	m := w.NewMessage()
	second := w.Guard()
	var inner ledger.Result
	var innerErr error
	first := w.Guard(func(o *ledger.GuardOptions) {
		o.OnStep = func(ctx context.Context, s ledger.Step, m ledger.Message) {
			if s == ledger.StepLeased {
				w.Forget(m) // the lease runs out before the owner has written anything
				inner, innerErr = do(ctx, second, m, w.Grant(m))
			}
		}
	})
	res, err := do(t.Context(), first, m, w.Grant(m))
	w.Want(ledger.Executed, inner, innerErr)
	w.Want(ledger.AbsorbedLedger, res, err)
	w.ExactlyOnce(m)
}

func rehearsal(t *testing.T, mk bench, do Do) {
	w := mk(t)
	g := w.Guard()
	m := w.NewMessage()
	ran := false
	res, err := g.Rehearse(t.Context(), m, func(ctx context.Context, tx ledger.Tx) error {
		ran = true
		return w.Grant(m)(ctx, tx)
	})
	w.Want(ledger.Executed, res, err)
	if !ran {
		t.Error("the rehearsal did not run the effect")
	}
	w.Nothing(m)
	if got := w.Marker(m); got != "" {
		t.Errorf("the rehearsal wrote the marker %q", got)
	}
	res, err = do(t.Context(), g, m, w.Grant(m))
	w.Want(ledger.Executed, res, err)
	res, err = g.Rehearse(t.Context(), m, w.Grant(m))
	w.Want(ledger.AbsorbedFilter, res, err) // both stores agree
	w.ExactlyOnce(m)
}

func classifyAgrees(t *testing.T, mk bench, do Do) {
	w := mk(t)
	g := w.Guard()
	fresh, done, flight, phantom, old := w.NewMessage(), w.NewMessage(), w.NewMessage(), w.NewMessage(), w.NewMessage()
	old.Time = w.Now.AddDate(-2, 0, 0)
	res, err := do(t.Context(), g, done, w.Grant(done))
	w.Want(ledger.Executed, res, err)
	evicted := w.NewMessage()
	res, err = do(t.Context(), g, evicted, w.Grant(evicted))
	w.Want(ledger.Executed, res, err)
	w.Forget(evicted)
	w.SetMarker(flight, "PROCESSING:someone", time.Minute)
	w.SetMarker(phantom, "COMPLETED", time.Minute)
	printed := w.NewMessage()
	printed.Fingerprint = bytes.Repeat([]byte{1}, 16)
	res, err = do(t.Context(), g, printed, w.Grant(printed))
	w.Want(ledger.Executed, res, err)
	changed := printed
	changed.Fingerprint = bytes.Repeat([]byte{2}, 16)
	batch := []ledger.Message{fresh, done, evicted, flight, phantom, old, w.Message(""), printed, changed}
	want := []ledger.Outcome{
		ledger.Executed, ledger.AbsorbedFilter, ledger.AbsorbedLedger, ledger.InFlight, ledger.Phantom, ledger.OutsideHorizon,
		ledger.Invalid, ledger.AbsorbedFilter, ledger.Conflict,
	}
	check := func(how string) {
		t.Helper()
		got, err := g.Classify(t.Context(), batch)
		w.must(err)
		for i, o := range want {
			if got[i].Outcome != o {
				t.Errorf("%s, message %d: %s (%s), want %s", how, i, got[i].Outcome, got[i].Reason, o)
			}
		}
	}
	check("looked up")
	const many = 1_000_000 // as if so many messages were to be classified
	loaded, err := g.Preload(t.Context(), many)
	w.must(err)
	if !loaded {
		t.Fatal("the ledger was not read ahead")
	}
	check("read ahead")
	res, err = do(t.Context(), g, fresh, w.Grant(fresh)) // since then it has a row, and that is found
	w.Want(ledger.Executed, res, err)
	want[0] = ledger.AbsorbedFilter
	check("read ahead, one row later")
	w.must(g.Forget())
	check("forgotten")
}

// The answer of a look-up must not depend on who else is there: nothing is written by classifying.
func classifyWritesNothing(t *testing.T, mk bench, _ Do) {
	w := mk(t)
	g := w.Guard()
	fresh := w.NewMessage()
	_, err := g.Classify(t.Context(), []ledger.Message{fresh})
	w.must(err)
	w.Nothing(fresh)
	if w.Marker(fresh) != "" {
		t.Error("classifying wrote a marker")
	}
}
