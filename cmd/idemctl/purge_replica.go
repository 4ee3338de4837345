package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// lagFunc says how far a replica is behind; see purge.RunOptions.
type lagFunc func(ctx context.Context) (lag time.Duration, known bool, err error)

// replicaLag opens the replica at an address with the ledger's own user, password and schema, so that no secret is needed
// on the command line, and asks it once: a server that cannot say is found out before the first row goes.
func (a *app) replicaLag(ctx context.Context, address string) (lagFunc, error) {
	address, err := replicaAddress(address)
	if err != nil {
		return nil, err
	}
	cfg, err := a.Config()
	if err != nil {
		return nil, err
	}
	dsn, password, err := cfg.LedgerDSN()
	if err != nil {
		return nil, err
	}
	parsed, err := mysql.ParseDSN(dsn)
	if err != nil { // LedgerDSN has made it
		return nil, usageErrorf("ledger.dsn: it cannot be read; expected user@tcp(host:port)/schema")
	}
	parsed.Net, parsed.Addr = "tcp", address
	// A replica that stalls is one whose lag is not known: the question ends long before anyone would look after it, but after
	// the first contact's own bound, which says better what happened.
	parsed.ReadTimeout = a.flags.connectTimeout + time.Second
	db, err := mysqlx.Open(mysqlx.Options{DSN: parsed.FormatDSN(), Password: password, ConnectTimeout: a.flags.connectTimeout, MaxOpen: 1})
	if err != nil {
		return nil, usageErrorf("--replica %s: %w", address, err)
	}
	a.closeLater(db)
	if err := a.firstContact(ctx, "the replica", address, db.PingContext); err != nil {
		return nil, err
	}
	lag := func(ctx context.Context) (time.Duration, bool, error) { return mysqlx.ReplicaLag(ctx, db) }
	switch _, _, err := lag(ctx); {
	case errors.Is(err, mysqlx.ErrNotReplica):
		return nil, usageErrorf("--replica %s: %w", address, mysqlx.ErrNotReplica)
	case err != nil:
		return nil, fmt.Errorf("--replica %s: %w", address, err)
	}
	return lag, nil
}
