package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/ledger/ledgertest"
	"github.com/idemctl/idemctl/pkg/partition"
	"github.com/idemctl/idemctl/pkg/purge"
)

// envSeed chooses what the writers of a race do; how they meet the purge is the scheduler's.
const envSeed = "IDEMCTL_TEST_SEED"

// Sizes of a race.
const (
	raceKeys    = 80 // in each past month
	raceWriters = 3
	raceBatch   = 9                       // rows of one DELETE: many steps to meet
	raceSpread  = 1500 * time.Millisecond // within which rows expire while the race is on
	raceDropped = 3                       // months ago: nobody keeps that one from being dropped
	raceTries   = 20                      // deliveries of a message that a server's or a catalog's change has failed
)

// Purges run in a loop while services insert new keys, get old ones again, refresh rows and send late messages into months
// that are being dropped. No row that is still owed is missing afterwards, no key has had two effects, and a key whose row
// was purged was refused, not run as if it were new (invariant 9, hazards P5, P7, G25). No Redis: its memory would hide it.
func TestPurgeRacesLiveGuards(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	if text := os.Getenv(envSeed); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", envSeed, err)
		}
	}
	for _, db := range testenv.Databases(t) {
		t.Run(db.Name, func(t *testing.T) {
			t.Parallel()
			t.Logf("%s=%d", envSeed, seed)
			r := newRace(t, db, seed)
			r.run()
			r.account()
		})
	}
}

// race is a ledger that is purged while services write to it.
type race struct {
	*ledgertest.Workbench

	t       *testing.T
	seed    uint64
	store   *ledger.Store
	old     []*oldKey
	begun   chan struct{} // closed when the first purge has its plan and its lock
	expired time.Time     // by then every row that is to expire during the race has

	mu      sync.Mutex
	fresh   []ledger.Message // executed during the race: their rows are owed
	refused []ledger.Message // never executed
	seen    map[string]int   // what happened, how often
}

// oldKey has had its effect long ago.
type oldKey struct {
	ledger.Message

	table string
	owed  atomic.Bool // its row has not expired, or was refreshed: it must not go
}

func newRace(t *testing.T, db testenv.Database, seed uint64) *race {
	t.Helper()
	w := ledgertest.NewEmpty(t, db.Schema(t), testenv.Redis(t))
	w.CreateMonths(partition.CreateRequest{From: w.Month - 5, Ahead: 1, MemorySince: w.Now.AddDate(-1, 0, 0)})
	r := &race{Workbench: w, t: t, seed: seed, store: w.Store(), begun: make(chan struct{}), expired: w.Now.Add(raceSpread), seen: map[string]int{}}
	rnd := r.random(0)
	for back := partition.Month(5); back >= 1; back-- {
		var ledgerRows, coupons []string
		for i := range raceKeys {
			k := r.oldKey(back, i, rnd)
			k.owed.Store(back < 3 && i%3 == 0)
			expire := w.Now.Add(-time.Duration(rnd.IntN(90*24)) * time.Hour) // in several windows
			switch {
			case k.owed.Load():
				expire = w.Now.AddDate(0, 0, 20)
			case back < 3 && i%3 == 1:
				expire = w.Now.Add(time.Duration(rnd.Int64N(int64(raceSpread))))
			}
			r.old = append(r.old, k)
			ledgerRows = append(ledgerRows, fmt.Sprintf("('%s','%s','%s','%s')", k.Key.OrderID, k.Key.BizType, sqlTime(k.Time), sqlTime(expire)))
			coupons = append(coupons, "('"+k.Key.OrderID+"')")
		}
		w.SQL("INSERT INTO " + w.Scheme.Table(w.Month-back) + " (order_id, biz_type, create_time, expire_at) VALUES " + strings.Join(ledgerRows, ","))
		w.SQL("INSERT INTO coupon (order_id) VALUES " + strings.Join(coupons, ","))
	}
	return r
}

func sqlTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000") }

