package ledger_test

import (
	"testing"
	"time"

	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/partition"
)

// TestExample runs what the example shows: one order, delivered twice, gets one coupon.
func TestExample(t *testing.T) {
	t.Parallel()
	for _, db := range testenv.Databases(t) {
		t.Run(db.Name, func(t *testing.T) {
			t.Parallel()
			server := testenv.OwnRedis(t) // the example's keys have no prefix of the test's own
			schema := db.Schema(t)
			scheme, err := partition.NewScheme("t_idempotent_flow")
			if err != nil {
				t.Fatal(err)
			}
			zone, err := time.LoadLocation("Asia/Shanghai")
			if err != nil {
				t.Fatal(err)
			}
			manager := partition.NewManager(schema.DB, scheme, zone)
			paidAt := time.Now()
			plan, err := manager.PlanCreate(t.Context(), partition.CreateRequest{
				From: partition.MonthOf(paidAt, zone), Ahead: 1, MemorySince: paidAt.AddDate(0, -1, 0),
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := manager.Create(t.Context(), plan); err != nil {
				t.Fatal(err)
			}
			if _, err := schema.DB.ExecContext(t.Context(), "CREATE TABLE coupon (id BIGINT AUTO_INCREMENT PRIMARY KEY, order_id VARBINARY(128), user_id BIGINT) ENGINE=InnoDB"); err != nil {
				t.Fatal(err)
			}
			guard, err := openGuard(t.Context(), schema.DSN, server.Addr)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if acknowledge, err := onPaid(t.Context(), guard, "20261111-8842", 7, paidAt); err != nil || !acknowledge {
					t.Fatalf("acknowledge %v, %v", acknowledge, err)
				}
			}
			var coupons int
			if err := schema.DB.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM coupon").Scan(&coupons); err != nil || coupons != 1 {
				t.Errorf("%d coupons, %v; want 1", coupons, err)
			}
		})
	}
}
