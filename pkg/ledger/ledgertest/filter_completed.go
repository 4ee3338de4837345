package ledgertest

import (
	"bytes"
	"encoding/hex"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemctl/idemctl/pkg/ledger"
)

// doneHere is a marker as this ledger writes it.
const doneHere = "COMPLETED:0123456789abcdef"

// A claim without the lease writes over nothing and over markers; anything else is someone else's.
func filterCompletes(t *testing.T, w *Workbench) {
	f := w.Filter()
	for value, overwritten := range map[string]bool{
		"PROCESSING": true, leaseOf(2): true, "COMPLETED": true, "COMPLETED:ffff": true, doneHere: true,
		"1": false, "": false, "DONE": false, "PROCESSINGX": false, "completed": false, ":COMPLETED": false, "\x00\xff": false,
	} {
		m := w.NewMessage()
		w.SetMarker(m, value, 0)
		w.must(f.Complete(t.Context(), []ledger.Completion{{Key: m.Key, Value: doneHere, TTL: time.Minute}}))
		if overwritten {
			w.wantMarker(m, doneHere, time.Minute)
		} else if got := w.Marker(m); got != value {
			t.Errorf("%q was overwritten by %q", value, got)
		}
	}
	m := w.NewMessage()
	w.must(f.Complete(t.Context(), []ledger.Completion{{Key: m.Key, Value: doneHere, TTL: time.Minute}}))
	w.wantMarker(m, doneHere, time.Minute)

	alien := w.NewMessage()
	name := w.Template.Name(alien.Key)
	w.must(w.Space.Client.HSet(t.Context(), name, "a", "b").Err())
	w.must(f.Complete(t.Context(), []ledger.Completion{{Key: alien.Key, Value: doneHere, TTL: time.Minute}}))
	if got := w.Space.Client.HGet(t.Context(), name, "a").Val(); got != "b" {
		t.Error("a hash was overwritten")
	}
}

func filterCompletesHeld(t *testing.T, w *Workbench) {
	f := w.Filter()
	m := w.NewMessage()
	if _, acquired, err := claim(t.Context(), f, m, claimOf(1)); err != nil || !acquired {
		t.Fatalf("acquired %v, %v", acquired, err)
	}
	w.must(f.Complete(t.Context(), []ledger.Completion{{Key: m.Key, Value: doneHere, TTL: time.Minute, Held: true}}))
	w.wantMarker(m, doneHere, time.Minute)
	w.must(f.Release(t.Context(), []ledger.Key{m.Key}, claimOf(1))) // too late: it is a lease no more
	w.wantMarker(m, doneHere, time.Minute)
}

// A marker ends with its entry, and after completed_ttl at the latest; it is never without a TTL.
func filterCompletedTTL(t *testing.T, w *Workbench) {
	f := w.Filter(func(o *ledger.FilterOptions) { o.CompletedTTL = time.Hour })
	for _, held := range []bool{false, true} {
		for left, atMost := range map[time.Duration]time.Duration{
			30 * 24 * time.Hour: time.Hour, time.Hour: time.Hour, time.Minute: time.Minute, 90500 * time.Millisecond: 90500 * time.Millisecond,
		} {
			m := w.NewMessage()
			w.must(f.Complete(t.Context(), []ledger.Completion{{Key: m.Key, Value: doneHere, TTL: left, Held: held}}))
			w.wantMarker(m, doneHere, atMost)
			ttl, err := w.Space.Client.PTTL(t.Context(), w.Template.Name(m.Key)).Result()
			if err != nil || ttl < atMost/2 {
				t.Errorf("%v left, held %v: TTL %v, want about %v (%v)", left, held, ttl, atMost, err)
			}
		}
		for _, left := range []time.Duration{0, -time.Hour, time.Microsecond} { // an entry that has expired: as if it were not there
			m := w.NewMessage()
			w.must(f.Complete(t.Context(), []ledger.Completion{{Key: m.Key, Value: doneHere, TTL: left, Held: held}}))
			w.wantMarker(m, "", 0)
		}
	}
}

