package ledger_test

import (
	"testing"

	"github.com/idemctl/idemctl/internal/testenv"
)

// TestStateExample runs what the example shows: one order, delivered twice, has each of its three effects once.
func TestStateExample(t *testing.T) {
	t.Parallel()
	onEachStateBench(t, func(b *stateBench) {
		b.sql("CREATE TABLE stock (locked INT) ENGINE=InnoDB", "INSERT INTO stock VALUES (0)",
			"CREATE TABLE budget (cents INT) ENGINE=InnoDB", "INSERT INTO budget VALUES (10000)",
			"CREATE TABLE coupon (order_id VARBINARY(128)) ENGINE=InnoDB")
		machine, err := openCouponMachine(b.Context(), b.schema.DSN, []byte(couponMachine))
		b.must(err)
		for range 2 {
			if acknowledge, err := grantCoupon(b.Context(), machine, "20261111-8842", 500); err != nil || !acknowledge {
				b.Fatalf("acknowledge %v, %v", acknowledge, err)
			}
		}
		var locked, cents, coupons int
		b.must(b.schema.DB.QueryRowContext(b.Context(), "SELECT locked, cents, (SELECT COUNT(*) FROM coupon) FROM stock, budget").Scan(&locked, &cents, &coupons))
		if locked != 1 || cents != 9500 || coupons != 1 {
			b.Errorf("%d locked, %d cents, %d coupons", locked, cents, coupons)
		}
	})
}

func TestTokenExample(t *testing.T) {
	t.Parallel()
	tokens := newToken(t, testenv.Redis(t))
	token, err := tokens.Issue(t.Context(), "user 7")
	if err != nil {
		t.Fatal(err)
	}
	first, second := onClick(t.Context(), tokens, token, "user 7"), onClick(t.Context(), tokens, token, "user 7")
	if first != 200 || second != 409 {
		t.Errorf("%d, then %d", first, second)
	}
}
