package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/internal/testenv"
)

// hazard P9: another session is at the very table: the run gives up within seconds, says so in one line, and is deferred.
func TestPartitionCreateBlocked(t *testing.T) {
	t.Parallel()
	cmd, schema, _ := newCommand(t, nil)
	cmd.must(t, exitDone, "partition", "create", "--ahead", "0", "--execute")
	next := text(t, schema, "SELECT DATE_FORMAT(LAST_DAY(UTC_TIMESTAMP()) + INTERVAL 1 DAY, 't_idempotent_flow_%Y%m')")
	conn, err := schema.DB.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var id int64
	if err := conn.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
		t.Fatal(err)
	}
	made := make(chan error, 1)
	go func() {
		_, err := conn.ExecContext(t.Context(), "CREATE TABLE "+next+" AS SELECT SLEEP(600)")
		made <- err
	}()
	waitRows(t, schema, "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'CREATE TABLE "+next+" AS%' AND state LIKE 'User sleep%'")
	res := cmd.must(t, exitIncomplete, "partition", "create", "--ahead", "1", "--execute", "-o", "json")
	var doc struct{ Command, Error string }
	if err := json.Unmarshal([]byte(res.stdout), &doc); err != nil || doc.Command != "partition create" || doc.Error == "" {
		t.Errorf("%v: stdout %q", err, res.stdout)
	}
	if strings.Count(res.stderr, "\n") != 1 || !strings.Contains(res.stderr, "CREATE TABLE `"+next+"`: another session's lock is in the way") {
		t.Errorf("stderr: %s", res.stderr)
	}
	if got := text(t, schema, "SELECT result FROM t_idempotent_run ORDER BY id DESC LIMIT 1"); got != "deferred" {
		t.Errorf("recorded as %s", got)
	}
	if _, err := schema.DB.ExecContext(t.Context(), "KILL ?", id); err != nil {
		t.Fatal(err)
	}
	if err := <-made; err == nil {
		t.Error("the other session was not ended")
	}
	waitRows(t, schema, fmt.Sprintf("SELECT COUNT(*) = 0 FROM information_schema.processlist WHERE id = %d", id))
	cmd.must(t, exitDone, "partition", "create", "--ahead", "1", "--execute", "-q")
}

// A replica, or a primary that was demoted, is not written, even by a user who might: its primary would not know of it.
func TestPartitionReadOnlyServer(t *testing.T) {
	t.Parallel()
	server := testenv.OwnMySQL(t)
	db, err := mysqlx.Open(mysqlx.Options{DSN: server.DSN("mysql")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, s := range []string{"CREATE DATABASE shop", "SET GLOBAL read_only = ON"} {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	cmd := command{dir: t.TempDir()}
	cmd.env = []string{"XDG_CONFIG_HOME=" + cmd.dir, "IDEMCTL_LEDGER_DSN=" + server.DSN("shop")}
	cmd.must(t, exitDone, "partition", "create") // a plan may be looked at
	res := cmd.must(t, exitFailure, "partition", "create", "--execute", "-o", "json")
	checkJSON(t, "json", res)
	if want := "idemctl: create the months: the server is read-only: read_only=ON\n"; res.stderr != want {
		t.Errorf("stderr %q, want %q", res.stderr, want)
	}
	var n int
	if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'shop'").Scan(&n); err != nil || n != 0 {
		t.Errorf("%d tables were made, %v", n, err)
	}
	if _, err := db.ExecContext(t.Context(), "SET GLOBAL read_only = OFF"); err != nil {
		t.Fatal(err)
	}
	cmd.must(t, exitDone, "partition", "create", "--execute")
	if _, err := db.ExecContext(t.Context(), "SET GLOBAL read_only = ON"); err != nil {
		t.Fatal(err)
	}
	res = cmd.must(t, exitFailure, "partition", "rotate", "--execute")
	if want := "idemctl: rotate the ledger id: the server is read-only: read_only=ON\n"; res.stderr != want {
		t.Errorf("stderr %q, want %q", res.stderr, want)
	}
	cmd.must(t, exitDone, "partition", "check")
	cmd.must(t, exitDone, "partition", "list")
}
