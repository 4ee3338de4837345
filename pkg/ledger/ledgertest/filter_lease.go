package ledgertest

import (
	"context"
	"encoding/hex"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/idemctl/idemctl/pkg/ledger"
)

// leaseOfTests is so long that no slow machine sees it end in the middle of a test.
const leaseOfTests = time.Minute

// claimOf is a claim with an id of its own.
func claimOf(n byte) ledger.ClaimID { return ledger.ClaimID{n, 15: n} }

// leaseOf is the marker of that claim.
func leaseOf(n byte) string {
	id := claimOf(n)
	return "PROCESSING:" + hex.EncodeToString(id[:])
}

// claim asks for one lease.
func claim(ctx context.Context, f *ledger.Filter, m ledger.Message, id ledger.ClaimID) (ledger.Marker, bool, error) {
	found, acquired, err := f.Claim(ctx, []ledger.Key{m.Key}, id)
	if err != nil {
		return ledger.Marker{}, false, err
	}
	return found[0], acquired[0], nil
}

// wantMarker compares what is stored with a value, and its TTL with what it may be at most; 0: it must have none.
func (w *Workbench) wantMarker(m ledger.Message, value string, atMost time.Duration) {
	w.T.Helper()
	if got := w.Marker(m); got != value {
		w.T.Errorf("marker %q, want %q", got, value)
	}
	if value == "" {
		return
	}
	ttl, err := w.Space.Client.PTTL(w.T.Context(), w.Template.Name(m.Key)).Result()
	w.must(err)
	switch {
	case atMost == 0 && ttl != -1:
		w.T.Errorf("TTL %v, want none", ttl)
	case atMost != 0 && (ttl <= 0 || ttl > atMost):
		w.T.Errorf("TTL %v, want up to %v", ttl, atMost)
	}
}

func filterClaims(t *testing.T, w *Workbench) {
	f := w.Filter()
	m := w.NewMessage()
	found, acquired, err := claim(t.Context(), f, m, claimOf(1))
	if err != nil || !acquired || found.State != ledger.MarkerNone {
		t.Fatalf("first claim: %+v, %v, %v", found, acquired, err)
	}
	w.wantMarker(m, leaseOf(1), leaseOfTests)

	found, acquired, err = claim(t.Context(), f, m, claimOf(2))
	if err != nil || acquired || found.State != ledger.MarkerProcessing || "PROCESSING:"+found.Owner != leaseOf(1) {
		t.Fatalf("second claim: %+v, %v, %v", found, acquired, err)
	}
	if found.TTL <= 0 || found.TTL > leaseOfTests {
		t.Errorf("the lease found has %v left", found.TTL)
	}
	w.wantMarker(m, leaseOf(1), leaseOfTests)
}

// A claim changes nothing that is there, and says what it is.
func filterClaimMeets(t *testing.T, w *Workbench) {
	f := w.Filter()
	for value, want := range map[string]ledger.MarkerState{
		"PROCESSING": ledger.MarkerProcessing, "PROCESSING:someone": ledger.MarkerProcessing,
		"COMPLETED": ledger.MarkerCompleted, "COMPLETED:0123456789abcdef": ledger.MarkerCompleted,
		"1": ledger.MarkerMalformed, "": ledger.MarkerMalformed, "processing": ledger.MarkerMalformed, "PROCESSINGX": ledger.MarkerMalformed,
	} {
		m := w.NewMessage()
		w.SetMarker(m, value, 0)
		found, acquired, err := claim(t.Context(), f, m, claimOf(1))
		if err != nil || acquired || found.State != want || found.Raw != value || found.TTL >= 0 {
			t.Errorf("%q: %+v, %v, %v", value, found, acquired, err)
		}
		if value != "" {
			w.wantMarker(m, value, 0)
		}
	}
	m := w.NewMessage()
	w.must(w.Space.Client.HSet(t.Context(), w.Template.Name(m.Key), "a", "b").Err())
	found, acquired, err := claim(t.Context(), f, m, claimOf(1))
	if err != nil || acquired || found.State != ledger.MarkerMalformed {
		t.Errorf("another type: %+v, %v, %v", found, acquired, err)
	}
}

