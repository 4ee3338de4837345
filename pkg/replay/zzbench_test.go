package replay

import (
	"context"
	"strconv"
	"testing"
	"time"
	"runtime"
)

type nopHandler struct{}

func (nopHandler) Handle(_ context.Context, items []Item) ([]Verdict, error) {
	out := make([]Verdict, len(items))
	for i := range out {
		out[i] = Verdict{Outcome: OutcomeWouldExecute, Class: Executed}
	}
	return out, nil
}

func TestZZ(t *testing.T) {
	keys := make([]string, 3_000_000)
	for i := range keys {
		keys[i] = "20261111-" + strconv.Itoa(i/2)
	}
	s := &fakeSource{records: map[int32][]Record{0: topicOf(0, keys...)}}
	for _, c := range []struct{ seen int; keep bool }{{1 << 22, false}, {1 << 20, false}, {1, false}, {1 << 22, true}} {
		r, _ := newTestRunner(t, s, nopHandler{})
		r.opts.SeenInMemory = c.seen
		start := time.Now()
		rep, err := replayAll(t.Context(), t, r, Request{Mode: ModeVerify, KeepKeys: c.keep})
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		t.Log(c, time.Since(start), tallyText(rep.Total.Outcomes), err, m.HeapAlloc>>20)
		if rep.Keys != nil { t.Logf("%+v", rep.Keys.Spilled) }
	}
}
