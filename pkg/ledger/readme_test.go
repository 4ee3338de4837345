package ledger_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/idemctl/idemctl/pkg/ledger"
)

type order struct {
	ID     string
	UserID int64
	PaidAt time.Time
	Offset int64
}

// onBatch handles what one poll of a partition brought, and returns the offset to commit.
func onBatch(ctx context.Context, guard *ledger.Guard, partition int32, orders []order, next int64) (commit int64, err error) {
	messages := make([]ledger.Message, len(orders))
	for i, o := range orders {
		messages[i] = ledger.Message{
			Key: ledger.Key{BizType: "COUPON", OrderID: o.ID}, Time: o.PaidAt,
			Source: &ledger.Source{Topic: "order-paid", Partition: partition, Offset: o.Offset},
		}
	}
	results := guard.DoBatch(ctx, messages, func(ctx context.Context, tx ledger.Tx, indexes []int) error {
		rows := strings.TrimSuffix(strings.Repeat("(?, ?), ", len(indexes)), ", ")
		args := make([]any, 0, 2*len(indexes))
		for _, i := range indexes {
			args = append(args, orders[i].ID, orders[i].UserID)
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO coupon (order_id, user_id) VALUES "+rows, args...)
		return err
	})
	for i := range results {
		if !results[i].Outcome.MayPass() {
			return orders[i].Offset, results[i].Err // this one is read again, or parked
		}
	}
	return next, nil
}

func ExampleGuard_DoBatch() { //nolint:testableexamples // it needs servers; that it compiles is what is asked of it
	guard, err := openGuard(context.Background(), "idem@tcp(127.0.0.1:3306)/shop", "127.0.0.1:6379")
	if err != nil {
		fmt.Println(err)
		return
	}
	orders := []order{{ID: "20261111-8842", UserID: 7, PaidAt: time.Now(), Offset: 10233}}
	commit, err := onBatch(context.Background(), guard, 3, orders, 10234)
	fmt.Println(commit, err)
}

// The code that the documentation shows is the code of the examples, which compiles.
func TestDocumentedCodeCompiles(t *testing.T) {
	t.Parallel()
	for doc, wants := range map[string]map[string]string{
		"../../README.md":       {"func onPaid(": "example_test.go"},
		"../../docs/library.md": {"func onBatch(": "readme_test.go"},
	} {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for fn, file := range wants {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			shown := 0
			for block := range strings.SplitSeq(string(text), "\n```") {
				code, isGo := strings.CutPrefix(block, "go\n")
				if !isGo || !strings.Contains(code, fn) {
					continue
				}
				shown++
				if !strings.Contains(string(source), strings.TrimSpace(code)) {
					t.Errorf("%s: the block with %s is not the code of %s", doc, fn, file)
				}
			}
			if shown != 1 {
				t.Errorf("%s shows %s %d times", doc, fn, shown)
			}
		}
	}
}
