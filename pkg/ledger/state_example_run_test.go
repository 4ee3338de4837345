package ledger_test

import (
	"os"
	"strings"
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

// The code that the documentation shows is the code of the example, which runs.
func TestStateDocs(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("example_state_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range []string{"../../docs/state-machine.md", "../../docs/token.md"} {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		shown := 0
		for block := range strings.SplitSeq(string(text), "\n```") {
			code, isGo := strings.CutPrefix(block, "go\n")
			if !isGo {
				continue
			}
			shown++
			if !strings.Contains(string(source), strings.TrimSpace(code)) {
				t.Errorf("%s shows code that is not in the example:\n%s", doc, code)
			}
		}
		if shown != 1 {
			t.Errorf("%s shows code %d times", doc, shown)
		}
	}
}