// hazard C5: a thousand keys of all sorts in one look, each with its own answer, in order.
func filterLooks(t *testing.T, w *Workbench) {
	f := w.Filter(func(o *ledger.FilterOptions) { o.Timeout = 20 * time.Second })
	fingerprint := bytes.Repeat([]byte{0xab}, 16)
	kinds := []struct {
		value string
		ttl   time.Duration
		want  ledger.Marker
	}{
		{want: ledger.Marker{State: ledger.MarkerNone}},
		{value: "PROCESSING", ttl: time.Minute, want: ledger.Marker{State: ledger.MarkerProcessing}},
		{value: leaseOf(7), want: ledger.Marker{State: ledger.MarkerProcessing, Owner: strings.TrimPrefix(leaseOf(7), "PROCESSING:")}},
		{value: "COMPLETED", ttl: time.Hour, want: ledger.Marker{State: ledger.MarkerCompleted}},
		{value: doneHere, ttl: time.Hour, want: ledger.Marker{State: ledger.MarkerCompleted, Ledger: "0123456789abcdef"}},
		{value: doneHere + ":" + hex.EncodeToString(fingerprint), ttl: time.Hour, want: ledger.Marker{State: ledger.MarkerCompleted, Ledger: "0123456789abcdef", Fingerprint: fingerprint}},
		{value: "garbage", ttl: time.Hour, want: ledger.Marker{State: ledger.MarkerMalformed}},
		{value: "(hash)", want: ledger.Marker{State: ledger.MarkerNone}}, // no marker, and no error either
	}
	keys := make([]ledger.Key, 1000)
	pipe := w.Space.Client.Pipeline()
	for i := range keys {
		keys[i] = ledger.Key{BizType: Biz, OrderID: "look-" + strconv.Itoa(i)}
		kind, name := kinds[i%len(kinds)], w.Template.Name(keys[i])
		switch kind.value {
		case "":
		case "(hash)":
			pipe.HSet(t.Context(), name, "a", "b")
		default:
			pipe.Set(t.Context(), name, kind.value, kind.ttl)
		}
	}
	_, err := pipe.Exec(t.Context())
	w.must(err)
	markers, err := f.Look(t.Context(), keys)
	w.must(err)
	if len(markers) != len(keys) {
		t.Fatalf("%d markers for %d keys", len(markers), len(keys))
	}
	for i, got := range markers {
		kind := kinds[i%len(kinds)]
		if got.State != kind.want.State || got.Owner != kind.want.Owner || got.Ledger != kind.want.Ledger || !bytes.Equal(got.Fingerprint, kind.want.Fingerprint) {
			t.Fatalf("key %d (%q): %+v", i, kind.value, got)
		}
		// Of a lease the time left matters: negative where it has no end.
		if got.State == ledger.MarkerProcessing && ((got.TTL < 0) != (kind.ttl == 0) || got.TTL > kind.ttl || got.TTL == 0) {
			t.Fatalf("key %d (%q, TTL %v): TTL %v", i, kind.value, kind.ttl, got.TTL)
		}
	}
	// Across the slots of a cluster each key is asked by itself; the answers are the same.
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"only": w.Space.Client.Options().Addr}})
	defer ring.Close()
	w.Redis = ring
	apart, err := w.Filter(func(o *ledger.FilterOptions) { o.Timeout = 20 * time.Second }).Look(t.Context(), keys)
	w.must(err)
	for i := range markers {
		if a, b := apart[i], markers[i]; a.State != b.State || a.Raw != b.Raw || (a.TTL < 0) != (b.TTL < 0) {
			t.Fatalf("key %d: %+v asked by itself, %+v asked with others", i, a, b)
		}
	}
	if none, err := f.Look(t.Context(), nil); err != nil || len(none) != 0 {
		t.Errorf("no keys: %v, %v", none, err)
	}
}

// A server that has forgotten the scripts is given them again.
func filterScriptFlush(t *testing.T, w *Workbench) {
	f := w.Filter()
	for range 2 {
		m := w.NewMessage()
		w.SetMarker(m, "PROCESSING", 0)
		taken, err := f.TakeOver(t.Context(), m.Key, "PROCESSING", claimOf(1))
		if err != nil || !taken {
			t.Errorf("taken %v, %v", taken, err)
		}
		w.must(f.Complete(t.Context(), []ledger.Completion{{Key: m.Key, Value: doneHere, TTL: time.Minute}}))
		w.wantMarker(m, doneHere, time.Minute)
		w.SetMarker(m, leaseOf(1), leaseOfTests)
		w.must(f.Release(t.Context(), []ledger.Key{m.Key}, claimOf(1)))
		w.wantMarker(m, "", 0)
		w.must(w.Space.Client.ScriptFlush(t.Context()).Err())
	}
}

// hazard G6: what the ledger keeps apart the filter keeps apart too.
func filterByteExact(t *testing.T, w *Workbench) {
	f := w.Filter()
	for i, id := range []string{"ORD-1", "ord-1", "ORD-1 ", "ORD-1\x00", "ORD-\xff", "a:b", "{a}b", "ORD-1\n", strings.Repeat("k", ledger.MaxOrderID)} {
		m := w.Message(id)
		if _, acquired, err := claim(t.Context(), f, m, claimOf(byte(i))); err != nil || !acquired {
			t.Errorf("%q: acquired %v, %v", id, acquired, err)
		}
		w.wantMarker(m, leaseOf(byte(i)), leaseOfTests)
	}
}
