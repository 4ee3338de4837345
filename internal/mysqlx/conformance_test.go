package mysqlx_test

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/internal/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

func onEachServer(t *testing.T, test func(t *testing.T, s *testenv.Schema)) {
	t.Helper()
	for _, db := range testenv.Databases(t) {
		t.Run(db.Name, func(t *testing.T) {
			t.Parallel()
			test(t, db.Schema(t))
		})
	}
}

func open(t *testing.T, opts mysqlx.Options) *sql.DB {
	t.Helper()
	db, err := mysqlx.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// hazard P3: whatever the server or the DSN says, a session speaks UTC, READ COMMITTED and strict mode.
func TestConformanceSession(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, s *testenv.Schema) {
		for _, guard := range []bool{false, true} {
			db := open(t, mysqlx.Options{DSN: s.DSN + "?time_zone=%27%2B08%3A00%27&sql_mode=%27%27", Guard: guard})
			err := mysqlx.WithTx(t.Context(), db, func(tx *sql.Tx) error {
				var zone, mode string
				var auto bool
				var apart int64
				if err := tx.QueryRowContext(t.Context(), "SELECT @@time_zone, @@sql_mode, @@autocommit, TIMESTAMPDIFF(SECOND, NOW(), UTC_TIMESTAMP())").
					Scan(&zone, &mode, &auto, &apart); err != nil {
					return err
				}
				if zone != "+00:00" || apart != 0 || !strings.Contains(mode, "STRICT_ALL_TABLES") || auto == guard {
					t.Errorf("guard %v: zone %s, NOW is %d s from UTC, mode %s, autocommit %v", guard, zone, apart, mode, auto)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
	})
}

// hazard G22: under snapshot isolation a locking read of a row changed since the snapshot fails with 1020, which is a
// reason to run the whole transaction again. hazard G11: a plain read in such a snapshot does not see the row at all.
func TestConformanceSnapshot(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, s *testenv.Schema) {
		ctx := t.Context()
		exec := func(db mysqlx.Execer, query string) {
			t.Helper()
			if _, err := db.ExecContext(ctx, query); err != nil {
				t.Fatalf("%s: %v", query, err)
			}
		}
		server, err := mysqlx.Inspect(ctx, s.DB)
		if err != nil {
			t.Fatal(err)
		}
		exec(s.DB, "CREATE TABLE r (id INT PRIMARY KEY, v INT) ENGINE=InnoDB")
		exec(s.DB, "INSERT INTO r VALUES (1, 1)")
		conn, err := s.DB.Conn(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		exec(conn, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
		if server.MariaDB {
			exec(conn, "SET SESSION innodb_snapshot_isolation = ON")
		}
		exec(conn, "START TRANSACTION")
		count := func(lock string) (n int, err error) {
			err = conn.QueryRowContext(ctx, "SELECT COUNT(*) FROM (SELECT id FROM r WHERE id IN (1, 2)"+lock+") seen").Scan(&n)
			return n, err
		}
		if n, err := count(""); err != nil || n != 1 {
			t.Fatalf("%d rows, %v", n, err)
		}
		exec(s.DB, "INSERT INTO r VALUES (2, 2)")
		exec(s.DB, "UPDATE r SET v = 3 WHERE id = 1")
		if n, err := count(""); err != nil || n != 1 {
			t.Errorf("the snapshot shows %d rows, %v; want the 1 of before", n, err)
		}
		n, err := count(" LOCK IN SHARE MODE")
		switch {
		case server.MariaDB && (mysqlx.Number(err) != mysqlx.ErrCheckread || !mysqlx.IsRetryable(err)):
			t.Errorf("a locking read: %d rows, %v; want 1020, retryable", n, err)
		case !server.MariaDB && (err != nil || n != 2):
			t.Errorf("a locking read shows %d rows, %v; want 2", n, err)
		}
	})
}

func TestConformanceLock(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, s *testenv.Schema) {
		ctx := t.Context()
		name := mysqlx.LockName("months", s.Name, "t_idempotent_flow")
		if len(name) > 64 || name == mysqlx.LockName("months", s.Name, "other") || name == mysqlx.LockName("months", "other", "t_idempotent_flow") {
			t.Errorf("lock name %q", name)
		}
		first, err := mysqlx.Acquire(ctx, s.DB, name, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := mysqlx.Acquire(ctx, s.DB, name, 0); !errors.Is(err, mysqlx.ErrLockHeld) {
			t.Errorf("a second owner: %v, want ErrLockHeld", err)
		}
		if err := first.Check(ctx); err != nil {
			t.Errorf("the owner: %v", err)
		}
		var id int64
		if err := first.Conn().QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&id); err != nil {
			t.Fatal(err)
		}
		if _, err := s.DB.ExecContext(ctx, "KILL ?", id); err != nil {
			t.Fatal(err)
		}
		if err := first.Check(ctx); !errors.Is(err, mysqlx.ErrLockLost) {
			t.Errorf("after its connection was killed: %v, want ErrLockLost", err)
		}
		if err := first.Release(ctx); err != nil {
			t.Errorf("releasing a lost lock: %v", err)
		}
		second, err := mysqlx.Acquire(ctx, s.DB, name, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if err := second.Release(ctx); err != nil {
			t.Error(err)
		}
	})
}

// A server notices the end of a connection a moment later. Whoever comes right after a release must find the lock free all
// the same: here the connection's end never reaches the server.
func TestConformanceReleaseIsSaid(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, s *testenv.Schema) {
		db := open(t, mysqlx.Options{DSN: s.DSN, Dial: func(ctx context.Context, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
			if err != nil {
				return nil, err
			}
			t.Cleanup(func() { _ = conn.Close() })
			return lingering{conn}, nil
		}})
		name := mysqlx.LockName("months", s.Name, "t_idempotent_flow")
		lock, err := mysqlx.Acquire(t.Context(), db, name, 0)
		if err != nil {
			t.Fatal(err)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel() // an interrupted run gives its lock back too
		if err := lock.Release(gone); err != nil {
			t.Error(err)
		}
		next, err := mysqlx.Acquire(t.Context(), s.DB, name, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := next.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// lingering is a connection whose end does not reach the server.
type lingering struct{ net.Conn }

func (l lingering) Write(b []byte) (int, error) {
	if string(b) == "\x01\x00\x00\x00\x01" { // COM_QUIT
		return len(b), nil
	}
	return l.Conn.Write(b)
}

func (lingering) Close() error { return nil }

func TestConformanceWithTx(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, s *testenv.Schema) {
		db := open(t, mysqlx.Options{DSN: s.DSN, Guard: true})
		if _, err := s.DB.ExecContext(t.Context(), "CREATE TABLE r (id INT PRIMARY KEY) ENGINE=InnoDB"); err != nil {
			t.Fatal(err)
		}
		insert := func(ctx context.Context, id int, end func() error) error {
			return mysqlx.WithTx(ctx, db, func(tx *sql.Tx) error {
				if _, err := tx.ExecContext(ctx, "INSERT INTO r VALUES (?)", id); err != nil {
					return err
				}
				return end()
			})
		}
		boom := errors.New("boom")
		if err := insert(t.Context(), 1, func() error { return nil }); err != nil {
			t.Error(err)
		}
		if err := insert(t.Context(), 2, func() error { return boom }); !errors.Is(err, boom) {
			t.Errorf("%v, want %v", err, boom)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if err := insert(ctx, 3, func() error { cancel(); return ctx.Err() }); !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want cancelled", err)
		}
		func() {
			defer func() { _ = recover() }()
			_ = insert(t.Context(), 4, func() error { panic(boom) })
			t.Error("the panic was swallowed")
		}()
		var ids string
		if err := s.DB.QueryRowContext(t.Context(), "SELECT GROUP_CONCAT(id) FROM r").Scan(&ids); err != nil || ids != "1" {
			t.Errorf("rows %s, %v; want only the committed one", ids, err)
		}
	})
}

// An error never shows the password (hazard T1).
func TestErrorsHideThePassword(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{"u:hunter2@tcp(127.0.0.1:1)/s", "u:hunter2@tcp(127.0.0.1:1)", "u:hunter2@tcp(127.0.0.1:1)/", "u:hunter2"} {
		db, err := mysqlx.Open(mysqlx.Options{DSN: dsn})
		if err == nil {
			err = db.PingContext(t.Context())
			_ = db.Close()
		}
		if err == nil || strings.Contains(err.Error(), "hunter2") || strings.Contains(mysqlx.Redact(dsn), "hunter2") {
			t.Errorf("%s: %v, redacted %s", dsn, err, mysqlx.Redact(dsn))
		}
	}
}
