package mysqlx

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Numbers of a statement that the server ended at its time limit.
const (
	ErrQueryTimeout        = 3024 // MySQL
	ErrQueryTimeoutMariaDB = 1969
)

// Limited returns a SELECT that the server itself ends after d (whole milliseconds, at least one): it does not go on in the
// server after its client has given up (hazard C7). The statement ends with an error that IsTimeLimit knows.
func (s Server) Limited(query string, d time.Duration) string {
	ms := max(1, d.Milliseconds())
	if s.MariaDB {
		return fmt.Sprintf("SET STATEMENT max_statement_time=%d.%03d FOR %s", ms/1000, ms%1000, query)
	}
	rest, ok := strings.CutPrefix(query, "SELECT ")
	if !ok {
		return query // MySQL limits nothing but a SELECT
	}
	return fmt.Sprintf("SELECT /*+ MAX_EXECUTION_TIME(%d) */ %s", ms, rest)
}

// IsTimeLimit reports a statement that the server ended at its time limit.
func IsTimeLimit(err error) bool {
	n := Number(err)
	return n == ErrQueryTimeout || n == ErrQueryTimeoutMariaDB
}

// Instance tells one run of one server from another: a pool connects again by itself, and what answers then may be another
// server, or the same after a restart.
type Instance struct {
	Host string
	Port int
	ID   int64 // server_id
	// Started is when the server began to run, give or take a second; by its own clock.
	Started time.Time
}

// Identify asks which server answers.
func Identify(ctx context.Context, q Queryer) (Instance, error) {
	var (
		i    Instance
		name string
		up   int64
		now  time.Time
	)
	err := q.QueryRowContext(ctx, "SELECT @@hostname, @@port, @@server_id, UTC_TIMESTAMP(3)").Scan(&i.Host, &i.Port, &i.ID, &now)
	if err == nil {
		err = q.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Uptime'").Scan(&name, &up)
	}
	if err != nil {
		return i, fmt.Errorf("identity of the server: %w", err)
	}
	i.Started = now.Add(-time.Duration(up) * time.Second)
	return i, nil
}

// startedSpread is by how much two readings of the start of one run may differ: Uptime is whole seconds, and on a busy
// server the two questions that it is worked out from may lie apart.
const startedSpread = 5 * time.Second

// Same reports whether both are one run of one server.
func (i Instance) Same(j Instance) bool {
	return i.Host == j.Host && i.Port == j.Port && i.ID == j.ID && i.Started.Sub(j.Started).Abs() < startedSpread
}

// ErrIsolation says that a session does not read what is committed and nothing else.
var ErrIsolation = errors.New("the session's isolation is not READ COMMITTED")

// RequireReadCommitted returns ErrIsolation for a session that would read what never was committed, or an old snapshot.
func (s Server) RequireReadCommitted(ctx context.Context, q Queryer) error {
	name := "@@transaction_isolation"
	if s.MariaDB {
		name = "@@tx_isolation" // MariaDB knows the other name from 11.1 on
	}
	var level sql.NullString
	if err := q.QueryRowContext(ctx, "SELECT "+name).Scan(&level); err != nil {
		return fmt.Errorf("isolation of the session: %w", err)
	}
	if level.String != "READ-COMMITTED" {
		return fmt.Errorf("%w: %s", ErrIsolation, level.String)
	}
	return nil
}
