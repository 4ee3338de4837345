package mysqlx_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/internal/testenv"
)

// The server itself ends a statement at its limit, and lets one through that is quick. hazard C7
func TestConformanceLimited(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, s *testenv.Schema) {
		server, err := mysqlx.Inspect(t.Context(), s.DB)
		if err != nil {
			t.Fatal(err)
		}
		var n int64
		if err := s.DB.QueryRowContext(t.Context(), server.Limited("SELECT 7", time.Minute)).Scan(&n); err != nil || n != 7 {
			t.Errorf("%d, %v", n, err)
		}
		// A product of some 10^12 rows would take the better part of a day.
		digits := "SELECT 0 AS d"
		for d := 1; d < 100; d++ {
			digits += fmt.Sprintf(" UNION ALL SELECT %d", d)
		}
		long := "SELECT SUM(a.d * b.d * c.d * e.d * f.d * g.d) FROM "
		for i, name := range []string{"a", "b", "c", "e", "f", "g"} {
			if i > 0 {
				long += ", "
			}
			long += "(" + digits + ") " + name
		}
		err = s.DB.QueryRowContext(t.Context(), server.Limited(long, 50*time.Millisecond)).Scan(&n)
		if !mysqlx.IsTimeLimit(err) {
			t.Errorf("not ended by the server: %v", err)
		}
	})
}

// hazard C9
func TestConformanceReadCommitted(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, s *testenv.Schema) {
		server, err := mysqlx.Inspect(t.Context(), s.DB)
		if err != nil {
			t.Fatal(err)
		}
		if err := server.RequireReadCommitted(t.Context(), s.DB); err != nil {
			t.Error(err)
		}
		for _, level := range []string{"READ UNCOMMITTED", "REPEATABLE READ"} {
			conn, err := s.DB.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := conn.ExecContext(t.Context(), "SET SESSION TRANSACTION ISOLATION LEVEL "+level); err != nil {
				t.Fatal(err)
			}
			if err := server.RequireReadCommitted(t.Context(), conn); !errors.Is(err, mysqlx.ErrIsolation) {
				t.Errorf("%s: %v", level, err)
			}
			_ = conn.Close()
		}
	})
}

// A connection that was ended on the server's side tells of it, however quickly the pool connects again.
func TestConformanceWatch(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, s *testenv.Schema) {
		quiet, err := mysqlx.StartWatch(t.Context(), s.DB)
		if err != nil {
			t.Fatal(err)
		}
		if err := quiet.End(t.Context()); err != nil {
			t.Error(err)
		}
		db := open(t, mysqlx.Options{DSN: s.DSN, MaxOpen: 1})
		var id int64
		if err := db.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
			t.Fatal(err)
		}
		watch, err := mysqlx.StartWatch(t.Context(), db) // takes the pool's only connection
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.DB.ExecContext(t.Context(), fmt.Sprintf("KILL CONNECTION %d", id)); err != nil {
			t.Fatal(err)
		}
		if err := watch.End(t.Context()); !errors.Is(err, mysqlx.ErrReplaced) {
			t.Errorf("unnoticed: %v", err)
		}
	})
}
