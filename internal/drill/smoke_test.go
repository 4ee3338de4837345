package drill

import (
	"os"
	"testing"
	"fmt"
	"strings"

	"github.com/idemctl/idemctl/internal/lab"
)

func TestSmoke(t *testing.T) {
	s, err := StartServers(t.Context(), lab.NewHost(os.Getenv), "embedded", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	names := strings.Fields(os.Getenv("DRILL_FAULTS"))
	if len(names) == 0 { names = []string{"none"} }
	faults, err := ParseFaults(names)
	if err != nil { t.Fatal(err) }
	st, err := ParseStrategies(strings.Fields(os.Getenv("DRILL_STRATEGIES")))
	if err != nil { t.Fatal(err) }
	orders := DefaultOrders
	seed := uint64(1)
	fmt.Sscan(os.Getenv("DRILL_SEED"), &seed)
	rep, err := Run(t.Context(), s, Options{Orders: orders, Faults: faults, Seed: seed, Strategies: st, Progress: func(d, n int, r *Result) {
		fmt.Printf("%-14s %+v %.0f/s p50 %.2f p99 %.1f sql %.2f filter %d ledger %d parked %d degr %d infl %d took %.2fs inj %v missed %v notes %v burst %+v\n", r.Strategy, r.Account, r.All.PerSecond, r.All.P50, r.All.P99, r.All.Statements, r.All.AbsorbedFilter, r.All.AbsorbedLedger, r.Parked, r.Degraded, r.InFlight, r.all.took.Seconds(), r.Injected, r.Missed, r.Notes, r.Burst)
	}})
	if err != nil { t.Fatal(err) }
	fmt.Println(rep.Verdict(), rep.Took)
}
