package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/internal/testenv"
)

// A run that writes is written down with its command line, and a password in that is not: there, on a terminal, and in the
// line that says how to go on. hazard T1
func TestRunIsRecordedWithoutSecrets(t *testing.T) {
	t.Parallel()
	cluster := testenv.Kafka(t)
	cmd, schema, _ := newCommand(t, cluster.Brokers)
	dsn, err := mysql.ParseDSN(schema.DSN)
	if err != nil {
		t.Fatal(err)
	}
	const secret = "hunter2"
	user := "t_" + dsn.DBName[max(0, len(dsn.DBName)-24):]
	for _, s := range []string{
		fmt.Sprintf("CREATE USER '%s'@'%%' IDENTIFIED BY '%s'", user, secret),
		fmt.Sprintf("GRANT ALL ON `%s`.* TO '%s'@'%%'", dsn.DBName, user),
		"CREATE TABLE coupon (order_id VARBINARY(128)) ENGINE=InnoDB",
	} {
		exec1(t, schema, s)
	}
	t.Cleanup(func() {
		if _, err := schema.DB.Exec(fmt.Sprintf("DROP USER '%s'@'%%'", user)); err != nil {
			t.Error(err)
		}
	})
	dsn.User, dsn.Passwd = user, secret
	topic := cluster.Topic(t, 1, nil)
	produce(t, cluster, &kgo.Record{Topic: topic, Value: []byte(`{"orderId":"A-1"}`)}, &kgo.Record{Topic: topic, Value: []byte(`{"orderId":"A-2"}`)})
	cmd.write(t, "effect.sql", "INSERT INTO coupon (order_id) VALUES (:_order_id)")
	cmd.write(t, "idemctl.yaml", "handlers:\n  coupon: {topic: "+topic+", biz_type: COUPON, key: orderId, effect: effect.sql, memory_since: 2020-01-01}\n")
	cmd.must(t, exitDone, "partition", "create", "--ahead", "0", "--execute")

	for _, flag := range [][]string{{"--dsn", dsn.FormatDSN()}, {"--dsn=" + dsn.FormatDSN()}} {
		res := cmd.must(t, exitIncomplete, append([]string{"replay", topic, "--mode", "execute", "--limit", "1"}, flag...)...)
		if strings.Contains(res.stdout+res.stderr, secret) {
			t.Errorf("the password is shown: %s%s", res.stdout, res.stderr)
		}
	}
	runs := text(t, schema, "SELECT GROUP_CONCAT(CONCAT(args, plan, counts, result) SEPARATOR '\n') FROM t_idempotent_run WHERE command = 'replay'")
	if strings.Contains(runs, secret) || strings.Count(runs, user+":***@") != 2 || !strings.Contains(runs, "--mode execute") {
		t.Errorf("recorded: %s", runs)
	}
}

// Another run that creates, purges or restores holds the lock: exit 5 and nothing is done, or with --wait its turn later.
// hazard P11
func TestPartitionCreateBusy(t *testing.T) {
	t.Parallel()
	cmd, schema, _ := newCommand(t, nil)
	name, err := mysqlx.Schema(t.Context(), schema.DB)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := mysqlx.Acquire(t.Context(), schema.DB, mysqlx.LockName("months", name, "t_idempotent_flow"), 0)
	if err != nil {
		t.Fatal(err)
	}
	res := cmd.must(t, exitBusy, "partition", "create", "--execute", "-o", "json")
	checkJSON(t, "json", res)
	if got := text(t, schema, "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name LIKE 't\\_idempotent\\_flow%'"); got != "0" {
		t.Errorf("%s tables were made by a run that was busy", got)
	}
	if got := text(t, schema, "SELECT result FROM t_idempotent_run"); got != "busy" {
		t.Errorf("recorded as %s", got)
	}
	wait := cmd.start(t, "partition", "create", "--execute", "--wait")
	waitRows(t, schema, "SELECT COUNT(*) FROM t_idempotent_run WHERE result = 'running'")
	if err := lock.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if res := wait(); res.code != exitDone {
		t.Errorf("exit %d: %s%s", res.code, res.stdout, res.stderr)
	}
}

// waitRows polls until a count is not 0 any more.
func waitRows(t *testing.T, schema *testenv.Schema, query string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for text(t, schema, query) == "0" {
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-tick.C:
		}
	}
}
