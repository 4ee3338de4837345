package testenv_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/internal/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// recorder is a test under test: it keeps what would fail it, and runs its clean-up when told.
type recorder struct {
	testing.TB

	ctx      context.Context // testing.T contains one too
	mu       sync.Mutex
	failures []string
	cleanups []func()
}

func (r *recorder) Helper()                  {}
func (r *recorder) Name() string             { return r.TB.Name() }
func (r *recorder) Context() context.Context { return r.ctx }
func (r *recorder) Cleanup(f func())         { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

// errFatal ends the function under test as runtime.Goexit would end a test.
var errFatal = errors.New("fatal")

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	panic(errFatal)
}

// Skipf would be a way not to fail.
func (r *recorder) Skipf(format string, args ...any) {
	r.TB.Fatalf("it skips: "+format, args...)
}

// record runs f as a test and returns it, with its clean-up still to run.
func record(t *testing.T, f func(*recorder)) *recorder {
	t.Helper()
	r := &recorder{TB: t, ctx: t.Context()}
	func() {
		defer func() {
			if p := recover(); p != nil && p != any(errFatal) {
				panic(p)
			}
		}()
		f(r)
	}()
	return r
}

// end runs the clean-up with the context ended, as package testing does.
func (r *recorder) end(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(r.ctx)
	cancel()
	r.ctx = ctx
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
	for _, f := range r.failures {
		t.Errorf("the test under test fails: %s", f)
	}
}

func TestSchemaIsOnesOwnAndDropped(t *testing.T) {
	t.Parallel()
	for _, d := range testenv.Databases(t) {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			outside := d.Schema(t)
			var s *testenv.Schema
			r := record(t, func(r *recorder) { s = d.Schema(r) })
			if s.Name == outside.Name {
				t.Errorf("two tests have the schema %s", s.Name)
			}
			if _, err := s.DB.ExecContext(t.Context(), "CREATE TABLE x (a INT PRIMARY KEY) ENGINE=InnoDB"); err != nil {
				t.Fatal(err)
			}
			// A transaction that somebody left open, as a killed child does, must not keep the schema.
			left, err := mysqlx.Open(mysqlx.Options{DSN: s.DSN, Guard: true})
			if err != nil {
				t.Fatal(err)
			}
			defer left.Close()
			tx, err := left.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			if _, err := tx.ExecContext(t.Context(), "INSERT INTO x VALUES (1)"); err != nil {
				t.Fatal(err)
			}
			r.end(t)
			var n int
			if err := outside.DB.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = ?", s.Name).Scan(&n); err != nil || n != 0 {
				t.Errorf("after the test its schema is still there (%d, %v)", n, err)
			}
			if err := s.DB.PingContext(t.Context()); err == nil {
				t.Error("after the test its pool is still open")
			}
		})
	}
}

func TestPrimaryDatabase(t *testing.T) {
	t.Parallel()
	s := testenv.MySQL(t)
	var schema, zone string
	if err := s.DB.QueryRowContext(t.Context(), "SELECT DATABASE(), @@time_zone").Scan(&schema, &zone); err != nil {
		t.Fatal(err)
	}
	if schema != s.Name || zone != "+00:00" {
		t.Errorf("schema %s in zone %s, want %s and UTC", schema, zone, s.Name)
	}
}

func TestRedisSpaceIsOnesOwnAndEmptied(t *testing.T) {
	t.Parallel()
	outside := testenv.Redis(t)
	mine := outside.Prefix + "stays"
	if err := outside.Client.Set(t.Context(), mine, "1", 0).Err(); err != nil {
		t.Fatal(err)
	}
	var s *testenv.RedisSpace
	r := record(t, func(r *recorder) { s = testenv.Redis(r) })
	for i := range 2500 { // more than one page of a scan
		if err := s.Client.Set(t.Context(), fmt.Sprint(s.Prefix, i), "1", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	r.end(t)
	left, err := outside.Client.Keys(t.Context(), s.Prefix+"*").Result()
	if err != nil || len(left) != 0 {
		t.Errorf("after the test %d of its keys are left (%v)", len(left), err)
	}
	if err := outside.Client.Get(t.Context(), mine).Err(); err != nil {
		t.Errorf("another test's key: %v", err)
	}
	if err := s.Client.Ping(t.Context()).Err(); !errors.Is(err, redis.ErrClosed) {
		t.Errorf("after the test its client is still open: %v", err)
	}
}

func TestTopicIsReadyAndDeleted(t *testing.T) {
	t.Parallel()
	for _, k := range testenv.Kafkas(t) {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			var topic string
			r := record(t, func(r *recorder) { topic = k.Topic(r, 3, map[string]string{"retention.ms": "-1"}) })
			// One attempt for each partition: a topic that is handed out has its leaders.
			c := k.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.UnknownTopicRetries(0), kgo.RecordRetries(0))
			for p := range int32(3) {
				if err := c.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: p, Value: []byte("1")}).FirstErr(); err != nil {
					t.Errorf("partition %d: %v", p, err)
				}
			}
			admin := kadm.NewClient(c)
			configs, err := admin.DescribeTopicConfigs(t.Context(), topic)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, kv := range configs[0].Configs {
				if kv.Key == "retention.ms" {
					got = kv.MaybeValue()
				}
			}
			if got != "-1" {
				t.Errorf("retention.ms is %q, want -1", got)
			}
			r.end(t)
			topics, err := admin.ListTopics(t.Context())
			if err != nil || topics.Has(topic) {
				t.Errorf("after the test its topic is still there (%v)", err)
			}
		})
	}
}

