package ledger_test //nolint:testableexamples // it needs servers; TestExample runs its functions on some

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/partition"
)

// openGuard is done once, when the service starts; its month tables were made by `idemctl partition create`.
func openGuard(ctx context.Context, dsn, redisAddr string) (*ledger.Guard, error) {
	tx, read, err := ledger.OpenConnections(dsn)
	if err != nil {
		return nil, err
	}
	scheme, err1 := partition.NewScheme("t_idempotent_flow")
	template, err2 := ledger.ParseKeyTemplate("idempotent:{biz_type}:{order_id}")
	zone, err3 := time.LoadLocation("Asia/Shanghai")
	filter, err4 := ledger.NewFilter(
		redis.NewClient(&redis.Options{Addr: redisAddr, ContextTimeoutEnabled: true}),
		ledger.FilterOptions{Template: template, Lease: 2 * time.Minute, CompletedTTL: 24 * time.Hour})
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, errors.Join(err, tx.Close(), read.Close())
	}
	return ledger.NewGuard(ctx, ledger.GuardOptions{
		Store: ledger.NewStore(tx, read, scheme), Filter: filter,
		BizType: "COUPON", Zone: zone, Retention: 30 * 24 * time.Hour,
	})
}

// onPaid handles one message: the coupon and the ledger row are committed together, or neither is.
func onPaid(ctx context.Context, guard *ledger.Guard, orderID string, userID int64, paidAt time.Time) (acknowledge bool, err error) {
	message := ledger.Message{Key: ledger.Key{BizType: "COUPON", OrderID: orderID}, Time: paidAt}
	result, err := guard.Do(ctx, message, func(ctx context.Context, tx ledger.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO coupon (order_id, user_id) VALUES (?, ?)", orderID, userID)
		return err
	})
	return result.Outcome.MayPass(), err // otherwise keep the offset, and bring the message again or park it
}

// Example shows all that a service has to do.
func Example() {
	guard, err := openGuard(context.Background(), "idem@tcp(127.0.0.1:3306)/shop", "127.0.0.1:6379")
	if err != nil {
		fmt.Println(err)
		return
	}
	acknowledge, err := onPaid(context.Background(), guard, "20261111-8842", 7, time.Now())
	fmt.Println(acknowledge, err)
}
