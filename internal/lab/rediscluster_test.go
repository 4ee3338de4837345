package lab_test

import (
	"os"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/idemctl/idemctl/internal/lab"
)

// A cluster takes keys of every slot when it is handed out, and leaves nothing behind.
func TestRedisCluster(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	c, err := lab.StartRedisCluster(t.Context(), lab.LaunchOptions{Host: host(), Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
	defer client.Close()
	for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		if err := client.Set(t.Context(), key, key, 0).Err(); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	leftNothing(t, dir)
}

// A sentinel knows master and replica when it is handed out.
func TestRedisSentinel(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	s, err := lab.StartRedisSentinel(t.Context(), lab.LaunchOptions{Host: host(), Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: lab.SentinelMaster, SentinelAddrs: []string{s.Sentinel.Addr}})
	defer client.Close()
	if err := client.Set(t.Context(), "a", "a", 0).Err(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	leftNothing(t, dir)
}

func leftNothing(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
