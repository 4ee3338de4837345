package ledgertest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/ledger"
)

func effectErrorRollsBack(t *testing.T, mk bench, do Do) {
	w := mk(t)
	g := w.Guard()
	m := w.NewMessage()
	boom := errors.New("no stock")
	res, err := do(t.Context(), g, m, func(ctx context.Context, tx ledger.Tx) error {
		return errors.Join(w.Grant(m)(ctx, tx), boom)
	})
	var effect *ledger.EffectError
	if res.Outcome != ledger.Failed || !errors.As(err, &effect) || !errors.Is(err, boom) {
		t.Fatalf("outcome %s, error %v; want failed with the effect's error", res.Outcome, err)
	}
	w.Nothing(m)
	if got := w.Marker(m); got != "" {
		t.Errorf("marker %q: the claim's own lease must be released", got)
	}
	res, err = do(t.Context(), g, m, w.Grant(m))
	w.Want(ledger.Executed, res, err)
	w.ExactlyOnce(m)
}

// hazard G7: a 1062 of the effect's own table is a failure, not a duplicate message.
func duplicateKeyOfTheEffect(t *testing.T, mk bench, do Do) {
	w := mk(t)
	g := w.Guard()
	m := w.NewMessage()
	w.SQL("ALTER TABLE coupon ADD UNIQUE KEY (note)")
	w.SQL("INSERT INTO coupon (order_id, note) VALUES ('other', 'taken')")
	res, err := do(t.Context(), g, m, func(ctx context.Context, tx ledger.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO coupon (order_id, note) VALUES (?, 'taken')", []byte(m.Key.OrderID))
		return err
	})
	var effect *ledger.EffectError
	if res.Outcome != ledger.Failed || !errors.As(err, &effect) || mysqlx.Number(err) != mysqlx.ErrDupEntry {
		t.Fatalf("outcome %s, error %v; want failed with 1062 of the effect", res.Outcome, err)
	}
	w.Nothing(m)
}

// hazard G8: 1205 rolls back only the statement. An effect that swallows it must not end in half of itself.
func swallowedLockWaitTimeout(t *testing.T, mk bench, do Do) {
	w := mk(t)
	g := w.Guard()
	m := w.NewMessage()
	w.SQL("INSERT INTO coupon (id, order_id) VALUES (1, 'stock')")
	holder, err := w.Schema.DB.BeginTx(t.Context(), nil)
	w.must(err)
	_, err = holder.ExecContext(t.Context(), "UPDATE coupon SET note = 'held' WHERE id = 1")
	w.must(err)
	tries := 0
	res, err := do(t.Context(), g, m, func(ctx context.Context, tx ledger.Tx) error {
		tries++
		if _, err := tx.ExecContext(ctx, "SET SESSION innodb_lock_wait_timeout = 1"); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE coupon SET note = 'sold' WHERE id = 1"); mysqlx.Number(err) == mysqlx.ErrLockWaitTimeout {
			w.must(holder.Rollback()) // and the effect goes on as if nothing had happened
		}
		return w.Grant(m)(ctx, tx)
	})
	w.Want(ledger.Executed, res, err)
	if tries != 2 {
		t.Errorf("the effect ran %d times, want 2: the first had lost a statement", tries)
	}
	var note string
	w.must(w.Schema.DB.QueryRowContext(t.Context(), "SELECT note FROM coupon WHERE id = 1").Scan(&note))
	if note != "sold" {
		t.Errorf("the update that had timed out is missing: note is %q", note)
	}
	w.ExactlyOnce(m)
}

// A deadlock undoes the whole transaction; an effect that swallows it goes on in nothing. ROLLBACK in the effect is the same
// to the server. Invariant 6: the savepoint tells.
func transactionUndone(t *testing.T, mk bench, do Do) {
	w := mk(t)
	g := w.Guard()
	m := w.NewMessage()
	tries := 0
	res, err := do(t.Context(), g, m, func(ctx context.Context, tx ledger.Tx) error {
		tries++
		if tries == 1 {
			if _, err := tx.ExecContext(ctx, "ROLLBACK"); err != nil {
				return err
			}
		}
		return w.Grant(m)(ctx, tx)
	})
	w.Want(ledger.Executed, res, err)
	if tries != 2 {
		t.Errorf("the effect ran %d times, want 2", tries)
	}
	w.ExactlyOnce(m)
}

