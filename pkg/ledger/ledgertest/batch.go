package ledgertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/partition"
)

// companion begins the keys of messages that AmongOthers puts beside the one under test. Steps of theirs are not reported.
const companion = "companion "

// AmongOthers drives a guard with the message in the middle of a batch of fresh ones, so that the suite of one message runs
// on the path of many.
func AmongOthers(ctx context.Context, g *ledger.Guard, m ledger.Message, e ledger.Effect) (ledger.Result, error) {
	batch := []ledger.Message{m, m, m}
	for _, i := range []int{0, 2} {
		batch[i].Key.OrderID = companion + fmt.Sprintf("%d %016x", i, rand.Uint64())
		batch[i].Fingerprint = nil
	}
	res := g.DoBatch(ctx, batch, func(ctx context.Context, tx ledger.Tx, indexes []int) error {
		for _, i := range indexes {
			if i == 1 {
				if err := e(ctx, tx); err != nil {
					return err
				}
				continue
			}
			if _, err := tx.ExecContext(ctx, "INSERT INTO coupon (order_id) VALUES (?)", []byte(batch[i].Key.OrderID)); err != nil {
				return err
			}
		}
		return nil
	})[1]
	return res, res.Err
}

// Batch is the part of the suite that only batches can be put through.
func Batch(t *testing.T, db testenv.Database, server testenv.RedisServer) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, *Workbench){
		"poison is isolated":            poisonIsIsolated,
		"a key twice runs once":         twiceInABatch,
		"a failed first does not count": failedFirst,
		"every outcome in one batch":    everyOutcome,
		"lost COMMIT, key by key":       lostCommitKeyByKey,
		"batches that overlap":          overlappingBatches,
		"more than one transaction":     longBatch,
		"times of rows":                 timesOfRows,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, New(t, db.Schema(t), server.Space(t)))
		})
	}
}

