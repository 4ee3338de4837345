package mysqlx_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/internal/testenv"
)

// hazard P9: a statement that meets a long transaction gives up soon, names who holds the table, and leaves the session as
// it was.
func TestConformanceDDLBlocked(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, s *testenv.Schema) {
		ctx := t.Context()
		if _, err := s.DB.ExecContext(ctx, "CREATE TABLE r (id INT PRIMARY KEY) ENGINE=InnoDB"); err != nil {
			t.Fatal(err)
		}
		conn, err := s.DB.Conn(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.ExecContext(ctx, "SET SESSION lock_wait_timeout = 1234"); err != nil {
			t.Fatal(err)
		}
		restored := func(when string) {
			t.Helper()
			var wait int
			if err := conn.QueryRowContext(ctx, "SELECT @@SESSION.lock_wait_timeout").Scan(&wait); err != nil || wait != 1234 {
				t.Errorf("%s: lock_wait_timeout %d, %v; want 1234 as before", when, wait, err)
			}
		}
		tx, err := s.DB.BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		var id, n int64
		for query, into := range map[string]*int64{"SELECT CONNECTION_ID()": &id, "SELECT COUNT(*) FROM r": &n} {
			if err := tx.QueryRowContext(ctx, query).Scan(into); err != nil {
				t.Fatal(err)
			}
		}
		err = mysqlx.DDL(ctx, conn, "RENAME TABLE r TO q")
		blocked, ok := errors.AsType[*mysqlx.BlockedError](err)
		if !ok || !errors.Is(err, mysqlx.ErrBlocked) || blocked.Attempts < 2 || blocked.Statement != "RENAME TABLE r TO q" {
			t.Fatalf("%v, want a BlockedError", err)
		}
		if want := fmt.Sprintf("connection %d of root@", id); !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), " since 2") {
			t.Errorf("%v; want %q and since when", err, want)
		}
		restored("blocked")

		// Interrupted between two attempts.
		gone, cancel := context.WithCancel(ctx)
		cancel()
		if err := mysqlx.DDL(gone, conn, "RENAME TABLE r TO q"); !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want cancelled", err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if err := mysqlx.DDL(ctx, conn, "RENAME TABLE r TO q"); err != nil {
			t.Error(err)
		}
		restored("done")
		// Refused for another reason: told at once, as the server says it.
		if err := mysqlx.DDL(ctx, conn, "CREATE TABLE q (\n  id INT)"); mysqlx.Number(err) != mysqlx.ErrTableExists || errors.Is(err, mysqlx.ErrBlocked) ||
			!strings.HasPrefix(err.Error(), "CREATE TABLE q: ") {
			t.Errorf("%v, want 1050", err)
		}
		restored("refused")
	})
}
