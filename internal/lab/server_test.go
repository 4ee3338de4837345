package lab_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemctl/idemctl/internal/lab"
	"github.com/idemctl/idemctl/internal/mysqlx"
)

// serverMake is one kind of server under test: put stores something, get looks for it.
type serverMake struct {
	kind     lab.Kind
	start    launcher
	optional bool // not every machine can have it
	volatile bool // forgets everything when it is stopped
	put, get func(context.Context, *lab.Server) error
}

var errGone = errors.New("what was put is not there")

func serverMakes() []serverMake {
	return []serverMake{
		{kind: lab.KindMariaDB, start: lab.MariaDB, put: putSQL, get: getSQL},
		{kind: lab.KindMySQL, start: lab.MySQL, optional: true, put: putSQL, get: getSQL},
		{kind: lab.KindRedis, start: lab.Redis, volatile: true, put: putRedis, get: getRedis},
		{kind: lab.KindValkey, start: lab.Valkey, optional: true, volatile: true, put: putRedis, get: getRedis},
		{kind: lab.KindKafka, start: lab.ApacheKafka, optional: true, put: putKafka, get: getKafka},
		{kind: lab.KindEmbedded, start: lab.EmbeddedKafka, put: putKafka, get: getKafka},
	}
}

// Every server answers when it is handed out, keeps its data and port over a stop, a kill and a restart, can be stalled,
// and leaves nothing behind.
func TestServerLife(t *testing.T) {
	t.Parallel()
	for _, m := range serverMakes() {
		t.Run(string(m.kind), func(t *testing.T) {
			t.Parallel()
			dir := folder(t)
			s, err := m.start(t.Context(), lab.LaunchOptions{Host: host(), Dir: dir, Durable: true})
			if m.optional && errors.Is(err, lab.ErrNotFound) {
				t.Skipf("not every machine has it: %v", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			if !strings.HasPrefix(s.Name, string(m.kind)) {
				t.Errorf("a %s calls itself %q", m.kind, s.Name)
			}
			addr := s.Addr
			if err := m.put(t.Context(), s); err != nil {
				t.Fatalf("a server that was handed out does not work: %v", err)
			}
			if m.kind == lab.KindEmbedded {
				if err := s.Pause(); !errors.Is(err, lab.ErrEmbedded) {
					t.Errorf("pausing it: %v, want ErrEmbedded", err)
				}
			} else {
				ownGroup(t, s)
				stall(t, m, s)
			}
			for _, end := range []struct {
				how string
				f   func() error
			}{{"stop", s.Stop}, {"kill", s.Kill}} {
				if err := end.f(); err != nil {
					t.Fatalf("%s: %v", end.how, err)
				}
				if err := end.f(); err != nil {
					t.Errorf("%s again: %v", end.how, err)
				}
				if s.PID() != 0 {
					t.Errorf("after %s it has process %d", end.how, s.PID())
				}
				if err := m.get(t.Context(), s); err == nil || errors.Is(err, errGone) {
					t.Fatalf("after %s it still answers: %v", end.how, err)
				}
				if m.kind != lab.KindEmbedded {
					if err := s.Pause(); !errors.Is(err, lab.ErrStopped) {
						t.Errorf("pausing it after %s: %v, want ErrStopped", end.how, err)
					}
				}
				if err := s.Restart(t.Context()); err != nil {
					t.Fatalf("restart after %s: %v", end.how, err)
				}
				if s.Addr != addr {
					t.Errorf("after a restart it listens on %s, was %s", s.Addr, addr)
				}
				if err := m.get(t.Context(), s); m.volatile != errors.Is(err, errGone) || !m.volatile && err != nil {
					t.Errorf("after %s and restart: %v", end.how, err)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			empty(t, dir)
		})
	}
}

// ownGroup: a Ctrl-C in the terminal must reach only us, so that we end the servers in order.
func ownGroup(t *testing.T, s *lab.Server) {
	t.Helper()
	if group, err := syscall.Getpgid(s.PID()); err != nil || group != s.PID() {
		t.Errorf("process %d is in group %d (%v)", s.PID(), group, err)
	}
}

// stall: a paused server answers nothing, a resumed one everything; a paused one can be stopped.
func stall(t *testing.T, m serverMake, s *lab.Server) {
	t.Helper()
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := m.get(ctx, s); err == nil {
		t.Error("a paused server answers")
	}
	if err := s.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := m.get(t.Context(), s); err != nil {
		t.Errorf("a resumed server does not answer: %v", err)
	}
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
}

func putSQL(ctx context.Context, s *lab.Server) error {
	return sqlExec(ctx, s, "CREATE DATABASE kept")
}

func getSQL(ctx context.Context, s *lab.Server) error {
	err := sqlExec(ctx, s, "USE kept")
	if mysqlx.Number(err) == mysqlx.ErrBadDB {
		return errGone
	}
	return err
}

func sqlExec(ctx context.Context, s *lab.Server, query string) error {
	db, err := mysqlx.Open(mysqlx.Options{DSN: s.DSN("mysql")})
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, query)
	return errors.Join(err, db.Close())
}

func redisClient(s *lab.Server) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1, ContextTimeoutEnabled: true})
}

