package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/internal/runlog"
	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/partition"
)

// scheme is the naming of the configured ledger's tables and columns.
func (c *Config) scheme() (partition.Scheme, error) {
	s, err := partition.NewScheme(c.Ledger.TablePrefix)
	if err != nil {
		return s, usageErrorf("ledger.table_prefix: %w", err)
	}
	if !c.legacy() {
		return s, nil
	}
	s, err = s.WithColumns(partition.Columns(c.Ledger.Columns))
	if err != nil {
		return s, usageErrorf("ledger.columns: %w", err)
	}
	return s, nil
}

// legacy reports that the ledger was made by someone else: a column map is given.
func (c *Config) legacy() bool { return c.Ledger.Columns != (ColumnConfig{}) }

// requireOwnLedger refuses what cannot be done on a ledger made by someone else.
func (c *Config) requireOwnLedger(what string) error {
	if !c.legacy() {
		return nil
	}
	return usageErrorf("%s does not work on a ledger made by someone else (ledger.columns is set)", what)
}

// ledgerDB opens the ledger's server for looking and operating, with the naming of its tables.
func (a *app) ledgerDB(ctx context.Context) (*sql.DB, partition.Scheme, error) {
	cfg, err := a.Config()
	if err != nil {
		return nil, partition.Scheme{}, err
	}
	scheme, err := cfg.scheme()
	if err != nil {
		return nil, scheme, err
	}
	db, err := a.DB(ctx)
	return db, scheme, err
}

// WritableDB is DB for a command that is about to write by itself: a replica, or a server in read-only mode, is refused also
// where this user may write there all the same.
func (a *app) WritableDB(ctx context.Context) (*sql.DB, error) {
	db, err := a.DB(ctx)
	if err != nil {
		return nil, err
	}
	server, err := mysqlx.Inspect(ctx, db)
	if err != nil {
		return nil, err
	}
	return db, server.RequireWritable()
}

// Manager opens the ledger's months.
func (a *app) Manager(ctx context.Context) (*partition.Manager, error) {
	db, scheme, err := a.ledgerDB(ctx)
	if err != nil {
		return nil, err
	}
	return partition.NewManager(db, scheme, a.config.Location()), nil
}

// Store opens the ledger for a guard.
func (a *app) Store(ctx context.Context) (*ledger.Store, error) {
	read, scheme, err := a.ledgerDB(ctx)
	if err != nil {
		return nil, err
	}
	tx, err := a.GuardDB(ctx)
	if err != nil {
		return nil, err
	}
	return ledger.NewStore(tx, read, scheme), nil
}

// Filter opens the configured Redis as a guard's filter. It must answer once: a run that starts blind would report
// nothing but degraded records.
func (a *app) Filter(ctx context.Context) (*ledger.Filter, error) {
	client, err := a.Redis(ctx)
	if err != nil {
		return nil, err
	}
	return a.filterOn(client)
}

// filterOn is the configured filter over a client.
func (a *app) filterOn(client redis.UniversalClient) (*ledger.Filter, error) {
	r := &a.config.Redis
	template, err := ledger.ParseKeyTemplate(r.Key)
	if err != nil {
		return nil, usageErrorf("redis.key: %w", err)
	}
	f, err := ledger.NewFilter(client, ledger.FilterOptions{
		Template: template, Lease: r.Lease, CompletedTTL: r.CompletedTTL, Timeout: r.Timeout, Bare: r.Markers == markersBare, Now: a.now,
	})
	if err != nil {
		return nil, usageErrorf("redis: %w", err)
	}
	return f, nil
}

// record notes a run that may write in t_idempotent_run, and returns what notes its end. A ledger without that table is
// no reason to leave an incident waiting: the run goes on, and says so.
func (a *app) record(ctx context.Context, plan any) (finish func(result string, counts any), err error) {
	db, err := a.DB(ctx)
	if err != nil {
		return nil, err
	}
	log := runlog.New(db)
	host, _ := os.Hostname() // an unnamed machine is recorded as such
	run := runlog.Run{
		Prefix: a.config.Ledger.TablePrefix, Command: a.command, Args: strings.Join(a.args, " "), Who: userName(), Host: host, Version: version(), Plan: plan,
	}
	id, err := log.Begin(ctx, run)
	if errors.Is(err, runlog.ErrNoTable) && a.config.legacy() && log.Ensure(ctx) == nil {
		id, err = log.Begin(ctx, run) // no other command makes the table beside a ledger of someone else
	}
	switch {
	case errors.Is(err, runlog.ErrNoTable):
		a.log().Warn("this run is not recorded: the run table is missing (idemctl partition create --execute makes it beside a ledger of its own)")
		return func(string, any) {}, nil
	case err != nil:
		return nil, fmt.Errorf("%s: %w", a.command, err)
	}
	return func(result string, counts any) {
		if err := log.Finish(ctx, id, result, counts); err != nil {
			a.log().Warn("the end of this run is not recorded", "error", err)
		}
	}, nil
}

// redactArgs is a command line without the secrets that a URL or DSN in it may carry.
func redactArgs(args []string) []string {
	hidden := make([]string, len(args))
	for i, arg := range args {
		name, value, joined := strings.Cut(arg, "=")
		if !joined && i > 0 {
			name, value = args[i-1], arg
		}
		switch name {
		case "--dsn":
			value = mysqlx.Redact(value)
		case "--redis-url":
			value = redactURL(value)
		default:
			hidden[i] = arg
			continue
		}
		hidden[i] = value
		if joined {
			hidden[i] = name + "=" + value
		}
	}
	return hidden
}

func userName() string {
	u, err := user.Current()
	if err != nil {
		return "?"
	}
	return u.Username
}
