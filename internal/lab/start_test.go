package lab_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/idemctl/idemctl/internal/lab"
	"github.com/idemctl/idemctl/internal/mysqlx"
)

// A server that does not come up is reported with its own words, and leaves neither a process nor a folder.
func TestFailedStart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		start launcher
		opts  lab.LaunchOptions
		log   string // what its log must show
	}{
		{"MariaDB, unknown option", lab.MariaDB, lab.LaunchOptions{Host: host(), Args: []string{"--no-such-option=1"}}, "no-such-option"},
		{"Redis, unknown option", lab.Redis, lab.LaunchOptions{Host: host(), Args: []string{"--no-such-option", "1"}}, "no-such-option"},
		{"a program that fails", lab.Redis, lab.LaunchOptions{Host: fakeServer(t, "echo cannot: disk on fire >&2; exit 7")}, "disk on fire"},
		{"Redis, port taken", lab.Redis, lab.LaunchOptions{Host: host(), Args: []string{"--port", takenPort(t)}}, "in use"},
		{"MariaDB, port taken", lab.MariaDB, lab.LaunchOptions{Host: host(), Args: []string{"--port=" + takenPort(t)}}, "in use"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := folder(t)
			c.opts.Dir = dir
			s, err := c.start(t.Context(), c.opts)
			if err == nil {
				t.Fatalf("it started: %v", s.Close())
			}
			var se *lab.StartError
			if !errors.As(err, &se) {
				t.Fatalf("the error is no StartError: %v", err)
			}
			if !strings.Contains(se.Log, c.log) || !strings.Contains(err.Error(), c.log) {
				t.Errorf("the log of the server is not shown (want %q): %v", c.log, err)
			}
			empty(t, dir)
		})
	}
}

// takenPort is a port that somebody listens on for as long as the test runs.
func takenPort(t *testing.T) string {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatalf("%v is no TCP address", l.Addr())
	}
	return strconv.Itoa(addr.Port)
}

// A server that runs and never answers is given up when the context ends, and killed.
func TestStartIsBoundedByContext(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := lab.Redis(ctx, lab.LaunchOptions{Host: fakeServer(t, "echo deaf and mute; exec sleep 600"), Dir: dir})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "deaf and mute") {
		t.Errorf("want a deadline and the server's words, got %v", err)
	}
	empty(t, dir)
}

func TestNotFound(t *testing.T) {
	t.Parallel()
	nowhere := lab.Host{Path: []string{t.TempDir()}, Cache: t.TempDir()}
	for kind, start := range map[lab.Kind]launcher{
		lab.KindMariaDB: lab.MariaDB, lab.KindMySQL: lab.MySQL, lab.KindRedis: lab.Redis, lab.KindValkey: lab.Valkey, lab.KindKafka: lab.ApacheKafka,
		"MariaDB or MySQL": lab.AnyDatabase, "Redis or Valkey": lab.AnyRedis,
	} {
		_, err := start(t.Context(), lab.LaunchOptions{Host: nowhere, Dir: t.TempDir()})
		if !errors.Is(err, lab.ErrNotFound) || !strings.Contains(err.Error(), string(kind)) || !strings.Contains(err.Error(), "make deps") {
			t.Errorf("%s: the error must name it and say what to do: %v", kind, err)
		}
	}
	if _, err := host().Find(t.Context(), lab.KindMariaDB, "9999"); !errors.Is(err, lab.ErrNotFound) {
		t.Errorf("a version that nobody has: %v", err)
	}
}

func TestLab(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	l, err := lab.Start(t.Context(), lab.Options{Host: host(), Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	db, err := mysqlx.Open(mysqlx.Options{DSN: l.DSN})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var schema string
	var tables int
	err = db.QueryRowContext(t.Context(), "SELECT DATABASE(), (SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE())").Scan(&schema, &tables)
	if err != nil || schema != "shop" || tables != 0 {
		t.Errorf("schema %q with %d tables (%v), want an empty shop", schema, tables, err)
	}
	want := "ledger:\n  dsn: " + l.DSN + "\n  table_prefix: t_idempotent_flow\nredis:\n  url: " + l.RedisURL +
		"\nkafka:\n  brokers: [" + l.Brokers[0] + "]\n"
	if !strings.HasSuffix(l.Config(), want) {
		t.Errorf("configuration:\n%s\nwant it to end:\n%s", l.Config(), want)
	}
	for _, name := range []string{l.DBName, l.RedisName, l.KafkaName} {
		if name == "" || !strings.Contains(l.Config(), name) {
			t.Errorf("the configuration does not say that %q runs", name)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	empty(t, dir)
}

// A relative folder is one of the caller's, not of the servers, which run elsewhere.
func TestRelativeFolder(t *testing.T) {
	wd := folder(t)
	t.Chdir(wd)
	s, err := lab.AnyDatabase(t.Context(), lab.LaunchOptions{Host: host(), Dir: "."})
	if err != nil {
		t.Fatal(err)
	}
	if !filepath.IsAbs(s.Dir) || !strings.HasPrefix(s.Dir, wd) {
		t.Errorf("the server's folder is %s, want one in %s", s.Dir, wd)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	empty(t, wd)
}

// One server that fails takes the others down with it, and its log is shown.
func TestLabFailedStart(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	broken := fakeServer(t, "echo disk on fire; exit 7")
	broken.Path = append(broken.Path, host().Path...)
	broken.Cache = host().Cache
	_, err := lab.Start(t.Context(), lab.Options{Host: broken, Dir: dir})
	var se *lab.StartError
	if !errors.As(err, &se) || !strings.Contains(err.Error(), "disk on fire") || !strings.Contains(err.Error(), "Redis") {
		t.Errorf("want Redis' own words, got %v", err)
	}
	empty(t, dir)
}

func TestLabOptions(t *testing.T) {
	t.Parallel()
	for _, o := range []lab.Options{{DB: "postgres"}, {Kafka: "pulsar"}} {
		_, err := lab.Start(t.Context(), o)
		var oe *lab.OptionError
		if !errors.As(err, &oe) || !strings.Contains(err.Error(), oe.Known[0]) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