func putRedis(ctx context.Context, s *lab.Server) error {
	c := redisClient(s)
	return errors.Join(c.Set(ctx, "kept", "1", 0).Err(), c.Close())
}

func getRedis(ctx context.Context, s *lab.Server) error {
	c := redisClient(s)
	err := c.Get(ctx, "kept").Err()
	if cerr := c.Close(); cerr != nil {
		return cerr
	}
	if errors.Is(err, redis.Nil) {
		return errGone
	}
	return err
}

func putKafka(ctx context.Context, s *lab.Server) error {
	c, err := kgo.NewClient(kgo.SeedBrokers(s.Brokers()...))
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := kadm.NewClient(c).CreateTopic(ctx, 1, 1, nil, "kept"); err != nil {
		return err
	}
	return c.ProduceSync(ctx, &kgo.Record{Topic: "kept", Value: []byte("1")}).FirstErr()
}

func getKafka(ctx context.Context, s *lab.Server) error {
	c, err := kgo.NewClient(kgo.SeedBrokers(s.Brokers()...), kgo.RequestRetries(0))
	if err != nil {
		return err
	}
	defer c.Close()
	ends, err := kadm.NewClient(c).ListEndOffsets(ctx, "kept")
	if err != nil {
		return err
	}
	if o, ok := ends.Lookup("kept", 0); !ok || o.Err != nil || o.Offset != 1 {
		return errGone
	}
	return nil
}

// A mistyped topic must be an error, not a new topic.
func TestKafkaMakesNoTopicByItself(t *testing.T) {
	t.Parallel()
	for _, start := range []launcher{lab.EmbeddedKafka, lab.ApacheKafka} {
		s, err := start(t.Context(), lab.LaunchOptions{Host: host(), Dir: folder(t)})
		if errors.Is(err, lab.ErrNotFound) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		c, err := kgo.NewClient(kgo.SeedBrokers(s.Brokers()...), kgo.AllowAutoTopicCreation(), kgo.UnknownTopicRetries(1))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		if err := c.ProduceSync(t.Context(), &kgo.Record{Topic: "mistyped", Value: []byte("1")}).FirstErr(); err == nil {
			t.Errorf("%s made a topic that was only mentioned", s.Name)
		}
	}
}

// The servers' clocks and zones are what the ledger expects of a server with bad defaults at least: UTC.
func TestDatabaseSettings(t *testing.T) {
	t.Parallel()
	s, err := lab.AnyDatabase(t.Context(), lab.LaunchOptions{Host: host(), Dir: folder(t), Args: []string{"--innodb-lock-wait-timeout=7"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	db, err := mysqlx.Open(mysqlx.Options{DSN: s.DSN("mysql")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var zone, bind string
	var flush, wait int
	err = db.QueryRowContext(t.Context(), `SELECT @@GLOBAL.time_zone, @@bind_address, @@innodb_flush_log_at_trx_commit, @@innodb_lock_wait_timeout`).
		Scan(&zone, &bind, &flush, &wait)
	if err != nil {
		t.Fatal(err)
	}
	if zone != "+00:00" || bind != "127.0.0.1" || flush != 1 || wait != 7 {
		t.Errorf("zone %s, bind address %s, flush %d, lock wait %d; want +00:00, 127.0.0.1, 1 and the 7 asked for", zone, bind, flush, wait)
	}
}

// Servers end with the process that started them, also when that is killed and can do nothing any more.
func TestServersDieWithParent(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends a child with its parent")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), parentEnv+"="+folder(t))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pids := map[string]int{}
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "ready" {
		name, pid, ok := strings.Cut(lines.Text(), " = ")
		if !ok {
			t.Errorf("the parent says: %s", lines.Text())
			continue
		}
		if pids[name], err = strconv.Atoi(pid); err != nil {
			t.Error(err)
		}
	}
	for name, pid := range pids {
		if !alive(pid) {
			t.Errorf("%s is not running before its parent is killed", name)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed, as it must be
	if len(pids) < 2 {
		t.Fatalf("the parent started %v only", pids)
	}
	for name, pid := range pids {
		eventually(t, name+" ended with its parent", func() bool { return !alive(pid) })
	}
}
