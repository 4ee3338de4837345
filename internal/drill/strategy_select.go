package drill

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/idemctl/idemctl/pkg/ledger"
)

// selectInsert asks the table first and inserts after, without a unique key: between the two there is room for others.
type selectInsert struct{}

// Traits implements Strategy.
func (selectInsert) Traits() Traits {
	return Traits{Name: "select-insert", What: "SELECT, then INSERT without a unique key", Batch: 1, Rival: "INSERT INTO seen_order (order_id) VALUES (?)"}
}

// Prepare implements Strategy.
func (selectInsert) Prepare(ctx context.Context, w *World) error {
	return execAll(ctx, w.DB, []string{
		"CREATE TABLE seen_order (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, order_id VARBINARY(64) NOT NULL, KEY (order_id)) ENGINE=InnoDB",
	})
}

// Operate implements Strategy.
func (selectInsert) Operate(context.Context, *World) error { return nil }

// Open implements Strategy.
func (selectInsert) Open(_ context.Context, p *Process) (Consumer, error) {
	db, err := p.MySQL(false)
	if err != nil {
		return nil, err
	}
	return &oneByOne{process: p, handle: func(ctx context.Context, d *Delivery) (ledger.Outcome, error) {
		seen := 0
		err := p.transaction(ctx, db, d, func(tx *sql.Tx) error {
			if err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM seen_order WHERE order_id = ?", d.Record.Order).Scan(&seen); err != nil {
				return fmt.Errorf("look for the order: %w", err)
			}
			if seen > 0 {
				return nil
			}
			if _, err := tx.ExecContext(ctx, "INSERT INTO seen_order (order_id) VALUES (?)", d.Record.Order); err != nil {
				return fmt.Errorf("write the order down: %w", err)
			}
			p.At(ctx, ledger.StepInserted, d)
			return p.Effect(ctx, tx, d)
		})
		if seen > 0 {
			return ledger.AbsorbedLedger, err
		}
		return ledger.Executed, err
	}}, nil
}
