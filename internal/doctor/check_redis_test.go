package doctor

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/partition"
)

func ownRedis(t *testing.T) *redis.Client {
	t.Helper()
	opts, err := redis.ParseURL(testenv.OwnRedis(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(opts)
	t.Cleanup(func() { client.Close() })
	return client
}

func do(t *testing.T, c redis.UniversalClient, words ...any) {
	t.Helper()
	if err := c.Do(t.Context(), words...).Err(); err != nil {
		t.Fatalf("%v: %v", words, err)
	}
}

// Settings are changed on a Redis of the test's own. hazard G14
func TestRedisSettings(t *testing.T) {
	t.Parallel()
	client := ownRedis(t)
	c := setup(t)
	c.Redis = client

	expect(t, check(t, c, "redis.eviction"), OK, "maxmemory-policy noeviction, maxmemory unlimited, evicted_keys 0")
	do(t, client, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	expect(t, check(t, c, "redis.eviction"), Warn, "maxmemory-policy allkeys-lru, maxmemory unlimited, evicted_keys 0")
	do(t, client, "CONFIG", "SET", "maxmemory", "3mb")
	value := string(make([]byte, 10_000))
	for i := range 400 {
		do(t, client, "SET", fmt.Sprint("k", i), value)
	}
	r := check(t, c, "redis.eviction")
	expect(t, r, Warn, "maxmemory 3.00M")
	if n := client.Info(t.Context(), "stats").Val(); n == "" || r.Why[:len("It has happened")] != "It has happened" {
		t.Errorf("keys were evicted, and it says %q", r.Why)
	}
	c.Bare = true // then somebody trusts Redis alone
	expect(t, check(t, c, "redis.eviction"), Fail, "evicted_keys ")
	do(t, client, "CONFIG", "SET", "maxmemory-policy", "noeviction")
	expect(t, check(t, c, "redis.eviction"), Fail, "under an earlier policy")
	do(t, client, "CONFIG", "RESETSTAT")
	expect(t, check(t, c, "redis.eviction"), Warn, "of maxmemory used")
	do(t, client, "CONFIG", "SET", "maxmemory", "0")
	expect(t, check(t, c, "redis.eviction"), OK, "noeviction")

	expect(t, check(t, c, "redis.persistence"), Warn, `appendonly no, save ""`)
	do(t, client, "CONFIG", "SET", "save", "3600 1")
	expect(t, check(t, c, "redis.persistence"), OK, `save "3600 1"`)
	do(t, client, "CONFIG", "SET", "save", "")
	do(t, client, "CONFIG", "SET", "appendonly", "yes")
	expect(t, check(t, c, "redis.persistence"), OK, "appendonly yes")
	expect(t, check(t, c, "redis.replicas"), OK, "role master, 0 replicas")
}

// A managed Redis shows no settings; what INFO says is enough not to warn of what is not known.
func TestPersistenceNotShown(t *testing.T) {
	t.Parallel()
	if bad := judgePersistence(node{save: unreadable, info: map[string]string{"aof_enabled": "0"}}); len(bad) != 0 {
		t.Errorf("%+v", bad)
	}
	bad := judgePersistence(node{save: "900 1", info: map[string]string{"rdb_last_bgsave_status": "err"}})
	if len(bad) != 1 || bad[0].Status != Fail {
		t.Errorf("%+v", bad)
	}
}

// A replica is told from its master, from both sides.
func TestReplicas(t *testing.T) {
	t.Parallel()
	master, replica := ownRedis(t), ownRedis(t)
	c := setup(t)
	do(t, replica, "REPLICAOF", "127.0.0.1", master.Options().Addr[len("127.0.0.1:"):])
	c.Redis = replica
	expect(t, check(t, c, "redis.replicas"), Fail, "role slave of 127.0.0.1")
	c.Redis = master
	await(t, func() bool {
		return check(t, c, "redis.replicas").Status == OK && check(t, c, "redis.replicas").Read == "role master, 1 replica, none more than 10s behind"
	})

	behind := node{info: map[string]string{"role": "master", "connected_slaves": "2", "slave0": "ip=10.0.0.1,port=6379,state=online,offset=1,lag=1", "slave1": "ip=10.0.0.2,port=6379,state=online,offset=1,lag=60"}}
	if bad := judgeReplicas(behind); len(bad) != 1 || bad[0].Read != "replica 10.0.0.2:6379 online, lag 60 s" {
		t.Errorf("%+v", bad)
	}
}

// await polls a condition.
func await(t *testing.T, ready func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if ready() {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatal("it never came")
		case <-tick.C:
		}
	}
}

// hazards G1, G27, C5
func TestMarkers(t *testing.T) {
	t.Parallel()
	space := testenv.Redis(t)
	c := on(t, testenv.MySQL(t))
	c.Redis, c.KeyTemplate = space.Client, space.Prefix+"{biz_type}:{order_id}"
	cat, err := partition.LoadCatalog(t.Context(), c.DB, c.Scheme)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, check(t, c, "redis.ttl"), OK, "0 markers, all there are")
	expect(t, check(t, c, "redis.markers"), OK, "0 markers, all there are: none from another writer")
	set := func(order, value string, ttl time.Duration) string {
		name := space.Prefix + "COUPON:" + order
		if err := space.Client.Set(t.Context(), name, value, ttl).Err(); err != nil {
			t.Fatal(err)
		}
		return name
	}
	set("1", "COMPLETED:"+cat.LedgerID, time.Hour)
	set("2", "PROCESSING:owner", time.Minute)
	expect(t, check(t, c, "redis.ttl"), OK, "2 markers")
	expect(t, check(t, c, "redis.markers"), OK, "2 markers")
	for _, step := range []struct {
		order, value string
		ttl          time.Duration
		check        string
		want         Status
		read         string
	}{
		{"3", "COMPLETED:" + cat.LedgerID, 0, "redis.ttl", Warn, "are COMPLETED without TTL"},
		{"3", "PROCESSING:owner", 0, "redis.ttl", Fail, "are PROCESSING without TTL"},
		{"3", "PROCESSING:owner", time.Hour, "redis.markers", Fail, "are PROCESSING for longer than a lease (2m)"},
		{"3", "PROCESSING", time.Minute, "redis.markers", Warn, "are a bare PROCESSING"},
		{"3", "COMPLETED", time.Minute, "redis.markers", Warn, "are a bare COMPLETED"},
		{"3", "COMPLETED:another", time.Minute, "redis.markers", Warn, "carry another ledger's id"},
		{"3", "done", time.Minute, "redis.markers", Warn, "are no markers"},
	} {
		name := set(step.order, step.value, step.ttl)
		r := check(t, c, step.check)
		expect(t, r, step.want, step.read)
		expect(t, r, step.want, "1 of 3 sampled")
		expect(t, r, step.want, "such as "+name)
	}
	c.Bare = true
	set("3", "COMPLETED", time.Minute)
	set("4", "PROCESSING", time.Minute)
	expect(t, check(t, c, "redis.markers"), OK, "4 markers")

	do(t, space.Client, "LPUSH", space.Prefix+"COUPON:5", "a list")
	expect(t, check(t, c, "redis.markers"), Warn, "1 of 5 sampled are no markers")
	do(t, space.Client, "DEL", space.Prefix+"COUPON:5")
	do(t, space.Client, "SET", space.Prefix+"something-else", "x")
	expect(t, check(t, c, "redis.markers"), Warn, "1 of 5 sampled keys fit no key template")
}

// Names are looked for as they are: a prefix with wildcards in it matches itself alone.
func TestGlobQuote(t *testing.T) {
	t.Parallel()
	space := testenv.Redis(t)
	c := setup(t)
	c.Redis, c.KeyTemplate = space.Client, space.Prefix+"[a*]:{biz_type}:{order_id}"
	do(t, space.Client, "SET", space.Prefix+"[a*]:COUPON:1", "PROCESSING", "EX", "60")
	do(t, space.Client, "SET", space.Prefix+"ab:COUPON:2", "PROCESSING", "EX", "60")
	expect(t, check(t, c, "redis.markers"), Warn, "1 of 1 sampled are a bare PROCESSING")
}

// Every master of a cluster is asked, and named (hazard C1).
func TestRedisCluster(t *testing.T) {
	t.Parallel()
	_, client := testenv.OwnRedisCluster(t)
	c := setup(t)
	c.Redis, c.KeyTemplate = client, "m:{biz_type}:{order_id}"
	for i := range 30 { // spread over all nodes
		do(t, client, "SET", fmt.Sprint("m:COUPON:", i), "COMPLETED:x")
	}
	expect(t, check(t, c, "redis.ttl"), Warn, "30 of 30 sampled markers are COMPLETED without TTL")
	expect(t, check(t, c, "redis.eviction"), OK, "noeviction")
	var addr string
	var once sync.Once
	if err := client.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
		var err error
		once.Do(func() {
			addr = node.Options().Addr
			err = node.ConfigSet(ctx, "maxmemory-policy", "volatile-lru").Err()
		})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	expect(t, check(t, c, "redis.eviction"), Warn, addr+": maxmemory-policy volatile-lru")
	expect(t, check(t, c, "redis.replicas"), OK, "role master")
}
