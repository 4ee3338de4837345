package mysqlx

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Options shape the connections that Open hands out.
type Options struct {
	// DSN in go-sql-driver's form: user:password@tcp(host:port)/schema?param=value.
	DSN string
	// Password replaces the one in the DSN when it is not empty (read from a file or the environment by the caller).
	Password string
	// ConnectTimeout bounds one dial; 0 means 5 s.
	ConnectTimeout time.Duration
	// Guard asks for connections of a guard's own: autocommit=0, so that a statement that follows a transaction which the
	// server has already undone cannot stay by itself (invariant 6).
	Guard bool
	// MaxOpen bounds the pool; 0 means 16.
	MaxOpen int
	// Dial replaces the network dial, for tests that put a proxy in between.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
}

// guardReadTimeout ends the wait for a server that has stopped answering, COMMIT included: longer than a lock wait.
const guardReadTimeout = 60 * time.Second

// Open prepares a pool; it does not connect. Every connection speaks UTC, READ COMMITTED and strict mode, whatever the
// server's defaults are.
func Open(opts Options) (*sql.DB, error) {
	cfg, err := parseDSN(opts.DSN)
	if err != nil {
		return nil, err
	}
	if opts.Password != "" {
		cfg.Passwd = opts.Password
	}
	cfg.Timeout = opts.ConnectTimeout
	if cfg.Timeout == 0 {
		cfg.Timeout = 5 * time.Second
	}
	cfg.ParseTime = true
	cfg.Loc = time.UTC
	cfg.InterpolateParams = true // one round trip per statement; values are still bound by the driver's own escaping
	cfg.MultiStatements = false
	if opts.Guard && cfg.ReadTimeout == 0 {
		cfg.ReadTimeout = guardReadTimeout
	}
	cfg.Logger = &mysql.NopLogger{} // errors are returned; the driver's own logger would print to stderr beside ours
	if opts.Dial != nil {
		cfg.DialFunc = func(ctx context.Context, _, addr string) (net.Conn, error) { return opts.Dial(ctx, addr) }
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("mysql dsn: %w", err)
	}
	db := sql.OpenDB(&sessionConnector{Connector: connector, statements: sessionStatements(opts.Guard)})
	maxOpen := opts.MaxOpen
	if maxOpen == 0 {
		maxOpen = 16
	}
	db.SetMaxOpenConns(maxOpen)
	db.SetMaxIdleConns(maxOpen)
	db.SetConnMaxIdleTime(time.Minute)
	return db, nil
}

func sessionStatements(guard bool) []string {
	s := []string{
		"SET time_zone = '+00:00'",
		"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
		"SET sql_mode = CONCAT(@@sql_mode, ',STRICT_ALL_TABLES')",
	}
	if guard {
		// A claim that waits for another's row lock waits shorter than its own lease lasts.
		s = append(s, "SET autocommit = 0", "SET SESSION innodb_lock_wait_timeout = 10")
	}
	return s
}

// sessionConnector runs the session's statements on each new connection, before anyone sees it.
type sessionConnector struct {
	driver.Connector
	statements []string
}

// Connect implements driver.Connector.
func (c *sessionConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	execer, ok := conn.(driver.ExecerContext)
	if !ok {
		return nil, errors.Join(errors.New("mysql driver: connection cannot execute"), conn.Close())
	}
	for _, s := range c.statements {
		if _, err := execer.ExecContext(ctx, s, nil); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", s, err), conn.Close())
		}
	}
	return conn, nil
}

// parseDSN hides the driver's error text, which repeats the DSN and with it the password.
func parseDSN(dsn string) (*mysql.Config, error) {
	if strings.TrimSpace(dsn) == "" {
		return nil, errors.New("mysql dsn is empty")
	}
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, errors.New("mysql dsn cannot be read; expected user@tcp(host:port)/schema")
	}
	if cfg.DBName == "" {
		return nil, fmt.Errorf("mysql dsn %s names no schema; expected user@tcp(host:port)/schema", Redact(dsn))
	}
	return cfg, nil
}

// Redact returns the DSN with its password replaced, for messages and logs.
func Redact(dsn string) string {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return "(unreadable dsn)"
	}
	return redacted(cfg)
}

func redacted(cfg *mysql.Config) string {
	pass := ""
	if cfg.Passwd != "" {
		pass = ":***"
	}
	return fmt.Sprintf("%s%s@%s(%s)/%s", cfg.User, pass, cfg.Net, cfg.Addr, cfg.DBName)
}

// Address returns where a DSN points at, host and port or a socket path.
func Address(dsn string) string {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return "(unreadable dsn)"
	}
	return cfg.Addr
}
