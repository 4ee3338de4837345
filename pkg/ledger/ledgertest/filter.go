package ledgertest

import (
	"testing"

	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/partition"
)

// Filter puts the filter through its suite on one Redis. No database takes part: what a marker means is the guard's to say.
func Filter(t *testing.T, server testenv.RedisServer) {
	t.Helper()
	for name, test := range filterTests() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newFilterBench(t, server.Space(t)))
		})
	}
}

type filterTest func(t *testing.T, w *Workbench)

func filterTests() map[string]filterTest {
	return map[string]filterTest{
		"claim":                           filterClaims,
		"claim of many":                   filterClaimsMany,
		"claim meets what is there":       filterClaimMeets,
		"lost reply of SET NX":            filterLostClaimReply,
		"release only one's own":          filterReleases,
		"take over only without TTL":      filterTakesOver,
		"complete over nothing or marker": filterCompletes,
		"complete with the lease":         filterCompletesHeld,
		"TTL of completed":                filterCompletedTTL,
		"bare":                            filterBare,
		"look":                            filterLooks,
		"scripts survive a flush":         filterScriptFlush,
		"keys are byte exact":             filterByteExact,
		"caller gives up":                 filterCallerGivesUp,
	}
}

// newFilterBench is a workbench without a database.
func newFilterBench(t *testing.T, space *testenv.RedisSpace) *Workbench {
	t.Helper()
	w := &Workbench{T: t, Space: space, Lease: leaseOfTests}
	w.Redis = w.OpenRedis(nil)
	var err error
	w.Template, err = ledger.ParseKeyTemplate(space.Prefix + "idempotent:{biz_type}:{order_id}")
	w.must(err)
	w.Scheme, err = partition.NewScheme(Prefix)
	w.must(err)
	return w
}
