package testenv

import (
	"context"
	"io"
	"log/slog"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/idemctl/idemctl/internal/lab"
)

// OwnRedisCluster starts a Redis Cluster of three masters for this test alone, with a client that is closed with the test.
func OwnRedisCluster(tb testing.TB) (*lab.RedisCluster, *redis.ClusterClient) {
	tb.Helper()
	c := ownSet(tb, lab.StartRedisCluster)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs(), ContextTimeoutEnabled: true})
	tb.Cleanup(func() { _ = client.Close() })
	return c, client
}

// OwnRedisSentinel starts a master, a replica and a sentinel for this test alone, with a client that asks the sentinel who
// the master is and is closed with the test.
func OwnRedisSentinel(tb testing.TB) (*lab.RedisSentinel, *redis.Client) {
	tb.Helper()
	s := ownSet(tb, lab.StartRedisSentinel)
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: lab.SentinelMaster, SentinelAddrs: []string{s.Sentinel.Addr}, ContextTimeoutEnabled: true,
	})
	tb.Cleanup(func() { _ = client.Close() })
	return s, client
}

// ownSet starts servers that belong together, for one test.
func ownSet[S io.Closer](tb testing.TB, start func(context.Context, lab.LaunchOptions) (S, error)) S {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), startTimeout)
	defer cancel()
	s, err := start(ctx, lab.LaunchOptions{Host: host(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		tb.Fatalf("servers of the test's own: %v", err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("ending the test's own servers: %v", err)
		}
	})
	return s
}
