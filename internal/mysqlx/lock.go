package mysqlx

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// ErrLockHeld says that another connection holds a named lock.
var ErrLockHeld = errors.New("lock is held by another run")

// ErrLockLost says that the connection that held a named lock no longer does.
var ErrLockLost = errors.New("lock was lost")

// Lock is a named lock (GET_LOCK) on a connection of its own. Statements that destroy go over Conn: a run that has lost its
// lock has lost that connection too, so it can no longer destroy anything.
type Lock struct {
	conn *sql.Conn
	name string
}

// LockName names a lock of one purpose on one ledger. Named locks are server-wide, so the name carries the schema and the
// table prefix; MySQL allows 64 characters.
func LockName(purpose, schema, prefix string) string {
	sum := sha256.Sum256([]byte(schema + "\x00" + prefix))
	return "idemctl:" + purpose + ":" + hex.EncodeToString(sum[:12])
}

// Acquire takes the lock, waiting up to wait (whole seconds; 0 tries once). It returns ErrLockHeld when someone else has it.
func Acquire(ctx context.Context, db *sql.DB, name string, wait time.Duration) (*Lock, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	var got sql.NullInt64
	err = conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, ?)", name, int64(wait.Seconds())).Scan(&got)
	switch {
	case err != nil:
		return nil, errors.Join(fmt.Errorf("lock %s: %w", name, err), discard(conn))
	case !got.Valid || got.Int64 != 1:
		return nil, errors.Join(fmt.Errorf("lock %s: %w", name, ErrLockHeld), conn.Close())
	}
	return &Lock{conn: conn, name: name}, nil
}

// Conn is the connection that holds the lock.
func (l *Lock) Conn() *sql.Conn { return l.conn }

// Check returns ErrLockLost unless this connection still holds the lock.
func (l *Lock) Check(ctx context.Context) error {
	var mine sql.NullBool
	if err := l.conn.QueryRowContext(ctx, "SELECT IS_USED_LOCK(?) = CONNECTION_ID()", l.name).Scan(&mine); err != nil {
		return fmt.Errorf("lock %s: %w: %w", l.name, ErrLockLost, err)
	}
	if !mine.Bool {
		return fmt.Errorf("lock %s: %w", l.name, ErrLockLost)
	}
	return nil
}

// releaseTimeout bounds the words with which a lock is given back.
const releaseTimeout = 5 * time.Second

// Release gives the lock back, also when ctx has ended: it says so to the server, which knows it when Release returns, and
// ends the connection, which cannot fail to release what could not be said.
func (l *Lock) Release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	_, err := l.conn.ExecContext(ctx, "DO RELEASE_LOCK(?)", l.name)
	if IsConnLost(err) {
		err = nil // the lock went with the connection
	}
	return errors.Join(err, discard(l.conn))
}

// discard closes the connection itself instead of returning it to the pool, where it would keep its locks.
func discard(conn *sql.Conn) error {
	err := conn.Raw(func(any) error { return errDiscard })
	if errors.Is(err, errDiscard) || errors.Is(err, sql.ErrConnDone) {
		err = nil
	}
	return errors.Join(err, ignoreDone(conn.Close()))
}

// errDiscard makes database/sql close the connection instead of pooling it.
var errDiscard = fmt.Errorf("discard: %w", driver.ErrBadConn)

func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrConnDone) || errors.Is(err, driver.ErrBadConn) {
		return nil
	}
	return err
}
