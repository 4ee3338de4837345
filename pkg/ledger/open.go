package ledger

import (
	"database/sql"
	"errors"
	"fmt"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// Why NewGuard refuses a server.
var (
	// ErrMultiPrimary says that row locks taken on this server are not seen on its peers (Galera, a multi-primary group).
	ErrMultiPrimary = mysqlx.ErrMultiPrimary
	// ErrNotPrimary says that the server takes no writes.
	ErrNotPrimary = mysqlx.ErrNotPrimary
)

// OpenConnections prepares the two pools that NewStore and partition.NewManager work on, for the schema that dsn names in
// go-sql-driver's form (user:password@tcp(host:port)/schema). The caller closes both.
//
// tx is for the guard's transactions and nothing else: its sessions have autocommit=0, so that a statement which follows a
// transaction that the server has already undone cannot stay by itself, and wait at most 10 s for a row lock. read commits
// by itself; it is for look-ups and for a partition.Manager. Both speak UTC, READ COMMITTED and strict mode, whatever the
// server's defaults are.
//
// This is the one constructor of the package that opens anything, because it alone knows what such a session must be. It
// does not connect: a server that is away is reported by NewGuard. An error never shows the password.
func OpenConnections(dsn string) (tx, read *sql.DB, err error) {
	tx, err = mysqlx.Open(mysqlx.Options{DSN: dsn, Guard: true})
	if err != nil {
		return nil, nil, fmt.Errorf("open the guard's connections: %w", err)
	}
	read, err = mysqlx.Open(mysqlx.Options{DSN: dsn})
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open the ledger's connections: %w", err), tx.Close())
	}
	return tx, read, nil
}
