package partition

import (
	"context"
	"database/sql"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// lockPurpose names the lock that create, purge and restore share (invariant 9).
const lockPurpose = "months"

// LockMonths takes the lock of whoever changes which months a ledger has: create, purge and restore share it. It does not
// wait: mysqlx.ErrLockHeld says that another run holds it, mysqlx.ErrNotPrimary that the server takes no writes, which its own
// administrator would not notice otherwise. Statements that destroy go over the lock's own connection
// (hazard P20), so db's connections must commit by themselves.
func LockMonths(ctx context.Context, db *sql.DB, s Scheme) (*mysqlx.Lock, error) {
	server, err := mysqlx.Inspect(ctx, db)
	if err != nil {
		return nil, err
	}
	if err := server.RequireWritable(); err != nil {
		return nil, err
	}
	schema, err := mysqlx.Schema(ctx, db)
	if err != nil {
		return nil, err
	}
	return mysqlx.Acquire(ctx, db, s.LockName(schema), 0)
}

// LockName is the server's name of the lock that LockMonths takes, for those who look who holds it.
func (s Scheme) LockName(schema string) string { return mysqlx.LockName(lockPurpose, schema, s.prefix) }
