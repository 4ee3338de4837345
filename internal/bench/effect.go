package main

import (
	"context"
	"database/sql"
	"strings"

	"github.com/idemctl/idemctl/pkg/ledger"
)

// couponTable is the business table: no unique key of its own, so a second coupon would show.
const couponTable = `CREATE TABLE coupon (
  id       BIGINT         NOT NULL AUTO_INCREMENT PRIMARY KEY,
  order_id VARBINARY(128) NOT NULL,
  user_id  BIGINT         NOT NULL,
  amount   INT            NOT NULL
) ENGINE=InnoDB`

const (
	insertCoupon = "INSERT INTO coupon (order_id, user_id, amount) VALUES (?, ?, ?)"
	nextCoupon   = ", (?, ?, ?)"
	userID       = int64(100_001)
	amount       = 1990
)

// execer is what a coupon is granted through: a transaction of the guard's or of a rival's.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// grant inserts the coupons of orders in one statement.
func grant(ctx context.Context, ex execer, orders []string) error {
	args := make([]any, 0, 3*len(orders)) //nolint:mnd // three values a coupon
	for _, id := range orders {
		args = append(args, id, userID, amount)
	}
	_, err := ex.ExecContext(ctx, insertCoupon+strings.Repeat(nextCoupon, len(orders)-1), args...)
	return err
}

// grantAll is the effect of a batch of messages.
func grantAll(messages []ledger.Message) ledger.BatchEffect {
	return func(ctx context.Context, tx ledger.Tx, indexes []int) error {
		orders := make([]string, len(indexes))
		for n, i := range indexes {
			orders[n] = messages[i].Key.OrderID
		}
		return grant(ctx, tx, orders)
	}
}
