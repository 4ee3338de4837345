package reconcile

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/idemctl/idemctl/internal/testenv"
)

// space is a Redis of the test's own as a bench takes it; what is planted goes through the client given beside it.
func ownSpace(t *testing.T, addr string) *testenv.RedisSpace {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = c.Close() })
	return &testenv.RedisSpace{URL: "redis://" + addr + "/0", Prefix: "own:", Client: c}
}

// Every master of a cluster is scanned, each key on its own is read and repaired wherever it lies. hazard C1, C5
func TestCluster(t *testing.T) {
	t.Parallel()
	cluster, client := testenv.OwnRedisCluster(t)
	p := plant(t, testenv.MySQL(t), ownSpace(t, cluster.Masters[0].Addr), client)
	const each = 5
	p.clean(900)
	p.faults(each)
	r := p.reconciler()
	f := p.scan(r)
	p.check(f, p.want)
	var total int64
	for _, m := range f.Masters {
		if m.Keys < 100 {
			t.Errorf("master %s: %d keys", m.Address, m.Keys)
		}
		total += m.Keys
	}
	if len(f.Masters) != 3 || total != f.KeysScanned {
		t.Errorf("%+v", f.Report)
	}
	plan, err := f.Plan(fixable())
	if err != nil {
		t.Fatal(err)
	}
	rep, err := r.Fix(t.Context(), plan, NewUndoFile(filepath.Join(t.TempDir(), "undo")), nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := plan.Total() - 1; rep.Applied() != want { // the list stays
		t.Errorf("applied %d of %d: %+v", rep.Applied(), want, rep)
	}
	p.check(p.scan(r), map[Kind]int64{
		Malformed: 1, Twice: each, FingerprintMismatch: each, AlienKey: each, Unremembered: each, Cold: each,
	})
}

// Slots that move in mid-scan make it incomplete, and nothing is repaired by it. hazard C8
func TestClusterSlotsMove(t *testing.T) {
	t.Parallel()
	cluster, client := testenv.OwnRedisCluster(t)
	p := plant(t, testenv.MySQL(t), ownSpace(t, cluster.Masters[0].Addr), client)
	p.clean(300)
	r := p.reconciler()
	var once sync.Once
	f, err := r.Scan(t.Context(), func(Progress) { once.Do(func() { moveEmptySlot(t, client) }) })
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Complete || !slices.ContainsFunc(f.Gaps, func(g Gap) bool { return g.Code == GapTopology }) {
		t.Errorf("complete %v: %+v", f.Complete, f.Gaps)
	}
	if _, err := f.Plan([]Kind{Phantom}); !isUnsound(err) {
		t.Errorf("planned: %v", err)
	}
}

// moveEmptySlot gives a slot that has no key to another master.
func moveEmptySlot(t *testing.T, client *redis.ClusterClient) {
	t.Helper()
	var mu sync.Mutex
	var masters []*redis.Client
	if err := client.ForEachMaster(t.Context(), func(_ context.Context, c *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		masters = append(masters, c)
		return nil
	}); err != nil {
		t.Error(err)
		return
	}
	slots, err := client.ClusterSlots(t.Context()).Result() //nolint:staticcheck // as the code under test
	if err != nil {
		t.Error(err)
		return
	}
	slices.SortFunc(slots, func(a, b redis.ClusterSlot) int { return a.Start - b.Start })
	for slot := range 5000 { // all of the first master
		n := 0
		for _, m := range masters {
			count, err := m.ClusterCountKeysInSlot(t.Context(), slot).Result()
			if err != nil {
				t.Error(err)
				return
			}
			n += int(count)
		}
		if n > 0 {
			continue
		}
		to := slots[len(slots)-1].Nodes[0]
		for _, m := range masters {
			if err := m.Do(t.Context(), "CLUSTER", "SETSLOT", slot, "NODE", to.ID).Err(); err != nil {
				t.Error(err)
			}
		}
		return
	}
	t.Error("no slot is empty")
}

func isUnsound(err error) bool {
	_, ok := err.(*UnsoundError) //nolint:errorlint // it is returned as it is
	return ok
}

// A master found through a sentinel is scanned and repaired; one that fails over in mid-scan makes it incomplete.
func TestSentinel(t *testing.T) {
	t.Parallel()
	set, client := testenv.OwnRedisSentinel(t)
	p := plant(t, testenv.MySQL(t), ownSpace(t, set.Master.Addr), client)
	const each = 3
	p.clean(100)
	p.faults(each)
	r := p.reconciler()
	f := p.scan(r)
	p.check(f, p.want)
	_, port, _ := net.SplitHostPort(set.Master.Addr)
	if len(f.Masters) != 1 || f.Masters[0].Address != "master on port "+port {
		t.Errorf("%+v", f.Masters)
	}
	plan, err := f.Plan([]Kind{Phantom})
	if err != nil {
		t.Fatal(err)
	}
	rep, err := r.Fix(t.Context(), plan, NewUndoFile(filepath.Join(t.TempDir(), "undo")), nil)
	if err != nil || rep.Applied() != each {
		t.Fatalf("%+v, %v", rep, err)
	}

	// The replica takes over; whatever has got there, the scan does not count as whole.
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: set.Sentinel.Addr})
	defer sentinel.Close()
	var once sync.Once
	f2, err := r.Scan(t.Context(), func(Progress) {
		once.Do(func() {
			if err := sentinel.Failover(t.Context(), "idemctl").Err(); err != nil {
				t.Error(err)
			}
			waitMaster(t, sentinel, set.Replica.Addr)
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	defer f2.Close()
	if f2.Complete {
		t.Errorf("complete: %+v", f2.Report)
	}
	if _, err := f2.Plan([]Kind{Stuck}); !isUnsound(err) {
		t.Errorf("planned: %v, gaps %+v", err, f2.Gaps)
	}
}