// oldKey is a key of the first twenty days of a month: later days are left for late messages.
func (r *race) oldKey(back partition.Month, i int, rnd *rand.Rand) *oldKey {
	month := r.Month - back
	k := &oldKey{Message: r.Message(fmt.Sprintf("OLD-%d-%03d", back, i)), table: r.Scheme.Table(month)}
	k.Time = month.Start(r.Zone).Add(time.Duration(rnd.IntN(20*24*3600*1000)) * time.Millisecond)
	return k
}

func (r *race) random(n uint64) *rand.Rand { return rand.New(rand.NewPCG(r.seed, n)) }

// guard is a service's guard.
func (r *race) guard() *ledger.Guard {
	r.t.Helper()
	return r.Guard(func(o *ledger.GuardOptions) { o.Store, o.Filter = r.store, nil })
}

// run purges in a loop until all that is to expire has expired and is gone, with the writers at work.
func (r *race) run() {
	r.t.Helper()
	ctx, stop := context.WithCancel(r.t.Context())
	defer stop()
	var writers sync.WaitGroup
	for n := range uint64(raceWriters) {
		g, rnd := r.guard(), r.random(n+1)
		writers.Go(func() {
			select {
			case <-r.begun:
			case <-ctx.Done():
			}
			for ctx.Err() == nil {
				r.write(g, rnd, n)
			}
		})
	}
	defer writers.Wait()
	defer stop()
	watch := r.guard()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for round := 0; ; round++ {
		rows := r.purge(round, func(s purge.Step) { r.onStep(watch, round, s) })
		now, err := mysqlx.Now(r.t.Context(), r.Schema.DB)
		if err != nil {
			r.t.Fatal(err)
		}
		if rows == 0 && now.After(r.expired) {
			return
		}
		<-tick.C
	}
}

