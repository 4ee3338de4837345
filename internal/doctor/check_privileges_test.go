package doctor

import (
	"crypto/rand"
	"database/sql"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/internal/testenv"
)

// account makes a user that has the privileges named, in GRANT's own words, and a pool of its own.
func account(t *testing.T, s *testenv.Schema, grants ...string) (name string, db *sql.DB) {
	t.Helper()
	name = "idemtest_" + strings.ToLower(rand.Text()[:12])
	who := "'" + name + "'@'%'"
	exec(t, s, "CREATE USER "+who+" IDENTIFIED BY 'pw'")
	t.Cleanup(func() { s.DB.Exec("DROP USER " + who) })
	for _, g := range grants {
		exec(t, s, strings.NewReplacer("SCHEMA", mysqlx.Quote(s.Name), "WHO", who).Replace(g))
	}
	cfg, err := mysql.ParseDSN(s.DSN)
	if err != nil {
		t.Fatal(err)
	}
	cfg.User, cfg.Passwd = name, "pw"
	db, err = mysqlx.Open(mysqlx.Options{DSN: cfg.FormatDSN(), MaxOpen: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return name, db
}

// Each privilege that a command needs is named, with the statement that gives it.
func TestPrivileges(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *testenv.Schema) {
		c := on(t, s)
		expect(t, check(t, c, "mysql.privileges"), OK, "may run every command on "+s.Name)

		_, c.DB = account(t, s, "GRANT SELECT, TRIGGER ON SCHEMA.* TO WHO")
		r := check(t, c, "mysql.privileges")
		expect(t, r, Warn, "no INSERT, UPDATE for replay --mode execute")
		if strings.Contains(r.Read, "partition list") || strings.Contains(r.Read, "verify") {
			t.Errorf("SELECT is enough to look: %s", r.Read)
		}
		if !strings.Contains(r.Mend, "GRANT ALTER, CREATE, DELETE, DROP, INSERT, UPDATE ON `"+s.Name+"`.* TO 'idemtest_") {
			t.Errorf("mend %s", r.Mend)
		}

		_, c.DB = account(t, s, "GRANT SELECT, INSERT, TRIGGER ON SCHEMA.* TO WHO", "GRANT UPDATE ON SCHEMA.t_idempotent_control TO WHO",
			"CREATE TABLE IF NOT EXISTS SCHEMA.t_idempotent_run (id INT)", "GRANT UPDATE ON SCHEMA.t_idempotent_run TO WHO")
		r = check(t, c, "mysql.privileges")
		expect(t, r, Warn, "no CREATE for partition create --execute")
		if strings.Contains(r.Read, "replay") {
			t.Errorf("it may execute: %s", r.Read)
		}

		// Nothing can be looked at.
		_, c.DB = account(t, s, "GRANT INSERT ON SCHEMA.* TO WHO")
		expect(t, check(t, c, "mysql.privileges"), Fail, "no SELECT for partition list")
	})
}

// MySQL hides triggers from a user without TRIGGER, MariaDB does not.
func TestTriggerPrivilege(t *testing.T) {
	t.Parallel()
	all := mysqlx.Grants{{Privileges: []string{"SELECT", "INSERT", "UPDATE", "CREATE", "ALTER", "DELETE", "DROP"}, Schema: "shop", Table: "*"}}
	if r := judgePrivileges(all, "'a'@'%'", "shop", true); r.Status != Warn || !strings.Contains(r.Read, "no TRIGGER for replay --mode verify") {
		t.Errorf("MySQL: %+v", r)
	}
	if r := judgePrivileges(all, "'a'@'%'", "shop", false); r.Status != OK {
		t.Errorf("MariaDB: %+v", r)
	}
}

// Who else may remove what the ledger remembers is named; who may not see it is told so.
func TestForeignGrants(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *testenv.Schema) {
		c := on(t, s)
		expect(t, check(t, c, "ledger.grants"), OK, "no other account but ")
		// The account that purges sees others, and does not take itself for one.
		_, purger := account(t, s, "GRANT SELECT ON mysql.* TO WHO", "GRANT SELECT, DELETE, DROP ON SCHEMA.* TO WHO")
		own := c
		own.DB = purger
		expect(t, check(t, own, "ledger.grants"), OK, "no other account but ")
		name, db := account(t, s, "GRANT SELECT, DELETE ON SCHEMA.* TO WHO")
		other, _ := account(t, s, "GRANT DROP ON SCHEMA."+month(c, 0)+" TO WHO", "GRANT DELETE ON SCHEMA.t_idempotent_control TO WHO")
		r := check(t, c, "ledger.grants")
		expect(t, r, Warn, "'"+name+"'@'%' has DELETE on "+s.Name+".*")
		expect(t, r, Warn, "'"+other+"'@'%' has DROP on "+month(c, 0))
		c.DB = db
		expect(t, check(t, c, "ledger.grants"), Skipped, "may not see the grants of others")
	})
}
