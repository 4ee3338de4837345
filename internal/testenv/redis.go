package testenv

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/idemctl/idemctl/internal/lab"
)

// RedisSpace is a prefix of one test's own. The keys that begin with it are deleted when the test ends.
type RedisSpace struct {
	// URL of the server, in go-redis' form.
	URL string
	// Prefix ends in a colon and holds no byte that is special in a pattern.
	Prefix string
	// Client is closed when the test ends.
	Client *redis.Client
}

// RedisServer is one server that conformance suites run on.
type RedisServer struct {
	// Name as the server calls itself: "Redis 7.0.15".
	Name string
	url  string
}

// Redis gives the test a prefix on the primary server: the first configured one, else this machine's Redis, else its Valkey.
func Redis(tb testing.TB) *RedisSpace {
	tb.Helper()
	return Redises(tb)[0].Space(tb)
}

// Redises are all servers that a conformance suite runs on: the configured ones, else this machine's Redis or, without one,
// Valkey.
func Redises(tb testing.TB) []RedisServer {
	tb.Helper()
	var out []RedisServer
	for _, url := range configured(EnvRedis) {
		name, err := redisName(tb.Context(), url)
		if err != nil {
			tb.Fatalf("%s: %v", EnvRedis, err)
		}
		out = append(out, RedisServer{Name: name, url: url})
	}
	if len(out) > 0 {
		return out
	}
	s, err := shared.server(tb.Context(), lab.KindRedis)
	if errors.Is(err, lab.ErrNotFound) {
		s, err = shared.server(tb.Context(), lab.KindValkey)
	}
	if err != nil {
		tb.Fatalf("a Redis for the test: %v\nRun `make deps`, or name a server in %s.", err, EnvRedis)
	}
	return []RedisServer{{Name: s.Name, url: s.URL()}}
}

// redisName asks a configured server for its name. Errors name its address only: a URL may have a password in it.
func redisName(ctx context.Context, url string) (_ string, err error) {
	opts, err := redis.ParseURL(url)
	if err != nil {
		return "", errors.New("the URL cannot be read; expected redis://host:port/0")
	}
	c := redis.NewClient(opts)
	defer func() { err = errors.Join(err, c.Close()) }()
	ctx, cancel := context.WithTimeout(ctx, contactTimeout)
	defer cancel()
	text, err := c.Info(ctx, "server").Result()
	if err != nil {
		return "", fmt.Errorf("%s does not answer: %w", opts.Addr, err)
	}
	name := "Redis"
	for line := range strings.Lines(text) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch k {
		case "redis_version":
			if name == "Redis" {
				name = "Redis " + v
			}
		case "valkey_version":
			name = "Valkey " + v
		}
	}
	return name, nil
}

// Space gives the test a prefix of its own on this server.
func (s RedisServer) Space(tb testing.TB) *RedisSpace {
	tb.Helper()
	opts, err := redis.ParseURL(s.url)
	if err != nil {
		tb.Fatalf("a prefix on %s: the URL cannot be read", s.Name)
	}
	space := &RedisSpace{URL: s.url, Prefix: "idemtest-" + unique() + ":", Client: redis.NewClient(opts)}
	tb.Cleanup(func() {
		ctx, cancel := cleanupContext(tb)
		defer cancel()
		if err := errors.Join(deletePrefix(ctx, space.Client, space.Prefix), space.Client.Close()); err != nil {
			tb.Errorf("clearing the test's Redis prefix: %v", err)
		}
	})
	return space
}

func deletePrefix(ctx context.Context, c *redis.Client, prefix string) error {
	it := c.Scan(ctx, 0, prefix+"*", 1000).Iterator()
	for it.Next(ctx) {
		if err := c.Unlink(ctx, it.Val()).Err(); err != nil {
			return fmt.Errorf("deleting %s: %w", it.Val(), err)
		}
	}
	if err := it.Err(); err != nil {
		return fmt.Errorf("listing %s*: %w", prefix, err)
	}
	return nil
}

// OwnRedis starts a Redis for this test alone.
func OwnRedis(tb testing.TB) *lab.Server {
	tb.Helper()
	return own(tb, lab.AnyRedis)
}