// hazard G10: SET NX went through, its reply was lost, the client library asked again and sees its own key.
func filterLostClaimReply(t *testing.T, w *Workbench) {
	for name, before := range map[string]bool{"after it went through": false, "before it arrived": true} {
		m := w.NewMessage()
		proxy := NewProxy(t, w.Space.Client.Options().Addr)
		client := w.OpenRedis(func(ctx context.Context, _, addr string) (net.Conn, error) { return proxy.Dial(ctx, addr) })
		w.must(client.Ping(t.Context()).Err())
		f, err := ledger.NewFilter(client, ledger.FilterOptions{Template: w.Template, Lease: w.Lease, CompletedTTL: time.Hour, Timeout: 20 * time.Second})
		w.must(err)
		proxy.CutOn(leaseOf(1), before)
		found, acquired, err := claim(t.Context(), f, m, claimOf(1))
		if err != nil || !acquired {
			t.Errorf("%s: %+v, acquired %v, %v", name, found, acquired, err)
		}
		if proxy.Cuts() != 1 {
			t.Fatalf("%s: %d connections cut, want 1", name, proxy.Cuts())
		}
		w.wantMarker(m, leaseOf(1), leaseOfTests)
	}

	// Of several claims in one pipeline those that others hold stay theirs.
	mine, other, done := w.NewMessage(), w.NewMessage(), w.NewMessage()
	w.SetMarker(other, leaseOf(2), leaseOfTests)
	w.SetMarker(done, "COMPLETED", 0)
	proxy := NewProxy(t, w.Space.Client.Options().Addr)
	w.Redis = w.OpenRedis(func(ctx context.Context, _, addr string) (net.Conn, error) { return proxy.Dial(ctx, addr) })
	w.must(w.Redis.Ping(t.Context()).Err())
	f := w.Filter(func(o *ledger.FilterOptions) { o.Timeout = 20 * time.Second })
	proxy.CutOn(leaseOf(1), false)
	found, acquired, err := f.Claim(t.Context(), []ledger.Key{other.Key, mine.Key, done.Key}, claimOf(1))
	w.must(err)
	if acquired[0] || !acquired[1] || acquired[2] || found[0].Raw != leaseOf(2) || found[2].Raw != "COMPLETED" || proxy.Cuts() != 1 {
		t.Errorf("acquired %v, found %+v, %d cuts", acquired, found, proxy.Cuts())
	}

	// In bare mode nobody can say whose it is: it is not taken for one's own.
	m := w.NewMessage()
	w.SetMarker(m, "PROCESSING", w.Lease)
	bare := w.Filter(func(o *ledger.FilterOptions) { o.Bare = true })
	if _, acquired, err := claim(t.Context(), bare, m, claimOf(1)); err != nil || acquired {
		t.Errorf("bare: acquired %v, %v", acquired, err)
	}
}

// One call asks for many leases, and each key has its own answer, in order.
func filterClaimsMany(t *testing.T, w *Workbench) {
	f := w.Filter(func(o *ledger.FilterOptions) { o.Timeout = 20 * time.Second })
	var keys []ledger.Key
	var all []ledger.Message
	for i := range 300 {
		m := w.NewMessage()
		switch i % 3 {
		case 1:
			w.SetMarker(m, leaseOf(2), leaseOfTests)
		case 2:
			w.SetMarker(m, doneHere, leaseOfTests)
		}
		all, keys = append(all, m), append(keys, m.Key)
	}
	found, acquired, err := f.Claim(t.Context(), keys, claimOf(1))
	w.must(err)
	for i := range keys {
		want := [...]string{"", leaseOf(2), doneHere}[i%3]
		if acquired[i] != (want == "") || found[i].Raw != want {
			t.Fatalf("key %d: acquired %v, found %+v", i, acquired[i], found[i])
		}
	}
	w.must(f.Release(t.Context(), keys, claimOf(1)))
	for i, m := range all[:6] {
		w.wantMarker(m, [...]string{"", leaseOf(2), doneHere}[i%3], leaseOfTests)
	}
	found, acquired, err = f.Claim(t.Context(), nil, claimOf(1))
	if err != nil || len(found)+len(acquired) != 0 {
		t.Errorf("no keys: %v, %v, %v", found, acquired, err)
	}
	w.must(f.Release(t.Context(), nil, claimOf(1)))
	w.must(f.Complete(t.Context(), nil))
}