// GrantAll is Grant for a batch.
func (w *Workbench) GrantAll(batch []ledger.Message) ledger.BatchEffect {
	return func(ctx context.Context, tx ledger.Tx, indexes []int) error {
		for _, i := range indexes {
			if err := w.Grant(batch[i])(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	}
}

func (w *Workbench) messages(n int) []ledger.Message {
	batch := make([]ledger.Message, n)
	for i := range batch {
		batch[i] = w.NewMessage()
	}
	return batch
}

// hazard G17: one bad message fails alone.
func poisonIsIsolated(t *testing.T, w *Workbench) {
	g := w.Guard()
	batch := w.messages(40)
	boom := errors.New("boom")
	bad := map[int]bool{0: true, 17: true, 18: true, 39: true}
	results := g.DoBatch(t.Context(), batch, func(ctx context.Context, tx ledger.Tx, indexes []int) error {
		for _, i := range indexes {
			if bad[i] {
				return boom
			}
			if err := w.Grant(batch[i])(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	})
	for i, res := range results {
		if !bad[i] {
			w.Want(ledger.Executed, res, res.Err)
			w.ExactlyOnce(batch[i])
			continue
		}
		var effect *ledger.EffectError
		if res.Outcome != ledger.Failed || !errors.As(res.Err, &effect) {
			t.Errorf("message %d: %s, %v; want failed with the effect's error", i, res.Outcome, res.Err)
		}
		w.Nothing(batch[i])
		if w.Marker(batch[i]) != "" {
			t.Errorf("message %d keeps its lease", i)
		}
	}
}

func twiceInABatch(t *testing.T, w *Workbench) {
	g := w.Guard()
	m := w.NewMessage()
	m.Fingerprint = bytes.Repeat([]byte{1}, 16)
	changed := m
	changed.Fingerprint = bytes.Repeat([]byte{2}, 16)
	again := m
	again.Source = &ledger.Source{Topic: "order-paid", Partition: 3, Offset: 10234}
	batch := []ledger.Message{w.NewMessage(), m, again, changed, m}
	results := g.DoBatch(t.Context(), batch, w.GrantAll(batch))
	want := []ledger.Outcome{ledger.Executed, ledger.Executed, ledger.AbsorbedLedger, ledger.Conflict, ledger.AbsorbedLedger}
	for i, o := range want {
		w.Want(o, results[i], results[i].Err)
	}
	if e := results[2].Entry; e == nil || e.Source == nil || e.Source.Offset != 10233 {
		t.Errorf("the duplicate does not name the record that executed it: %+v", e)
	}
	w.ExactlyOnce(m)
}

// hazard G28: a first delivery that fails does not absorb the corrected second one.
func failedFirst(t *testing.T, w *Workbench) {
	g := w.Guard()
	m := w.NewMessage()
	batch := []ledger.Message{m, w.NewMessage(), m, m}
	results := g.DoBatch(t.Context(), batch, func(ctx context.Context, tx ledger.Tx, indexes []int) error {
		for _, i := range indexes {
			if i == 0 {
				return errors.New("no address")
			}
			if err := w.Grant(batch[i])(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	})
	for i, o := range []ledger.Outcome{ledger.Failed, ledger.Executed, ledger.Executed, ledger.AbsorbedLedger} {
		if results[i].Outcome != o {
			t.Errorf("message %d: %s, want %s", i, results[i].Outcome, o)
		}
	}
	w.ExactlyOnce(m)
}

func everyOutcome(t *testing.T, w *Workbench) {
	g := w.Guard()
	done, evicted, row, old := w.NewMessage(), w.NewMessage(), w.NewMessage(), w.NewMessage()
	for _, m := range []ledger.Message{done, evicted, row} {
		res, err := g.Do(t.Context(), m, w.Grant(m))
		w.Want(ledger.Executed, res, err)
	}
	w.Forget(evicted)
	w.SetMarker(row, "PROCESSING:late", time.Minute)
	flight, phantom, missing, previous := w.NewMessage(), w.NewMessage(), w.NewMessage(), w.NewMessage()
	w.SetMarker(flight, "PROCESSING:someone", time.Minute)
	w.SetMarker(phantom, "COMPLETED", time.Minute)
	old.Time = w.Now.AddDate(-2, 0, 0)
	missing.Time = (w.Month + 3).Start(w.Zone)
	previous.Time = (w.Month - 1).Start(w.Zone).Add(time.Hour)
	batch := []ledger.Message{w.NewMessage(), done, evicted, row, flight, phantom, old, w.Message(""), missing, previous, w.NewMessage()}
	want := []ledger.Outcome{
		ledger.Executed, ledger.AbsorbedFilter, ledger.AbsorbedLedger, ledger.AbsorbedLedger, ledger.InFlight, ledger.Phantom,
		ledger.OutsideHorizon, ledger.Invalid, ledger.Failed, ledger.Executed, ledger.Executed,
	}
	for i, res := range g.DoBatch(t.Context(), batch, w.GrantAll(batch)) {
		if res.Outcome != want[i] {
			t.Errorf("message %d: %s (%s, %v), want %s", i, res.Outcome, res.Reason, res.Err, want[i])
		}
		switch want[i] {
		case ledger.Executed, ledger.AbsorbedFilter, ledger.AbsorbedLedger:
			w.ExactlyOnce(batch[i])
		case ledger.Failed:
			if !errors.Is(res.Err, ledger.ErrMonthMissing) {
				t.Errorf("message %d: %v, want ErrMonthMissing", i, res.Err)
			}
			w.Nothing(batch[i])
		case ledger.InFlight, ledger.Conflict, ledger.OutsideHorizon, ledger.Invalid, ledger.Phantom:
			w.Nothing(batch[i])
		}
	}
}

// hazard G23: on a sharded ledger part of a batch may be in when the reply of COMMIT is lost. Each key is judged by itself.
func lostCommitKeyByKey(t *testing.T, w *Workbench) {
	proxy := NewProxy(t, mysqlx.Address(w.Schema.DSN))
	w.Dial = proxy.Dial
	armed := false
	g := w.Guard(func(o *ledger.GuardOptions) {
		o.OnStep = func(_ context.Context, s ledger.Step, _ ledger.Message) {
			if s == ledger.StepEffect && !armed {
				armed = true
				proxy.CutOn(comCommit, false)
			}
		}
	})
	batch := w.messages(10)
	proxy.OnCut(func() { // the shard of these two has not committed
		for _, m := range []ledger.Message{batch[3], batch[7]} {
			w.SQL("DELETE FROM "+w.Scheme.Table(w.Month)+" WHERE order_id = ?", []byte(m.Key.OrderID))
			w.SQL("DELETE FROM coupon WHERE order_id = ?", []byte(m.Key.OrderID))
		}
	})
	for i, res := range g.DoBatch(t.Context(), batch, w.GrantAll(batch)) {
		w.Want(ledger.Executed, res, res.Err)
		if again := res.Attempts == 2; again != (i == 3 || i == 7) {
			t.Errorf("message %d took %d transactions", i, res.Attempts)
		}
		w.ExactlyOnce(batch[i])
	}
	if proxy.Cuts() != 1 {
		t.Fatalf("%d connections cut, want 1", proxy.Cuts())
	}
}

// Batches of several owners that share keys, in two months, with and without the filter.
func overlappingBatches(t *testing.T, w *Workbench) {
	keys := w.messages(120)
	var wg sync.WaitGroup
	for n := range 6 {
		g := w.Guard(func(o *ledger.GuardOptions) {
			o.Attempts = 50
			if n%2 == 0 {
				o.Filter = nil
			}
		})
		wg.Go(func() {
			order := rand.Perm(len(keys))
			for part := range 3 {
				var batch []ledger.Message
				for _, i := range order[part*40 : (part+1)*40] {
					m := keys[i]
					if (i+n)%3 == 0 {
						m.Time = (w.Month - 1).Start(w.Zone).Add(time.Hour)
					}
					batch = append(batch, m)
				}
				for i, res := range g.DoBatch(t.Context(), batch, w.GrantAll(batch)) {
					if res.Err != nil || (!res.Outcome.MayPass() && res.Outcome != ledger.InFlight) {
						t.Errorf("%s: %s (%s) %v", batch[i].Key.OrderID, res.Outcome, res.Reason, res.Err)
					}
				}
			}
		})
	}
	wg.Wait()
	for _, m := range keys {
		w.ExactlyOnce(m)
	}
}

func longBatch(t *testing.T, w *Workbench) {
	g := w.Guard()
	batch := w.messages(ledger.MaxBatch + 50)
	for i := range batch {
		batch[i].Key.OrderID = fmt.Sprintf("%s-%05d", strings.Repeat("k", 20), i)
	}
	effect := func(ctx context.Context, tx ledger.Tx, indexes []int) error {
		args := make([]any, len(indexes))
		for n, i := range indexes {
			args[n] = []byte(batch[i].Key.OrderID)
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO coupon (order_id) VALUES (?)"+strings.Repeat(", (?)", len(indexes)-1), args...)
		return err
	}
	for round, want := range []ledger.Outcome{ledger.Executed, ledger.AbsorbedFilter} {
		for i, res := range g.DoBatch(t.Context(), batch, effect) {
			if res.Outcome != want {
				t.Fatalf("round %d, message %d: %s %v, want %s", round, i, res.Outcome, res.Err, want)
			}
		}
	}
	var coupons, orders int
	w.must(w.Schema.DB.QueryRowContext(t.Context(), "SELECT COUNT(*), COUNT(DISTINCT order_id) FROM coupon").Scan(&coupons, &orders))
	if coupons != len(batch) || orders != len(batch) {
		t.Errorf("%d coupons for %d orders, want %d", coupons, orders, len(batch))
	}
}

// create_time is the database's now or the business time, whichever is later, and an entry is kept for its retention from
// then on: however many rows share a statement.
func timesOfRows(t *testing.T, w *Workbench) {
	g := w.Guard()
	for _, n := range []int{1, 40} {
		batch := w.messages(n)
		for i := range batch {
			batch[i].Key.OrderID += []string{"", " ", "'", "\\", "?", "\x00", "订"}[i%7] // some that cannot stand in a statement
		}
		if n > 1 {
			batch[1].Time = w.Now.Add(20 * time.Minute).Add(999 * time.Microsecond)
			if w.Month != monthOf(w, batch[1]) {
				batch[1].Time = w.Now
			}
		}
		for i, res := range g.DoBatch(t.Context(), batch, w.GrantAll(batch)) {
			w.Want(ledger.Executed, res, res.Err)
			w.ExactlyOnce(batch[i])
			var kept, late int64
			var created time.Time
			w.must(w.Schema.DB.QueryRowContext(t.Context(), "SELECT create_time, TIMESTAMPDIFF(MICROSECOND, create_time, expire_at), TIMESTAMPDIFF(SECOND, create_time, UTC_TIMESTAMP(3)) FROM "+
				w.Scheme.Table(w.Month)+" WHERE order_id = ?", []byte(batch[i].Key.OrderID)).Scan(&created, &kept, &late))
			if kept != (30 * 24 * time.Hour).Microseconds() {
				t.Errorf("row %d of %d is kept for %d µs", i, n, kept)
			}
			if business := batch[i].Time.Truncate(time.Millisecond); business.After(w.Now.Add(time.Minute)) {
				if !created.Equal(business) {
					t.Errorf("row %d of %d: created %v, want the business time %v", i, n, created, business)
				}
			} else if late < 0 || late > 120 || created.Before(w.Now) {
				t.Errorf("row %d of %d: created %v, %d s ago", i, n, created, late)
			}
		}
	}
}

func monthOf(w *Workbench, m ledger.Message) partition.Month {
	return partition.MonthOf(m.Time, w.Zone)
}
