package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/partition"
)

// purgeCase is a ledger on one server with a month that is wholly expired, one with expired and live rows, and the current.
type purgeCase struct {
	command

	schema *testenv.Schema
	full   string // the month to drop
	mixed  string
}

const (
	purgeFullRows  = 60
	purgeMixedRows = 40
	purgeLiveRows  = 15
)

// onEachPurge runs a test with such a ledger on every server there is.
func onEachPurge(t *testing.T, test func(t *testing.T, p *purgeCase)) {
	t.Helper()
	for _, server := range testenv.Databases(t) {
		t.Run(server.Name, func(t *testing.T) {
			t.Parallel()
			test(t, newPurgeCase(t, server.Schema(t)))
		})
	}
}

func newPurgeCase(t *testing.T, schema *testenv.Schema) *purgeCase {
	t.Helper()
	home := t.TempDir()
	p := &purgeCase{schema: schema, command: command{dir: home, env: []string{
		"XDG_CONFIG_HOME=" + home, "TMPDIR=" + home, "IDEMCTL_LEDGER_DSN=" + schema.DSN,
	}}}
	current, now := serverMonth(t, schema)
	oldest := current - 4
	p.full, p.mixed = "t_idempotent_flow_"+oldest.Digits(), "t_idempotent_flow_"+(oldest+1).Digits()
	p.must(t, exitDone, "partition", "create", "--ahead", "0", "--from", oldest.String(),
		"--memory-since", oldest.Start(time.UTC).Format(time.DateOnly), "--execute")
	for table, rows := range map[string][]seedRow{
		p.full: seedMonth(oldest, now, purgeFullRows, seedStep, seedExpired, "COUPON", "F"),
		p.mixed: append(seedMonth(oldest+1, now, purgeMixedRows, seedStep, seedExpired, "COUPON", "M"),
			seedMonth(oldest+1, now, purgeLiveRows, seedStep, seedLive, "COUPON", "L")...),
	} {
		if err := insertSeed(t.Context(), schema.DB, table, rows); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// rows are how many the two months have, "gone" where there is no table of that name.
func (p *purgeCase) rows(t *testing.T) (full, mixed string) {
	t.Helper()
	count := func(table string) string {
		var n int
		err := p.schema.DB.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+mysqlx.Quote(table)).Scan(&n)
		if mysqlx.Number(err) == mysqlx.ErrNoSuchTable {
			return "gone"
		}
		if err != nil {
			t.Fatal(err)
		}
		return strconv.Itoa(n)
	}
	return count(p.full), count(p.mixed)
}

func (p *purgeCase) wantRows(t *testing.T, full, mixed string) {
	t.Helper()
	if f, m := p.rows(t); f != full || m != mixed {
		t.Errorf("the months have %s and %s rows, want %s and %s", f, m, full, mixed)
	}
}

// allLive fails when a month is left under another name.
func (p *purgeCase) allLive(t *testing.T) {
	t.Helper()
	scheme, err := partition.NewScheme("t_idempotent_flow")
	if err != nil {
		t.Fatal(err)
	}
	catalog, err := partition.LoadCatalog(t.Context(), p.schema.DB, scheme)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range catalog.Tables {
		if table.State != partition.Live {
			t.Errorf("%s is left %s", table.Name, table.State)
		}
	}
}

const (
	purgeFull  = "60"
	purgeMixed = "55"
	purgeLeft  = "15" // of the mixed month, when its expired rows are gone
	purgeGone  = "gone"
)

// A user that may not rename or drop purges what it may: the month is put off with the reason, nothing of it is lost, and
// the rest goes on.
func TestPurgeWithoutDrop(t *testing.T) {
	t.Parallel()
	onEachPurge(t, func(t *testing.T, p *purgeCase) {
		user := "p_" + p.schema.Name[max(0, len(p.schema.Name)-24):]
		for _, s := range []string{
			fmt.Sprintf("CREATE USER '%s'@'%%' IDENTIFIED BY 'secret'", user),
			fmt.Sprintf("GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, TRIGGER ON `%s`.* TO '%s'@'%%'", p.schema.Name, user),
		} {
			exec1(t, p.schema, s)
		}
		t.Cleanup(func() {
			if _, err := p.schema.DB.Exec(fmt.Sprintf("DROP USER '%s'@'%%'", user)); err != nil {
				t.Error(err)
			}
		})
		cfg, err := mysql.ParseDSN(p.schema.DSN)
		if err != nil {
			t.Fatal(err)
		}
		cfg.User = user
		less := p.with("IDEMCTL_LEDGER_DSN="+cfg.FormatDSN(), "IDEMCTL_LEDGER_PASSWORD=secret")
		res := less.must(t, exitIncomplete, "purge", "--execute", "--hold", "0", "-q")
		if !strings.Contains(res.stdout, p.full+": deferred: ") || !strings.Contains(res.stdout, "denied") {
			t.Errorf("the reason is not given:\n%s", res.stdout)
		}
		p.wantRows(t, purgeFull, purgeLeft)
		p.allLive(t)
		checkJSON(t, "json", less.must(t, exitIncomplete, "purge", "--execute", "--hold", "0", "-o", "json"))
		less.must(t, exitDone, "purge", "--execute", "--rows-only", "-q")
		p.wantRows(t, "0", purgeLeft)
	})
}

// A long transaction keeps a month from being renamed: the purge waits a little, puts it off naming who is in the way, and
// the traffic behind it goes on. hazard P9
func TestPurgeBehindLongTransaction(t *testing.T) {
	t.Parallel()
	onEachPurge(t, func(t *testing.T, p *purgeCase) {
		tx, err := p.schema.DB.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var n int
		if err := tx.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+mysqlx.Quote(p.full)).Scan(&n); err != nil {
			t.Fatal(err)
		}
		res := p.must(t, exitIncomplete, "purge", "--execute", "--hold", "0")
		if !strings.Contains(res.stdout, p.full+": deferred: ") {
			t.Errorf("the month is not said to be put off:\n%s", res.stdout)
		}
		p.wantRows(t, purgeFull, purgeLeft)
		p.allLive(t)
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		p.must(t, exitDone, "purge", "--execute", "--hold", "0")
		p.wantRows(t, purgeGone, purgeLeft)
	})
}