// purge is one night's run, without waiting for late rows, on one month at a time or on two at once.
func (r *race) purge(round int, onStep func(purge.Step)) (planned int64) {
	r.t.Helper()
	plan, err := purge.PlanPurge(r.t.Context(), r.Schema.DB, r.Scheme, r.Zone, purge.PlanOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	report, err := purge.Run(r.t.Context(), r.Schema.DB, plan, purge.RunOptions{Batch: raceBatch, Hold: -1, Parallel: 1 + round%2, OnStep: onStep})
	if err != nil {
		r.t.Fatalf("round %d: %v (%s)", round, err, report.Ended)
	}
	r.count("rows deleted", int(report.Deleted))
	r.count("rows skipped", int(report.Skipped))
	r.count("months dropped", len(report.Dropped()))
	r.count("months put off", len(report.Deferred()))
	return plan.Rows
}

// onStep redelivers, between any two steps of the purge, what it may just have deleted. A month that is planned to be dropped
// gets a late message before the first step, and then the writers begin.
func (r *race) onStep(g *ledger.Guard, round int, s purge.Step) {
	if round == 0 && s.Name == purge.StepLocked {
		r.late(g, r.Month-4, "LATE-FIRST")
		close(r.begun)
		return
	}
	var again []*oldKey
	for _, k := range r.old {
		if s.Table == "" || strings.HasPrefix(s.Table, k.table) {
			again = append(again, k)
		}
	}
	r.redeliver(g, again...)
}

// write is one thing that a service does.
func (r *race) write(g *ledger.Guard, rnd *rand.Rand, writer uint64) {
	id := fmt.Sprintf("%d-%016x", writer, rnd.Uint64())
	switch p := rnd.IntN(100); {
	case p < 35:
		m := r.Message("NEW-" + id)
		if res := r.deliver(g, m); res.Outcome != ledger.Executed {
			r.t.Errorf("new key %s: %s (%s) %v", m.Key.OrderID, res.Outcome, res.Reason, res.Err)
		} else {
			r.executed(m)
		}
	case p < 70:
		r.redeliver(g, r.old[rnd.IntN(len(r.old))])
	case p < 84:
		if m, ok := r.anyFresh(rnd); ok {
			if res := r.deliver(g, m); res.Outcome != ledger.AbsorbedLedger {
				r.t.Errorf("key %s, which ran a moment ago: %s (%s) %v", m.Key.OrderID, res.Outcome, res.Reason, res.Err)
			}
		}
	case p < 97:
		if k := r.old[rnd.IntN(len(r.old))]; k.table != r.Scheme.Table(r.Month-raceDropped) {
			r.refresh(k)
		}
	default:
		if back := partition.Month(1 + rnd.IntN(5)); back != raceDropped {
			r.late(g, r.Month-back, "LATE-"+id)
		}
	}
}

// deliver brings a message again and again while the guard cannot tell.
func (r *race) deliver(g *ledger.Guard, m ledger.Message) ledger.Result {
	var res ledger.Result
	for range raceTries {
		var err error
		if res, err = g.Do(r.t.Context(), m, r.Grant(m)); !busy(err) {
			break
		}
		r.count("tried again", 1)
	}
	return res
}

// busy reports an error after which a consumer brings the message again: too many meet, or the catalog changes too fast. What
// a guard says of tables must be true, however they are moved under its eyes.
func busy(err error) bool {
	return err != nil && !errors.Is(err, ledger.ErrMonthMissing) && !errors.As(err, new(*partition.UnsafeTableError))
}

// redeliver brings old keys again: none may run.
func (r *race) redeliver(g *ledger.Guard, keys ...*oldKey) {
	messages, owed := make([]ledger.Message, len(keys)), make([]bool, len(keys))
	for i, k := range keys {
		messages[i], owed[i] = k.Message, k.owed.Load() // once it is, it stays so
	}
	for i, res := range g.DoBatch(r.t.Context(), messages, r.GrantAll(messages)) {
		if busy(res.Err) {
			res = r.deliver(g, messages[i])
		}
		r.count("redelivered: "+res.Outcome.String(), 1)
		switch {
		case res.Outcome == ledger.AbsorbedLedger, res.Outcome == ledger.OutsideHorizon && !owed[i]:
		default:
			r.t.Errorf("old key %s (row owed: %v): %s (%s) %v", messages[i].Key.OrderID, owed[i], res.Outcome, res.Reason, res.Err)
		}
	}
}

// refresh extends a row's life, as another service does. It knows the table by its name alone.
func (r *race) refresh(k *oldKey) {
	res, err := r.Schema.DB.ExecContext(r.t.Context(), "UPDATE "+k.table+" SET expire_at = UTC_TIMESTAMP(3) + INTERVAL 60 DAY WHERE order_id = ? AND biz_type = ?",
		[]byte(k.Key.OrderID), []byte(k.Key.BizType))
	switch {
	case mysqlx.Number(err) == mysqlx.ErrNoSuchTable:
		return
	case err != nil:
		r.t.Errorf("refresh %s: %v", k.Key.OrderID, err)
		return
	}
	if n, err := res.RowsAffected(); err != nil {
		r.t.Error(err)
	} else if n == 1 {
		k.owed.Store(true)
		r.count("rows refreshed", 1)
	}
}

// late brings a new key whose business time lies in a past month: run if the ledger still remembers that time, else refused;
// a month that is on its way out holds it back.
func (r *race) late(g *ledger.Guard, month partition.Month, id string) {
	m := r.Message(id)
	m.Time = month.Start(r.Zone).AddDate(0, 0, 24)
	res := r.deliver(g, m)
	r.count("late: "+res.Outcome.String(), 1)
	switch {
	case res.Outcome == ledger.Executed:
		r.executed(m)
	case res.Outcome == ledger.OutsideHorizon, errors.Is(res.Err, ledger.ErrMonthMissing):
		r.mu.Lock()
		defer r.mu.Unlock()
		r.refused = append(r.refused, m)
	default:
		r.t.Errorf("late key %s: %s (%s) %v", m.Key.OrderID, res.Outcome, res.Reason, res.Err)
	}
}

func (r *race) executed(m ledger.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fresh = append(r.fresh, m)
}

func (r *race) anyFresh(rnd *rand.Rand) (ledger.Message, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.fresh) == 0 {
		return ledger.Message{}, false
	}
	return r.fresh[rnd.IntN(len(r.fresh))], true
}

func (r *race) count(what string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[what] += n
}
