package reconcile

import (
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// waitMaster polls until the sentinel calls this address the master.
func waitMaster(t *testing.T, sentinel *redis.SentinelClient, addr string) {
	t.Helper()
	until(t, "the failover", func() bool {
		got, err := sentinel.GetMasterAddrByName(t.Context(), "idemctl").Result()
		return err == nil && len(got) == 2 && net.JoinHostPort(got[0], got[1]) == addr
	})
}

// until polls a condition.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.NewTimer(time.Minute)
	defer late.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-late.C:
			t.Fatalf("waiting for %s: not within a minute", what)
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
}