// hazard G18: DDL or COMMIT in an effect ends the transaction. The row is in, and nobody can say what else: stop.
func effectThatCommits(t *testing.T, mk bench, do Do) {
	w := mk(t)
	g := w.Guard()
	for _, statement := range []string{"COMMIT", "CREATE TABLE made_by_effect (id INT)"} {
		m := w.NewMessage()
		res, err := do(t.Context(), g, m, func(ctx context.Context, tx ledger.Tx) error {
			if err := w.Grant(m)(ctx, tx); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, statement)
			return err
		})
		if res.Outcome != ledger.Failed || !errors.Is(err, ledger.ErrEffectEndedTransaction) {
			t.Fatalf("%s: outcome %s, error %v; want failed with ErrEffectEndedTransaction", statement, res.Outcome, err)
		}
		again := w.Guard()
		w.Forget(m)
		res, err = do(t.Context(), again, m, w.Grant(m))
		w.Want(ledger.AbsorbedLedger, res, err)
		w.ExactlyOnce(m)
	}
}

// hazard G9: three claims of one key, the first rolls back. The two that waited deadlock over its place.
func firstOfThreeRollsBack(t *testing.T, mk bench, do Do) {
	w := mk(t)
	m := w.NewMessage()
	alone := func(o *ledger.GuardOptions) { o.Filter = nil } // so that all three reach the ledger
	first, others := w.Guard(alone), w.Guard(alone)
	waiting := make(chan struct{})
	var wg sync.WaitGroup
	results := make(chan ledger.Result, 2)
	boom := errors.New("boom")
	var once sync.Once
	res, err := do(t.Context(), first, m, func(context.Context, ledger.Tx) error {
		once.Do(func() {
			for range 2 {
				wg.Go(func() {
					res, err := do(t.Context(), others, m, w.Grant(m))
					if err != nil {
						t.Error(err)
					}
					results <- res
				})
			}
			go w.awaitLockWaits(2, waiting)
			<-waiting
		})
		return boom
	})
	// In a batch the message is tried again by itself, and then finds what the others have done.
	if !errors.Is(err, boom) && res.Outcome != ledger.AbsorbedLedger {
		t.Fatalf("first claim: %s, %v", res.Outcome, err)
	}
	wg.Wait()
	a, b := <-results, <-results
	if a.Outcome == b.Outcome || a.Outcome+b.Outcome != ledger.Executed+ledger.AbsorbedLedger {
		t.Errorf("outcomes %s and %s, want one executed and one absorbed_ledger", a.Outcome, b.Outcome)
	}
	w.ExactlyOnce(m)
}

func manyOnOneKey(t *testing.T, mk bench, do Do) {
	w := mk(t)
	for _, filter := range []*ledger.Filter{w.Filter(), nil} {
		g := w.Guard(func(o *ledger.GuardOptions) { o.Filter = filter; o.Attempts = 100 })
		m := w.NewMessage()
		var wg sync.WaitGroup
		var mu sync.Mutex
		count := map[ledger.Outcome]int{}
		for range 200 {
			wg.Go(func() {
				res, err := do(t.Context(), g, m, w.Grant(m))
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				count[res.Outcome]++
			})
		}
		wg.Wait()
		if count[ledger.Executed] != 1 || count[ledger.Failed] != 0 {
			t.Errorf("outcomes %v, want one executed and none failed", count)
		}
		w.ExactlyOnce(m)
	}
}

// awaitLockWaits closes done once n transactions of the bench's schema wait for a row lock.
func (w *Workbench) awaitLockWaits(n int, done chan<- struct{}) {
	defer close(done)
	tick := time.NewTicker(LockWaitsAge)
	defer tick.Stop()
	for w.T.Context().Err() == nil && w.LockWaits() < n {
		<-tick.C
	}
}

// LockWaitsAge is how far apart LockWaits must be asked: InnoDB renews what it shows only when nobody has looked for 0.1 s.
const LockWaitsAge = 150 * time.Millisecond

// LockWaits counts the transactions of the bench's schema that wait for a row lock. It is 0 when the server cannot say, since
// a statement of someone else holds bytes that are no text: ask again.
func (w *Workbench) LockWaits() int {
	var waiting int
	err := w.Schema.DB.QueryRowContext(w.T.Context(), `SELECT COUNT(*) FROM information_schema.innodb_trx t
		JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id
		WHERE t.trx_state = 'LOCK WAIT' AND p.db = DATABASE()`).Scan(&waiting)
	if err != nil && mysqlx.Number(err) != mysqlx.ErrCannotConvert {
		w.T.Error(err)
	}
	return waiting
}
