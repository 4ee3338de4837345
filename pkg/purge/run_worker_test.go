package purge

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/internal/testenv"
)

// A statement that waited too long for another's row lock is run again, the lock being looked at before; one that never gets
// it gives up, and its month is put off.
func TestConformanceRetry(t *testing.T) {
	t.Parallel()
	for _, db := range testenv.Databases(t) {
		t.Run(db.Name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			s := db.Schema(t)
			exec := func(query string) {
				t.Helper()
				if _, err := s.DB.ExecContext(ctx, query); err != nil {
					t.Fatalf("%s: %v", query, err)
				}
			}
			exec("CREATE TABLE x (i INT PRIMARY KEY) ENGINE=InnoDB")
			exec("INSERT INTO x VALUES (1)")
			tx, err := s.DB.BeginTx(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.ExecContext(ctx, "UPDATE x SET i = 1 WHERE i = 1"); err != nil {
				t.Fatal(err)
			}
			if _, err := tx.ExecContext(ctx, "SELECT * FROM x FOR UPDATE"); err != nil {
				t.Fatal(err)
			}
			conn, err := s.DB.Conn(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := conn.ExecContext(ctx, "SET SESSION innodb_lock_wait_timeout = 1"); err != nil {
				t.Fatal(err)
			}
			looks, release := 0, 2
			w := &worker{runner: &runner{opts: RunOptions{Stop: func() bool { return false }}}, conn: conn}
			w.check = func(context.Context) error {
				looks++
				if looks == release {
					return tx.Rollback()
				}
				return nil
			}
			n, err := w.exec(ctx, "DELETE FROM x WHERE i = 1", nil)
			if err != nil || n != 1 || looks != release {
				t.Errorf("deleted %d, %v, after %d looks", n, err, looks)
			}

			exec("INSERT INTO x VALUES (1)")
			if tx, err = s.DB.BeginTx(ctx, nil); err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			if _, err := tx.ExecContext(ctx, "SELECT * FROM x FOR UPDATE"); err != nil {
				t.Fatal(err)
			}
			release = -1
			_, err = w.exec(ctx, "DELETE FROM x WHERE i = 1", nil)
			if _, ok := errors.AsType[*deferral](w.putOff(ctx, "delete from x", err)); !ok || mysqlx.Number(err) != mysqlx.ErrLockWaitTimeout {
				t.Errorf("%v, want a deferral", err)
			}
			looks = 0
			w.check = func(context.Context) error { return mysqlx.ErrLockLost }
			if _, err = w.exec(ctx, "DELETE FROM x WHERE i = 1", nil); !errors.Is(err, mysqlx.ErrLockLost) {
				t.Errorf("%v, want ErrLockLost before it is tried again", err)
			}
		})
	}
}

// The size of a DELETE follows the time it takes, between the least and the limit.
func TestAdapt(t *testing.T) {
	t.Parallel()
	w := &worker{runner: &runner{opts: RunOptions{Batch: 1000}}, size: 1000}
	for range 10 {
		w.adapt(w.size, time.Second)
	}
	if w.size != minBatch {
		t.Errorf("slow: %d", w.size)
	}
	w.adapt(w.size, 200*time.Millisecond)
	if w.size != minBatch {
		t.Errorf("as long as it should take: %d", w.size)
	}
	w.adapt(w.size-1, time.Millisecond)
	if w.size != minBatch {
		t.Errorf("quick since it was not full: %d", w.size)
	}
	for range 50 {
		w.adapt(w.size, time.Millisecond)
	}
	if w.size != 1000 {
		t.Errorf("quick: %d", w.size)
	}
	w = &worker{runner: &runner{opts: RunOptions{Batch: 10}}, size: 10}
	w.adapt(10, time.Second)
	if w.size != 10 {
		t.Errorf("a limit below the least: %d", w.size)
	}
}
