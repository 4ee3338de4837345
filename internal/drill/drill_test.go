package drill

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/idemctl/idemctl/internal/lab"
)

// testServers are one set for all runs of a test: a run has schema, topic and prefix of its own, but a failover and a flush
// are everybody's.
func testServers(t *testing.T) *Servers {
	t.Helper()
	s, err := StartServers(t.Context(), lab.NewHost(os.Getenv), lab.KafkaEmbedded, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// drillOne runs strategies under faults, and checks that every fault of the schedule came.
func drillOne(t *testing.T, s *Servers, seed uint64, strategies []string, faults ...string) map[string]*Result {
	t.Helper()
	st, err := ParseStrategies(strategies)
	if err != nil {
		t.Fatal(err)
	}
	rep, err := Run(t.Context(), s, Options{Orders: 150, Faults: faultsOf(t, faults), Seed: seed, Strategies: st})
	if err != nil {
		t.Fatal(err)
	}
	results := map[string]*Result{}
	for i := range rep.Results {
		r := &rep.Results[i]
		results[r.Strategy] = r
		came := map[Action]int{}
		for _, m := range []map[Action]int{r.Injected, r.Missed} {
			for a, n := range m {
				came[a] += n
			}
		}
		want := map[Action]int{}
		for _, inj := range rep.Schedule {
			want[inj.Action]++
		}
		if !maps.Equal(came, want) {
			t.Errorf("%s: %v came, %v was scheduled", r.Strategy, came, want)
		}
		if r.Unknown != 0 {
			t.Errorf("%s: effects of orders that were never published: %+v", r.Strategy, r.Account)
		}
	}
	return results
}

// wantExact checks a guard's result.
func wantExact(t *testing.T, r *Result) {
	t.Helper()
	if !r.Exact() || r.Parked != 0 || r.Failed {
		t.Errorf("%s, seed %d: %+v, %d parked: %v", r.Strategy, r.Seed, r.Account, r.Parked, r.Notes)
	}
}

// The guard loses and repeats nothing under each fault alone and under all together, one by one and in batches.
func TestGuardIsExact(t *testing.T) { //nolint:tparallel // one set of servers: a failover is everybody's
	t.Parallel()
	s := testServers(t)
	guards := []string{"guard", "guard-batch"}
	for _, f := range Faults() {
		t.Run(string(f), func(t *testing.T) {
			for _, r := range drillOne(t, s, 1, guards, string(f)) {
				wantExact(t, r)
				if len(r.Injected) == 0 {
					t.Errorf("%s: nothing was injected", r.Strategy)
				}
			}
		})
	}
	for seed := range uint64(2) { //nolint:paralleltest // as above
		t.Run(fmt.Sprintf("all, seed %d", seed), func(t *testing.T) {
			for _, r := range drillOne(t, s, seed, guards, All) {
				wantExact(t, r)
			}
		})
	}
}

// Without a fault every strategy is exact: what follows is the faults' doing.
func TestNoFaults(t *testing.T) {
	t.Parallel()
	for name, r := range drillOne(t, testServers(t), 1, nil, None) {
		if !r.Exact() || r.All.Deliveries != r.Orders {
			t.Errorf("%s: %+v, %d deliveries", name, r.Account, r.All.Deliveries)
		}
	}
}

// The other strategies break where they are said to break: a drill that injects nothing could not tell them apart.
func TestOthersBreak(t *testing.T) { //nolint:tparallel // one set of servers: a failover is everybody's
	t.Parallel()
	s := testServers(t)
	const lost, repeated = "lost", "repeated"
	for _, c := range []struct { //nolint:paralleltest // as above
		faults string
		want   map[string]string
	}{
		{string(Redelivery), map[string]string{"naive": repeated, "token": repeated}},
		{string(Crash), map[string]string{"naive": repeated, "token": lost, "redis-only": lost, "two-layer": lost}},
		{string(Rebalance), map[string]string{"naive": repeated}},
		{string(RedisFlush), map[string]string{"token": lost, "redis-only": repeated}},
		{string(RedisFailover), map[string]string{"redis-only": repeated}},
		{string(ForeignCompleted), map[string]string{"redis-only": lost, "two-layer": lost}},
		{string(MySQLFailover), map[string]string{"redis-only": lost, "two-layer": lost}},
		{string(MySQLKill), map[string]string{"naive": repeated, "token": lost, "redis-only": repeated}},
		{string(Burst), map[string]string{"naive": repeated}},
		// Redis forgets, and the row goes into another month than the first one.
		{string(RedisFlush) + " " + string(MonthTurn), map[string]string{"two-layer": repeated}},
	} {
		t.Run(c.faults, func(t *testing.T) {
			for name, r := range drillOne(t, s, 1, slices.Collect(maps.Keys(c.want)), strings.Fields(c.faults)...) {
				switch got := r.Account; {
				case c.want[name] == lost && got.Lost == 0:
					t.Errorf("%s lost nothing: %+v; injected %v", name, got, r.Injected)
				case c.want[name] == repeated && got.Duplicates == 0:
					t.Errorf("%s repeated nothing: %+v; injected %v", name, got, r.Injected)
				}
			}
		})
	}
	// Between SELECT and INSERT there is room for others; how many come through depends on how they fall.
	t.Run("select-insert", func(t *testing.T) {
		for seed := range uint64(10) {
			if drillOne(t, s, seed, []string{"select-insert"}, string(Burst))["select-insert"].Duplicates > 0 {
				return
			}
		}
		t.Error("200 at once, ten times, and select-insert repeated nothing")
	})
}

// A unique row is exact by itself; what it costs is the database's work at every duplicate, which the filter saves.
func TestBurstIsAbsorbed(t *testing.T) {
	t.Parallel()
	got := drillOne(t, testServers(t), 1, []string{"ledger-only", "guard"}, string(Burst))
	alone, both := got["ledger-only"], got["guard"]
	if !alone.Exact() || alone.Burst.AbsorbedLedger != burstCopies-1 || alone.Burst.AbsorbedFilter != 0 {
		t.Errorf("ledger-only: %+v, burst %+v", alone.Account, alone.Burst)
	}
	wantExact(t, both)
	if n := both.Burst.AbsorbedLedger + both.Burst.AbsorbedFilter; n != burstCopies-1 {
		t.Errorf("guard: %d of the burst absorbed", n)
	}
	if both.Burst.FilterShare < 0.5 || both.Burst.Statements >= alone.Burst.Statements {
		t.Errorf("the filter saves nothing: %+v, without it %+v", both.Burst, alone.Burst)
	}
}

func TestRunRefuses(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{
		"too few orders":  {Orders: MinOrders - 1, Strategies: Strategies()},
		"too many orders": {Orders: MaxOrders + 1, Strategies: Strategies()},
		"no strategy":     {Orders: MinOrders},
	} {
		if rep, err := Run(t.Context(), nil, o); err == nil || rep != nil {
			t.Errorf("%s: %v, %v", name, rep, err)
		}
	}
}
