package ledger_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/idemctl/idemctl/pkg/ledger"
)

// openCouponMachine is done once, when the service starts; the tables were made by `idemctl state create --execute`.
func openCouponMachine(ctx context.Context, dsn string, declaration []byte) (*ledger.StateMachine, error) {
	spec, err := ledger.ParseMachine(declaration)
	if err != nil {
		return nil, err
	}
	tx, read, err := ledger.OpenConnections(dsn)
	if err != nil {
		return nil, err
	}
	return ledger.NewStateMachine(ctx, ledger.StateOptions{
		Store: ledger.NewStateStore(tx, read), Spec: spec, Who: "coupon-service",
	})
}

// grantCoupon handles one delivery: three transactions, each with its effect, none of them twice.
func grantCoupon(ctx context.Context, machine *ledger.StateMachine, orderID string, cents int) (acknowledge bool, err error) {
	exec := func(query string, args ...any) ledger.Effect {
		return func(ctx context.Context, tx ledger.Tx) error {
			_, err := tx.ExecContext(ctx, query, args...)
			return err
		}
	}
	to := func(from, to string) ledger.Transition { return ledger.Transition{From: from, To: to} }
	_, err = machine.Run(ctx, ledger.Key{BizType: "COUPON", OrderID: orderID}, []ledger.StateStep{
		{Transition: to("NEW", "STOCK_LOCKED"), Effect: exec("UPDATE stock SET locked = locked + 1")},
		{Transition: to("STOCK_LOCKED", "BUDGET_DEDUCTED"), Effect: exec("UPDATE budget SET cents = cents - ?", cents)},
		{Transition: to("BUDGET_DEDUCTED", "COUPON_WRITTEN"), Effect: exec("INSERT INTO coupon (order_id) VALUES (?)", orderID)},
	})
	return err == nil, err // an error: keep the offset; the next delivery goes on where this one came to
}

func ExampleStateMachine() { //nolint:testableexamples // it needs servers; TestStateExample runs its functions on some
	machine, err := openCouponMachine(context.Background(), "idem@tcp(127.0.0.1:3306)/shop", []byte(`
biz_type: COUPON
states: [NEW, STOCK_LOCKED, BUDGET_DEDUCTED, COUPON_WRITTEN, CANCELLED]
transitions: [NEW -> STOCK_LOCKED -> BUDGET_DEDUCTED -> COUPON_WRITTEN, NEW -> CANCELLED]
terminal: [COUPON_WRITTEN, CANCELLED]`))
	if err != nil {
		fmt.Println(err)
		return
	}
	acknowledge, err := grantCoupon(context.Background(), machine, "20261111-8842", 500)
	fmt.Println(acknowledge, err)
}

// onClick lets the first of several clicks on one page through.
func onClick(ctx context.Context, tokens *ledger.Token, token, subject string) (status int) {
	switch err := tokens.Consume(ctx, token, subject); {
	case err == nil:
		return 200
	case errors.Is(err, ledger.ErrTokenUnknown):
		return 409 // a second click, or a page that was open too long
	default:
		return 503 // Redis does not answer: never let it through
	}
}

func ExampleToken() { //nolint:testableexamples // it needs servers; TestTokenExample runs its function on one
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", ContextTimeoutEnabled: true})
	tokens, err := ledger.NewToken(client, ledger.TokenOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	const subject = "user 7, pay 20261111-8842"
	token, err := tokens.Issue(context.Background(), subject) // when the page is shown
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(onClick(context.Background(), tokens, token, subject))
}