func TestEmbeddedIsKnownByItsClusterID(t *testing.T) {
	own := testenv.OwnKafka(t)
	t.Setenv(testenv.EnvKafka, own.Addr)
	if k := testenv.Kafka(t); !k.Embedded {
		t.Errorf("a configured embedded Kafka is taken for a real one: %+v", k)
	}
}

// A configured server that does not answer fails the test, says which variable and shows no password.
func TestConfiguredServerThatIsAway(t *testing.T) { //nolint:paralleltest // sets the environment, in a loop that the linter does not see into
	away := testenv.OwnRedis(t) // its port is ours, and nobody listens there once it is stopped
	if err := away.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		env, value string
		use        func(*recorder)
	}{
		{testenv.EnvMySQL, "root:s3cret@tcp(" + away.Addr + ")/", func(r *recorder) { testenv.MySQL(r) }},
		{testenv.EnvMySQL, "root:s3cret@tcp(" + away.Addr + ")/", func(r *recorder) { testenv.Databases(r) }},
		{testenv.EnvMySQL, "s3cret", func(r *recorder) { testenv.MySQL(r) }},
		{testenv.EnvRedis, "redis://:s3cret@" + away.Addr + "/0", func(r *recorder) { testenv.Redis(r) }},
		{testenv.EnvRedis, "s3cret:", func(r *recorder) { testenv.Redises(r) }},
		{testenv.EnvKafka, away.Addr, func(r *recorder) { testenv.Kafka(r) }},
		{testenv.EnvKafka, away.Addr, func(r *recorder) { testenv.Kafkas(r) }},
	} {
		t.Setenv(c.env, c.value)
		r := record(t, c.use)
		text := strings.Join(r.failures, "\n")
		if !strings.Contains(text, c.env) {
			t.Errorf("%s=%s: the test does not fail, or does not name the variable: %q", c.env, c.value, text)
		}
		if strings.Contains(text, "s3cret") {
			t.Errorf("%s: the failure shows a password: %q", c.env, text)
		}
	}
}

// Several configured servers are all used by conformance suites.
func TestSeveralConfigured(t *testing.T) {
	a, b := testenv.OwnRedis(t), testenv.OwnRedis(t)
	t.Setenv(testenv.EnvRedis, a.URL()+" "+b.URL())
	all := testenv.Redises(t)
	if len(all) != 2 || all[0].Name != a.Name {
		t.Fatalf("of two configured servers there are %+v", all)
	}
	if got := testenv.Redis(t).URL; got != a.URL() {
		t.Errorf("the primary is %s, want the first, %s", got, a.URL())
	}
	if got := all[1].Space(t).URL; got != b.URL() {
		t.Errorf("the second is %s, want %s", got, b.URL())
	}
}

// Without Kafka's jars the leg on Apache Kafka is left out, unless all are required; a test that asks for one fails, says
// what to do, and never skips.
func TestApacheKafkaIsNotHere(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv(testenv.EnvKafka, "")
	t.Setenv(testenv.EnvRequireAll, "")
	if all := testenv.Kafkas(t); len(all) != 1 || !all[0].Embedded {
		t.Errorf("without its jars there are %+v", all)
	}
	r := record(t, func(r *recorder) { testenv.OwnApacheKafka(r) })
	if text := strings.Join(r.failures, "\n"); !strings.Contains(text, "make deps") {
		t.Errorf("without its jars: %q", text)
	}
}
