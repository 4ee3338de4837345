package testenv

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/idemctl/idemctl/internal/lab"
	"github.com/idemctl/idemctl/internal/mysqlx"
)

// Schema is an empty schema of one test's own. It is dropped when the test ends.
type Schema struct {
	// DSN points at the schema, in go-sql-driver's form.
	DSN string
	// Name of the schema.
	Name string
	// DB is opened by mysqlx.Open without Guard; it is closed when the test ends.
	DB *sql.DB
}

// Database is one server that conformance suites run on.
type Database struct {
	// Name as the server calls itself: "MariaDB 10.11.19".
	Name string
	dsn  string // without a schema that matters
}

// MySQL gives the test a schema on the primary server: the first configured one, else MariaDB, else MySQL.
func MySQL(tb testing.TB) *Schema {
	tb.Helper()
	if dsns := configured(EnvMySQL); len(dsns) > 0 {
		return contact(tb, dsns[0]).Schema(tb)
	}
	s, err := shared.server(tb.Context(), lab.KindMariaDB)
	if errors.Is(err, lab.ErrNotFound) {
		s, err = shared.server(tb.Context(), lab.KindMySQL)
	}
	if err != nil {
		tb.Fatalf("a database for the test: %v\nRun `make deps`, or name a server in %s.", err, EnvMySQL)
	}
	return Database{Name: s.Name, dsn: s.DSN("mysql")}.Schema(tb)
}

// Databases are all servers that a conformance suite runs on: the configured ones, else this machine's MariaDB and, where
// it could be had, MySQL.
func Databases(tb testing.TB) []Database {
	tb.Helper()
	var out []Database
	if dsns := configured(EnvMySQL); len(dsns) > 0 {
		for _, dsn := range dsns {
			out = append(out, contact(tb, dsn))
		}
		return out
	}
	for _, kind := range []lab.Kind{lab.KindMariaDB, lab.KindMySQL} {
		s, err := shared.server(tb.Context(), kind)
		switch {
		case errors.Is(err, lab.ErrNotFound) && !requireAll():
			tb.Logf("%s is not on this machine: its leg is left out", kind)
		case err != nil:
			tb.Fatalf("a database for the test: %v\nRun `make deps`, or name servers in %s.", err, EnvMySQL)
		default:
			out = append(out, Database{Name: s.Name, dsn: s.DSN("mysql")})
		}
	}
	if len(out) == 0 {
		tb.Fatalf("no database for the test: run `make deps`, or name servers in %s", EnvMySQL)
	}
	return out
}

// contact asks a configured server for its name.
func contact(tb testing.TB, dsn string) Database {
	tb.Helper()
	dsn, err := withSchema(dsn, "information_schema")
	if err != nil {
		tb.Fatalf("%s: %v", EnvMySQL, err)
	}
	ctx, cancel := context.WithTimeout(tb.Context(), contactTimeout)
	defer cancel()
	name, err := databaseName(ctx, dsn)
	if err != nil {
		tb.Fatalf("%s: %s does not answer: %v", EnvMySQL, mysqlx.Redact(dsn), err)
	}
	return Database{Name: name, dsn: dsn}
}

func databaseName(ctx context.Context, dsn string) (_ string, err error) {
	db, err := mysqlx.Open(mysqlx.Options{DSN: dsn, MaxOpen: 1})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	server, err := mysqlx.Inspect(ctx, db)
	if err != nil {
		return "", err
	}
	return server.Name(), nil
}

// withSchema points a DSN at another schema. The error never holds the DSN, which may have a password in it.
func withSchema(dsn, schema string) (string, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return "", errors.New("the DSN cannot be read; expected user@tcp(host:port)/")
	}
	cfg.DBName = schema
	return cfg.FormatDSN(), nil
}

// Schema gives the test a schema of its own on this server.
func (d Database) Schema(tb testing.TB) *Schema {
	tb.Helper()
	admin, err := mysqlx.Open(mysqlx.Options{DSN: d.dsn, MaxOpen: 1})
	if err != nil {
		tb.Fatalf("a schema on %s: %v", d.Name, err)
	}
	s := &Schema{Name: "idemtest_" + unique()}
	s.DSN, err = withSchema(d.dsn, s.Name)
	if err != nil {
		tb.Fatalf("a schema on %s: %v", d.Name, err)
	}
	if _, err := admin.ExecContext(tb.Context(), "CREATE DATABASE `"+s.Name+"`"); err != nil {
		tb.Fatalf("a schema on %s: %v", d.Name, errors.Join(err, admin.Close()))
	}
	s.DB, err = mysqlx.Open(mysqlx.Options{DSN: s.DSN})
	if err != nil {
		tb.Fatalf("a schema on %s: %v", d.Name, err)
	}
	tb.Cleanup(func() {
		if err := s.DB.Close(); err != nil {
			tb.Errorf("closing the test's pool: %v", err)
		}
		ctx, cancel := cleanupContext(tb)
		defer cancel()
		if err := drop(ctx, admin, s.Name); err != nil {
			tb.Errorf("dropping the test's schema %s: %v", s.Name, err)
		}
		if err := admin.Close(); err != nil {
			tb.Errorf("closing the test's pool: %v", err)
		}
	})
	return s
}

// drop removes the schema. Connections that a test left behind (those of a killed child, or in the middle of a
// transaction on purpose) hold locks that would keep it waiting: they are ended first.
func drop(ctx context.Context, db *sql.DB, schema string) error {
	ids, err := connections(ctx, db, schema)
	if err != nil {
		return fmt.Errorf("listing its connections: %w", err)
	}
	for _, id := range ids {
		if _, err := db.ExecContext(ctx, fmt.Sprintf("KILL CONNECTION %d", id)); err != nil && mysqlx.Number(err) != errNoSuchThread {
			return fmt.Errorf("ending connection %d: %w", id, err)
		}
	}
	if _, err := db.ExecContext(ctx, "DROP DATABASE `"+schema+"`"); err != nil {
		return fmt.Errorf("dropping it: %w", err)
	}
	return nil
}

// connections are those that use a schema. Other tests' statements come and go: the list is asked for again where one of
// them holds bytes that are no text, for which MySQL shows none of it.
func connections(ctx context.Context, db *sql.DB, schema string) ([]uint64, error) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		ids, err := listConnections(ctx, db, schema)
		if mysqlx.Number(err) != mysqlx.ErrCannotConvert {
			return ids, err
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(err, ctx.Err())
		case <-tick.C:
		}
	}
}

func listConnections(ctx context.Context, db *sql.DB, schema string) ([]uint64, error) {
	rows, err := db.QueryContext(ctx, "SELECT ID FROM information_schema.PROCESSLIST WHERE DB = ? AND ID <> CONNECTION_ID()", schema)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var ids []uint64
	for rows.Next() {
		var id uint64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// errNoSuchThread is the servers' number for a KILL that came too late.
const errNoSuchThread = 1094

// OwnMySQL starts a database for this test alone, of the primary make.
func OwnMySQL(tb testing.TB) *lab.Server {
	tb.Helper()
	return own(tb, lab.AnyDatabase)
}

// unique is a name that no other test has, in this process or another.
func unique() string {
	b := make([]byte, 6)
	_, _ = rand.Read(b) // never fails, by its documentation
	return hex.EncodeToString(b)
}
