package lab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// Schema is the database that a lab makes for its user.
const Schema = "shop"

// TablePrefix is the ledger's table prefix in a lab's configuration.
const TablePrefix = "t_idempotent_flow"

// What Options.DB and Options.Kafka may be.
const (
	DBAuto        = "auto" // MariaDB if there is one, else MySQL
	DBMariaDB     = "mariadb"
	DBMySQL       = "mysql"
	KafkaEmbedded = "embedded"
	KafkaApache   = "apache"
)

// Options shape a lab.
type Options struct {
	Host Host
	// DB is auto (also when empty), mariadb or mysql.
	DB string
	// Kafka is embedded (also when empty) or apache.
	Kafka string
	// Dir is the folder that the lab's own temporary folder is made in. Empty: the system's.
	Dir string
	// Logger hears what is started. Nil: nobody.
	Logger *slog.Logger
}

// Lab is a set of running servers.
type Lab struct {
	// DSN points at the schema shop, which is empty.
	DSN      string
	RedisURL string
	Brokers  []string
	// What runs, for people: "MariaDB 10.11.19", "Redis 7.0.15", "kfake (embedded)".
	DBName, RedisName, KafkaName string
	// The servers themselves, for those who stop or stall one.
	DB, Redis, Kafka *Server

	dir string
}

// OptionError is an option that the lab does not know.
type OptionError struct {
	Option, Value string
	// Known lists what it may be.
	Known []string
}

func (e *OptionError) Error() string {
	return fmt.Sprintf("lab: %s is %q; it may be %s", e.Option, e.Value, strings.Join(e.Known, ", "))
}

// Start starts a database, a Redis and a Kafka at the same time, and returns when all answer. When one does not come up
// the others are ended again, and the error (a [*StartError] or [*NotFoundError] inside) shows that server's log.
func Start(ctx context.Context, opts Options) (_ *Lab, err error) {
	database, kafka, err := opts.launchers()
	if err != nil {
		return nil, err
	}
	l := &Lab{}
	l.dir, err = tempDir(opts.Dir, "idemctl-lab-")
	if err != nil {
		return nil, fmt.Errorf("making the lab's folder: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	launch := LaunchOptions{Host: opts.Host, Dir: l.dir, Logger: opts.Logger}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) { l.DB, err = database(gctx, launch); return err })
	g.Go(func() (err error) { l.Redis, err = AnyRedis(gctx, launch); return err })
	g.Go(func() (err error) { l.Kafka, err = kafka(gctx, launch); return err })
	if err := g.Wait(); err != nil {
		return nil, err
	}
	l.DSN, l.RedisURL, l.Brokers = l.DB.DSN(Schema), l.Redis.URL(), l.Kafka.Brokers()
	l.DBName, l.RedisName, l.KafkaName = l.DB.Name, l.Redis.Name, l.Kafka.Name
	if err := createSchema(ctx, l.DB.DSN("mysql"), Schema); err != nil {
		return nil, err
	}
	return l, nil
}

type launcher func(context.Context, LaunchOptions) (*Server, error)

func (o Options) launchers() (database, kafka launcher, err error) {
	switch o.DB {
	case "", DBAuto:
		database = AnyDatabase
	case DBMariaDB:
		database = MariaDB
	case DBMySQL:
		database = MySQL
	default:
		return nil, nil, &OptionError{Option: "db", Value: o.DB, Known: []string{DBAuto, DBMariaDB, DBMySQL}}
	}
	switch o.Kafka {
	case "", KafkaEmbedded:
		kafka = EmbeddedKafka
	case KafkaApache:
		kafka = ApacheKafka
	default:
		return nil, nil, &OptionError{Option: "kafka", Value: o.Kafka, Known: []string{KafkaEmbedded, KafkaApache}}
	}
	return database, kafka, nil
}

// AnyDatabase starts a MariaDB if this machine has one, else a MySQL.
func AnyDatabase(ctx context.Context, opts LaunchOptions) (*Server, error) {
	s, err := MariaDB(ctx, opts)
	if !errors.Is(err, ErrNotFound) {
		return s, err
	}
	s, err = MySQL(ctx, opts)
	if errors.Is(err, ErrNotFound) {
		return nil, &NotFoundError{Server: "MariaDB or MySQL", Hint: hint(KindMariaDB, "")}
	}
	return s, err
}

// AnyRedis starts a Redis if this machine has one, else a Valkey.
func AnyRedis(ctx context.Context, opts LaunchOptions) (*Server, error) {
	s, err := Redis(ctx, opts)
	if !errors.Is(err, ErrNotFound) {
		return s, err
	}
	s, err = Valkey(ctx, opts)
	if errors.Is(err, ErrNotFound) {
		return nil, &NotFoundError{Server: "Redis or Valkey", Hint: hint(KindRedis, "")}
	}
	return s, err
}

func createSchema(ctx context.Context, dsn, schema string) error {
	db, err := mysqlx.Open(mysqlx.Options{DSN: dsn, MaxOpen: 1})
	if err != nil {
		return fmt.Errorf("creating schema %s: %w", schema, err)
	}
	_, err = db.ExecContext(ctx, "CREATE DATABASE `"+schema+"`")
	if err := errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("creating schema %s: %w", schema, err)
	}
	return nil
}

// Close ends all servers and removes their data.
func (l *Lab) Close() error {
	var errs []error
	for _, s := range []*Server{l.Kafka, l.Redis, l.DB} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	if err := os.RemoveAll(l.dir); err != nil {
		errs = append(errs, fmt.Errorf("removing the lab's folder: %w", err))
	}
	return errors.Join(errs...)
}

// Config is the configuration that points idemctl at the lab, as YAML. A handlers section may be put behind it.
func (l *Lab) Config() string { return l.ConfigIn("") }

// ConfigIn is Config with the time zone of the ledger's months; empty: the default one.
func (l *Lab) ConfigIn(zone string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# A throw-away lab: %s, %s, %s.\n", l.DBName, l.RedisName, l.KafkaName)
	fmt.Fprintf(&b, "ledger:\n  dsn: %s\n  table_prefix: %s\n", l.DSN, TablePrefix)
	if zone != "" {
		fmt.Fprintf(&b, "  time_zone: %s\n", zone)
	}
	fmt.Fprintf(&b, "redis:\n  url: %s\n", l.RedisURL)
	fmt.Fprintf(&b, "kafka:\n  brokers: [%s]\n", strings.Join(l.Brokers, ", "))
	return b.String()
}