// Another run holds the lock: exit 5 and nothing is done; with --wait its turn comes. hazard P11
func TestPurgeBusy(t *testing.T) {
	t.Parallel()
	onEachPurge(t, func(t *testing.T, p *purgeCase) {
		scheme, err := partition.NewScheme("t_idempotent_flow")
		if err != nil {
			t.Fatal(err)
		}
		lock, err := partition.LockMonths(t.Context(), p.schema.DB, scheme)
		if err != nil {
			t.Fatal(err)
		}
		res := p.must(t, exitBusy, "purge", "--execute", "-o", "json", "--metrics-file", "m.prom")
		checkJSON(t, "json", res)
		if !strings.Contains(res.stdout, `"error"`) {
			t.Errorf("a run that did nothing reports something:\n%s", res.stdout)
		}
		p.wantRows(t, purgeFull, purgeMixed)
		if got := text(t, p.schema, "SELECT GROUP_CONCAT(result) FROM t_idempotent_run WHERE command = 'purge'"); got != "busy" {
			t.Errorf("recorded as %s", got)
		}
		wait := p.start(t, "purge", "--execute", "--wait", "--hold", "0")
		if err := lock.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if res := wait(); res.code != exitDone {
			t.Errorf("exit %d: %s%s", res.code, res.stdout, res.stderr)
		}
		p.wantRows(t, purgeGone, purgeLeft)
	})
}

// A server that takes no writes is refused before anything is done, in words.
func TestPurgeReadOnlyServer(t *testing.T) {
	t.Parallel()
	server := testenv.OwnMySQL(t)
	schema := schemaOn(t, server.DSN("mysql"))
	p := newPurgeCase(t, schema)
	exec1(t, schema, "SET GLOBAL read_only = 1")
	res := p.must(t, exitFailure, "purge", "--execute", "-o", "json")
	checkJSON(t, "json", res)
	if !strings.Contains(res.stderr, "idemctl: purge: the server is read-only: read_only=ON\n") {
		t.Errorf("it says %q", res.stderr)
	}
	p.must(t, exitDone, "purge") // a plan only reads
	p.wantRows(t, purgeFull, purgeMixed)
	exec1(t, schema, "SET GLOBAL read_only = 0")
	if got := text(t, schema, "SELECT COUNT(*) FROM t_idempotent_run WHERE command = 'purge'"); got != "0" {
		t.Errorf("%s runs are recorded", got)
	}
}

// schemaOn makes a schema on a test's own server, which ends with the test.
func schemaOn(t *testing.T, dsn string) *testenv.Schema {
	t.Helper()
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	admin, err := mysqlx.Open(mysqlx.Options{DSN: dsn, MaxOpen: 1})
	if err != nil {
		t.Fatal(err)
	}
	s := &testenv.Schema{Name: "shop"}
	_, err = admin.ExecContext(t.Context(), "CREATE DATABASE shop")
	if cerr := admin.Close(); err != nil || cerr != nil {
		t.Fatal(err, cerr)
	}
	cfg.DBName = s.Name
	s.DSN = cfg.FormatDSN()
	if s.DB, err = mysqlx.Open(mysqlx.Options{DSN: s.DSN}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.DB.Close() })
	return s
}

