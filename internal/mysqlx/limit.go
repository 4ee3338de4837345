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
