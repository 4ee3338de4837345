package mysqlx

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// ErrBlocked says that a statement gave up waiting for a lock that another session holds on the table.
var ErrBlocked = errors.New("another session's lock is in the way")

// BlockedError is a statement that changed nothing, since every attempt met another session's lock. It wraps ErrBlocked.
type BlockedError struct {
	// Statement is its first line.
	Statement string
	Attempts  int
	// Holder names the transaction that has been open for longest, the likely holder: connection, user and host, since when.
	// It is empty where that could not be found out.
	Holder string
	// Err is what the server said last.
	Err error
}

func (e *BlockedError) Error() string {
	holder := e.Holder
	if holder == "" {
		holder = "try again when long transactions have ended (PROCESS privilege: they are named here)"
	}
	return fmt.Sprintf("%s: %s, %d times in a row; %s", e.Statement, ErrBlocked, e.Attempts, holder)
}

// Unwrap returns ErrBlocked and the server's error.
func (e *BlockedError) Unwrap() []error { return []error{ErrBlocked, e.Err} }

// Limits of one statement (hazard P9). While it waits for the table, all that comes after it waits too, so it waits for
// short and lets the queue drain in between.
const (
	ddlLockWait = 1 // seconds, the servers' unit and their least
	ddlAttempts = 5
	ddlPause    = 500 * time.Millisecond // on average, between attempts
)

// DDL runs one statement that needs a table for itself alone. An attempt waits at most a second for the other sessions'
// locks; after a few attempts it gives up with a *BlockedError, and nothing was changed. The session's own lock_wait_timeout
// is restored. A statement that has been sent is waited for also when ctx ends meanwhile: cut off, it would go on in the
// server, and what it did would not be known.
func DDL(ctx context.Context, conn *sql.Conn, statement string) (err error) {
	restore, err := limitLockWait(ctx, conn)
	if err != nil {
		return fmt.Errorf("%s: %w", firstLine(statement), err)
	}
	defer func() {
		if rerr := restore(); rerr != nil && !IsConnLost(rerr) {
			err = errors.Join(err, fmt.Errorf("%s: %w", firstLine(statement), rerr))
		}
	}()
	for attempt := 1; ; attempt++ {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%s: %w", firstLine(statement), err)
		}
		_, err := conn.ExecContext(context.WithoutCancel(ctx), statement)
		switch {
		case err == nil:
			return nil
		case !IsLocked(err) && Number(err) != ErrLockDeadlock:
			return fmt.Errorf("%s: %w", firstLine(statement), err)
		case attempt == ddlAttempts:
			return &BlockedError{Statement: firstLine(statement), Attempts: attempt, Holder: longestOpen(ctx, conn), Err: err}
		}
		select {
		case <-ctx.Done():
		case <-time.After(ddlPause/2 + rand.N(ddlPause)):
		}
	}
}

// limitLockWait shortens the session's wait for table locks, and returns what sets it back.
func limitLockWait(ctx context.Context, conn *sql.Conn) (restore func() error, err error) {
	var before int64
	if err := conn.QueryRowContext(ctx, "SELECT @@SESSION.lock_wait_timeout").Scan(&before); err != nil {
		return nil, fmt.Errorf("limit its wait: %w", err)
	}
	set := func(ctx context.Context, seconds int64) error {
		_, err := conn.ExecContext(ctx, fmt.Sprintf("SET SESSION lock_wait_timeout = %d", seconds))
		return err
	}
	if err := set(ctx, ddlLockWait); err != nil {
		return nil, fmt.Errorf("limit its wait: %w", err)
	}
	return func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		defer cancel()
		if err := set(ctx, before); err != nil {
			return fmt.Errorf("restore lock_wait_timeout: %w", err)
		}
		return nil
	}, nil
}

// longestOpen describes the transaction that has been open for longest, one of this schema before those of others. Empty:
// there is none, or this user may not see it.
func longestOpen(ctx context.Context, conn *sql.Conn) string {
	var (
		id         int64
		user, host sql.NullString
		since      sql.NullTime
	)
	// trx_started is in the server's own zone, whatever the session's is.
	err := conn.QueryRowContext(ctx, `SELECT t.trx_mysql_thread_id, p.user, p.host, CONVERT_TZ(t.trx_started, 'SYSTEM', '+00:00')
		FROM information_schema.innodb_trx t LEFT JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id
		WHERE t.trx_mysql_thread_id NOT IN (0, CONNECTION_ID())
		ORDER BY COALESCE(p.db = DATABASE(), 0) DESC, t.trx_started, t.trx_mysql_thread_id LIMIT 1`).Scan(&id, &user, &host, &since)
	if err != nil {
		return "" // best effort: what is reported is the lock
	}
	who := ""
	if user.Valid {
		who = " of " + user.String + "@" + host.String
	}
	when := ""
	if since.Valid {
		when = " since " + since.Time.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("try again when the longest-open transaction has ended: connection %d%s%s", id, who, when)
}

// firstLine shortens a statement to what says what it does to which table.
func firstLine(statement string) string {
	line, _, _ := strings.Cut(statement, "\n")
	return strings.TrimRight(line, " (")
}
