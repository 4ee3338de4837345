package ledger_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/idemctl/idemctl/pkg/ledger"
)

// Orders stand still if they have not moved for long and are not at an end; a state that the machine does not have is no
// end; every order is held against one moment.
func TestStateStuck(t *testing.T) {
	t.Parallel()
	onEachStateBench(t, func(b *stateBench) {
		m := b.machine()
		for i := range 5 {
			k := couponKey(fmt.Sprint("new", i))
			_, err := m.Start(b.Context(), k)
			b.must(err)
		}
		for id, way := range map[string][]string{
			"locked": {"NEW -> STOCK_LOCKED"}, "young": {"NEW -> STOCK_LOCKED"}, "cancelled": {"NEW -> CANCELLED"}, "odd": {},
		} {
			k := couponKey(id)
			_, err := m.Start(b.Context(), k)
			b.must(err)
			for _, arrow := range way {
				_, err := m.Advance(b.Context(), k, b.step(k, arrow))
				b.must(err)
			}
		}
		b.sql("UPDATE t_idempotent_state SET updated_at = updated_at - INTERVAL 1 HOUR WHERE order_id <> 'young'",
			"UPDATE t_idempotent_state SET updated_at = updated_at - INTERVAL 1 HOUR WHERE order_id = 'new3'",
			"UPDATE t_idempotent_state SET state = 'PACKED' WHERE order_id = 'odd'",
			"INSERT INTO t_idempotent_state SELECT order_id, 'SHIPMENT', state, version, updated_at FROM t_idempotent_state WHERE order_id = 'new1'")
		rep, err := b.store.Stuck(b.Context(), ledger.StuckRequest{Specs: []ledger.MachineSpec{b.spec}, Older: 30 * time.Minute, Limit: 2})
		b.must(err)
		if len(rep.Groups) != 3 || rep.Count() != 7 || !slices.Equal(rep.Undeclared, []string{"SHIPMENT"}) {
			b.Fatalf("%+v", rep)
		}
		odd, fresh, locked := rep.Groups[0], rep.Groups[1], rep.Groups[2]
		if odd.State != "PACKED" || !odd.Unknown || odd.Count != 1 {
			b.Errorf("%+v", odd)
		}
		if fresh.State != "NEW" || fresh.Unknown || fresh.Count != 5 || len(fresh.Orders) != 2 || fresh.Orders[0].Key.OrderID != "new3" {
			b.Errorf("%+v", fresh)
		}
		if locked.State != "STOCK_LOCKED" || locked.Count != 1 || locked.Orders[0].Key != couponKey("locked") {
			b.Errorf("%+v", locked)
		}
		rep, err = b.store.Stuck(b.Context(), ledger.StuckRequest{Specs: []ledger.MachineSpec{b.spec}, Older: 24 * time.Hour})
		if err != nil || rep.Count() != 0 {
			b.Errorf("older than a day: %+v, %v", rep, err)
		}
		if _, err := b.store.Stuck(b.Context(), ledger.StuckRequest{Older: -1}); err == nil {
			b.Error("a negative age is accepted")
		}
	})
}
