package doctor

import (
	"errors"
	"os"
	"testing"

	"github.com/idemctl/idemctl/internal/lab"
	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/partition"
)

// Settings are changed on servers of the test's own, of both makes, with a binary log as in production.
func TestServerSettings(t *testing.T) {
	t.Parallel()
	for kind, launch := range map[lab.Kind]func() (*lab.Server, error){
		lab.KindMariaDB: func() (*lab.Server, error) { return lab.MariaDB(t.Context(), withBinlog()) },
		lab.KindMySQL:   func() (*lab.Server, error) { return lab.MySQL(t.Context(), withBinlog()) },
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server, err := launch()
			if errors.Is(err, lab.ErrNotFound) {
				t.Skipf("%s is not on this machine", kind)
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { server.Close() })
			db, err := mysqlx.Open(mysqlx.Options{DSN: server.DSN("mysql")})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { db.Close() })
			c := setup(t)
			c.DB = db
			for _, step := range []struct {
				set   string
				check string
				want  Status
				read  string
			}{
				{"", "mysql.primary", OK, "writable, the only primary"},
				{"", "mysql.sql-mode", OK, "strict: "},
				{"", "mysql.isolation", OK, "REPEATABLE-READ"},
				{"", "mysql.durability", OK, "innodb_flush_log_at_trx_commit=1, sync_binlog=1"},
				{"", "mysql.binlog", OK, "binlog_format=ROW"},
				{"", "time.zones", OK, "months of UTC; the server's time_zone is +00:00"},
				{"SET GLOBAL read_only = ON", "mysql.primary", Fail, "read_only=ON"},
				{"SET GLOBAL sql_mode = ''", "mysql.sql-mode", Fail, `default sql_mode "" is not strict`}, // hazard G5
				{"SET GLOBAL sql_mode = 'STRICT_ALL_TABLES'", "mysql.sql-mode", OK, "strict: STRICT_ALL_TABLES"},
				{"SET GLOBAL TRANSACTION ISOLATION LEVEL READ UNCOMMITTED", "mysql.isolation", Fail, "READ-UNCOMMITTED"}, // hazard C9
				{"SET GLOBAL TRANSACTION ISOLATION LEVEL SERIALIZABLE", "mysql.isolation", Warn, "SERIALIZABLE"},
				{"SET GLOBAL TRANSACTION ISOLATION LEVEL READ COMMITTED", "mysql.isolation", OK, "READ-COMMITTED"},
				{"SET GLOBAL sync_binlog = 0", "mysql.durability", Warn, "sync_binlog=0"},
				{"SET GLOBAL innodb_flush_log_at_trx_commit = 2", "mysql.durability", Warn, "innodb_flush_log_at_trx_commit=2"},
				{"SET GLOBAL innodb_flush_log_at_trx_commit = 0", "mysql.durability", Fail, "innodb_flush_log_at_trx_commit=0"}, // hazard G27
				{"SET GLOBAL binlog_format = 'MIXED'", "mysql.binlog", Warn, "binlog_format=MIXED"},
				{"SET GLOBAL binlog_format = 'STATEMENT'", "mysql.binlog", Fail, "binlog_format=STATEMENT"},
				{"SET GLOBAL time_zone = '+08:00'", "time.zones", Warn, "the server's time_zone +08:00 is +480 minutes from UTC"}, // hazard P3
			} {
				if step.set != "" {
					if _, err := db.ExecContext(t.Context(), step.set); err != nil {
						t.Fatalf("%s: %v", step.set, err)
					}
				}
				expect(t, check(t, c, step.check), step.want, step.read)
			}
		})
	}
}

func withBinlog() lab.LaunchOptions {
	return lab.LaunchOptions{
		Host: lab.NewHost(os.Getenv),
		Args: []string{"--log-bin=binlog", "--server-id=1", "--binlog-format=ROW", "--sync-binlog=1", "--innodb-flush-log-at-trx-commit=1"},
	}
}

// Servers without a binary log replicate nothing: its format and syncs do not matter.
func TestWithoutBinlog(t *testing.T) {
	t.Parallel()
	s := mysqlx.Settings{FlushLog: 1, BinlogFormat: "STATEMENT"}
	if r := judgeBinlog(&s); r.Status != OK {
		t.Errorf("%+v", r)
	}
	if r := judgeDurability(&s); r.Status != OK || r.Read != "innodb_flush_log_at_trx_commit=1, no binary log" {
		t.Errorf("%+v", r)
	}
}

// Multi-primary clusters are what guards refuse; see the errors of mysqlx.Server.
func TestPrimary(t *testing.T) {
	t.Parallel()
	r := judgePrimary("MySQL 8.4.0", mysqlx.ErrMultiPrimary, nil)
	r.Name = "mysql.primary"
	expect(t, r, Fail, "MySQL 8.4.0: the server belongs to a multi-primary cluster")
}

// The zone of the catalog must be the configured one.
func TestZones(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *testenv.Schema) {
		c := on(t, s)
		expect(t, check(t, c, "time.zones"), OK, "months of UTC")
		change(t, c, func(cat *partition.Catalog) { cat.TimeZone = "Asia/Shanghai" })
		expect(t, check(t, c, "time.zones"), Fail, "the catalog has months of Asia/Shanghai, the configuration of UTC") // hazard P1
	})
}