// A signal ends a purge between two statements: exit 130 with what was done, in every format, and the next run goes on.
func TestPurgeInterrupted(t *testing.T) {
	t.Parallel()
	onEachPurge(t, func(t *testing.T, p *purgeCase) {
		count := fmt.Sprintf("(SELECT COUNT(*) FROM %s) + (SELECT COUNT(*) FROM %s)", p.full, p.mixed)
		for _, format := range []string{"json", "table"} {
			before := text(t, p.schema, "SELECT "+count)
			wait, send := p.startProcess(t, "purge", "--execute", "--rows-only", "--batch", "1", "--pause", "10ms", "-o", format)
			waitRows(t, p.schema, "SELECT "+count+" < "+before)
			send(os.Interrupt)
			res := wait()
			if res.code != exitInterrupted {
				t.Fatalf("exit %d: %s%s", res.code, res.stdout, res.stderr)
			}
			if format == "json" {
				checkJSON(t, format, res)
			}
			if !strings.Contains(strings.ToLower(res.stdout), "interrupted") {
				t.Errorf("what was done is not shown:\n%s%s", res.stdout, res.stderr)
			}
		}
		p.must(t, exitDone, "purge", "--execute", "--hold", "0")
		p.wantRows(t, purgeGone, purgeLeft)
		if got := text(t, p.schema, "SELECT GROUP_CONCAT(result ORDER BY id) FROM t_idempotent_run WHERE command = 'purge'"); got != "interrupted,interrupted,done" {
			t.Errorf("recorded as %s", got)
		}
	})
}

// A held month waits for its time, and says so by its state: a second run is busy, a signal puts it back. hazard P7
func TestPurgeHoldInterrupted(t *testing.T) {
	t.Parallel()
	onEachPurge(t, func(t *testing.T, p *purgeCase) {
		wait, send := p.startProcess(t, "purge", "--execute", "--hold", "1h")
		waitRows(t, p.schema, "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name LIKE '%\\_held\\_%'")
		p.must(t, exitBusy, "purge", "--execute")
		send(os.Interrupt)
		if res := wait(); res.code != exitInterrupted {
			t.Fatalf("exit %d: %s%s", res.code, res.stdout, res.stderr)
		}
		p.allLive(t)
		full, _ := p.rows(t)
		if full != purgeFull {
			t.Errorf("the month has %s rows", full)
		}
	})
}

// The replica is asked with the ledger's own user, and one that does not answer is found out before the first row goes.
func TestPurgeReplicaSilent(t *testing.T) {
	t.Parallel()
	p := newPurgeCase(t, testenv.MySQL(t))
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	res := p.must(t, exitFailure, "purge", "--execute", "--connect-timeout", "200ms", "--replica", l.Addr().String(), "--max-lag", "5s")
	if !strings.HasPrefix(res.stderr, "idemctl: connect to the replica at "+l.Addr().String()+": no answer within 200ms") {
		t.Errorf("it says %q", res.stderr)
	}
	p.wantRows(t, purgeFull, purgeMixed)
}

// A replica that does not know how far it is behind holds a purge up, and --run-time still ends that. hazard P12
func TestPurgeLagUnknown(t *testing.T) {
	t.Parallel()
	p := newPurgeCase(t, testenv.MySQL(t))
	replica := testenv.OwnMySQL(t)
	admin, err := mysqlx.Open(mysqlx.Options{DSN: replica.DSN("mysql"), MaxOpen: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	server, err := mysqlx.Inspect(t.Context(), admin)
	if err != nil {
		t.Fatal(err)
	}
	// It has a source, and replication was never started.
	source := "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=1, SOURCE_USER='root'"
	if server.MariaDB {
		source = "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=1, MASTER_USER='root'"
	}
	for _, s := range []string{"CREATE DATABASE " + mysqlx.Quote(p.schema.Name), source} {
		if _, err := admin.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	args := []string{"purge", "--execute", "--replica", replica.Addr, "--max-lag", "5s", "--run-time", "1s", "--metrics-file", "m.prom"}
	res := p.must(t, exitIncomplete, args...)
	for _, want := range []string{"Ended by --run-time 1s", "for the replica, in 1 pause."} {
		if !strings.Contains(res.stdout, want) {
			t.Errorf("it does not say %q:\n%s", want, res.stdout)
		}
	}
	p.wantRows(t, purgeFull, purgeMixed)
	p.allLive(t)
	metrics, err := os.ReadFile(filepath.Join(p.dir, "m.prom"))
	if err != nil {
		t.Fatal(err)
	}
	if waits := "idemctl_purge_lag_wait_seconds"; !strings.Contains(string(metrics), waits) || regexp.MustCompile(`(?m)^`+waits+`\{.*\} 0$`).Match(metrics) {
		t.Errorf("the wait is not in the metrics:\n%s", metrics)
	}
}