// hazard G4: a lease is released by who wrote it, and by nobody else.
func filterReleases(t *testing.T, w *Workbench) {
	f := w.Filter()
	for value, stays := range map[string]bool{
		leaseOf(1): false, leaseOf(2): true, "PROCESSING": true, "COMPLETED": true, "COMPLETED:0123456789abcdef": true, leaseOf(1) + " ": true, "1": true,
	} {
		m := w.NewMessage()
		w.SetMarker(m, value, leaseOfTests)
		w.must(f.Release(t.Context(), []ledger.Key{m.Key}, claimOf(1)))
		want := ""
		if stays {
			want = value
		}
		w.wantMarker(m, want, leaseOfTests)
	}
	m := w.NewMessage()
	w.must(f.Release(t.Context(), []ledger.Key{m.Key}, claimOf(1))) // nothing there
	w.must(w.Space.Client.RPush(t.Context(), w.Template.Name(m.Key), leaseOf(1)).Err())
	w.must(f.Release(t.Context(), []ledger.Key{m.Key}, claimOf(1))) // another type
	if n := w.Space.Client.LLen(t.Context(), w.Template.Name(m.Key)).Val(); n != 1 {
		t.Error("a list was deleted")
	}
}

// hazard G1: a lease without end is taken over by compare-and-set, one that ends never.
func filterTakesOver(t *testing.T, w *Workbench) {
	f := w.Filter()
	for name, c := range map[string]struct {
		value, observed string
		ttl             time.Duration
		taken           bool
	}{
		"as observed":         {value: "PROCESSING", observed: "PROCESSING", taken: true},
		"as observed, owned":  {value: leaseOf(2), observed: leaseOf(2), taken: true},
		"it has a TTL now":    {value: "PROCESSING", observed: "PROCESSING", ttl: leaseOfTests},
		"someone else's now":  {value: leaseOf(3), observed: leaseOf(2)},
		"completed meanwhile": {value: "COMPLETED:0123456789abcdef", observed: "PROCESSING"},
	} {
		m := w.NewMessage()
		w.SetMarker(m, c.value, c.ttl)
		taken, err := f.TakeOver(t.Context(), m.Key, c.observed, claimOf(1))
		if err != nil || taken != c.taken {
			t.Errorf("%s: taken %v, %v", name, taken, err)
		}
		if taken {
			w.wantMarker(m, leaseOf(1), leaseOfTests)
		} else {
			w.wantMarker(m, c.value, c.ttl)
		}
	}
	m := w.NewMessage()
	if taken, err := f.TakeOver(t.Context(), m.Key, "PROCESSING", claimOf(1)); err != nil || taken {
		t.Errorf("gone meanwhile: taken %v, %v", taken, err)
	}
	w.wantMarker(m, "", 0)
	w.must(w.Space.Client.SAdd(t.Context(), w.Template.Name(m.Key), "PROCESSING").Err())
	if taken, err := f.TakeOver(t.Context(), m.Key, "PROCESSING", claimOf(1)); err != nil || taken {
		t.Errorf("another type: taken %v, %v", taken, err)
	}

	// Two who saw the same value: one gets it.
	both := w.NewMessage()
	w.SetMarker(both, "PROCESSING", 0)
	first, err1 := f.TakeOver(t.Context(), both.Key, "PROCESSING", claimOf(1))
	second, err2 := f.TakeOver(t.Context(), both.Key, "PROCESSING", claimOf(2))
	if errors.Join(err1, err2) != nil || !first || second {
		t.Errorf("two take-overs: %v, %v; %v", first, second, errors.Join(err1, err2))
	}
}

func filterBare(t *testing.T, w *Workbench) {
	f := w.Filter(func(o *ledger.FilterOptions) { o.Bare = true })
	m := w.NewMessage()
	if _, acquired, err := claim(t.Context(), f, m, claimOf(1)); err != nil || !acquired {
		t.Fatalf("acquired %v, %v", acquired, err)
	}
	w.wantMarker(m, "PROCESSING", leaseOfTests)
	w.must(f.Release(t.Context(), []ledger.Key{m.Key}, claimOf(1)))
	w.wantMarker(m, "PROCESSING", leaseOfTests) // whose it is cannot be proved
	w.SetMarker(m, "PROCESSING", 0)
	if taken, err := f.TakeOver(t.Context(), m.Key, "PROCESSING", claimOf(2)); err != nil || !taken {
		t.Errorf("take-over: %v, %v", taken, err)
	}
	w.wantMarker(m, "PROCESSING", leaseOfTests)
}

// filterCallerGivesUp: the caller's own end says nothing about Redis, which is asked again at once.
func filterCallerGivesUp(t *testing.T, w *Workbench) {
	f := w.Filter()
	m := w.NewMessage()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := claim(ctx, f, m, claimOf(1)); !errors.Is(err, context.Canceled) || errors.Is(err, ledger.ErrFilterAway) {
		t.Errorf("error %v, want the caller's own", err)
	}
	if _, acquired, err := claim(t.Context(), f, m, claimOf(2)); err != nil || !acquired {
		t.Errorf("the next claim: %v, %v", acquired, err)
	}
}
