package testenv

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idemctl/idemctl/internal/lab"
)

// The variables of the package comment.
const (
	EnvMySQL      = "IDEMCTL_TEST_MYSQL_DSN"
	EnvRedis      = "IDEMCTL_TEST_REDIS_URL"
	EnvKafka      = "IDEMCTL_TEST_KAFKA_BROKERS"
	EnvRequireAll = "IDEMCTL_TEST_REQUIRE_ALL"
)

const (
	// startTimeout bounds the start of one server: ten times what the slowest takes on two busy cores.
	startTimeout = 2 * time.Minute
	// cleanupTimeout bounds what a test's clean-up waits for a server.
	cleanupTimeout = 30 * time.Second
	// contactTimeout bounds the first contact with a configured server.
	contactTimeout = 20 * time.Second
)

// shared is what this test binary has started. It is the one mutable variable of the project: tests of a package have no
// other place in common than the package itself.
var shared environment

// environment starts each server at most once, and knows what it started.
type environment struct {
	mu      sync.Mutex
	slots   map[lab.Kind]*slot
	stopped bool
}

// slot is one server: started by whoever asks first, the others wait.
type slot struct {
	once   sync.Once
	server *lab.Server
	err    error
}

// Main runs the tests of a package and ends what they started. TestMain is `os.Exit(testenv.Main(m))`.
func Main(m *testing.M) int {
	code := m.Run()
	if err := shared.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "testenv:", err) // there is no test left to report it
		return max(code, 1)
	}
	return code
}

func (e *environment) stop() error {
	e.mu.Lock()
	e.stopped = true
	slots := e.slots
	e.slots = nil
	e.mu.Unlock()
	var errs []error
	for _, s := range slots {
		s.once.Do(func() {}) // waits for a start under way
		if s.server != nil {
			errs = append(errs, s.server.Close())
		}
	}
	return errors.Join(errs...)
}

// server returns the shared server of that make, starting it when nobody did yet. Its life is the test binary's, not that
// of the test which happens to ask first.
func (e *environment) server(ctx context.Context, kind lab.Kind) (*lab.Server, error) {
	e.mu.Lock()
	if e.stopped {
		e.mu.Unlock()
		return nil, errors.New("asked for a server after the tests have ended")
	}
	if e.slots == nil {
		e.slots = map[lab.Kind]*slot{}
	}
	s := e.slots[kind]
	if s == nil {
		s = &slot{}
		e.slots[kind] = s
	}
	e.mu.Unlock()
	s.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTimeout)
		defer cancel()
		s.server, s.err = launcher(kind)(ctx, lab.LaunchOptions{Host: host()})
	})
	return s.server, s.err
}

func launcher(kind lab.Kind) func(context.Context, lab.LaunchOptions) (*lab.Server, error) {
	switch kind {
	case lab.KindMariaDB:
		return lab.MariaDB
	case lab.KindMySQL:
		return lab.MySQL
	case lab.KindRedis:
		return lab.Redis
	case lab.KindValkey:
		return lab.Valkey
	case lab.KindKafka:
		return lab.ApacheKafka
	case lab.KindEmbedded:
	}
	return lab.EmbeddedKafka
}

func host() lab.Host { return lab.NewHost(os.Getenv) }

// configured returns the servers that a variable names.
func configured(name string) []string { return strings.Fields(os.Getenv(name)) }

func requireAll() bool { return os.Getenv(EnvRequireAll) == "1" }

// own starts a server for one test, which may stop, stall, flush or reconfigure it.
func own(tb testing.TB, start func(context.Context, lab.LaunchOptions) (*lab.Server, error)) *lab.Server {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), startTimeout)
	defer cancel()
	s, err := start(ctx, lab.LaunchOptions{Host: host(), Durable: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		tb.Fatalf("a server of the test's own: %v", err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("ending the test's own server: %v", err)
		}
	})
	return s
}

// cleanupContext is for clean-up: the test's own context has ended by then.
func cleanupContext(tb testing.TB) (context.Context, context.CancelFunc) {
	tb.Helper()
	return context.WithTimeout(context.WithoutCancel(tb.Context()), cleanupTimeout)
}
