package drill

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/ledger"
)

// ledgerOnly is a unique row in the transaction of the effect, in one table that is never cut, and no filter: every duplicate
// costs a transaction.
type ledgerOnly struct{}

// Traits implements Strategy.
func (ledgerOnly) Traits() Traits {
	return Traits{Name: "ledger-only", What: "unique row in the transaction, no filter", Batch: 1, Rival: "INSERT INTO flow (order_id) VALUES (?)"}
}

// Prepare implements Strategy.
func (ledgerOnly) Prepare(ctx context.Context, w *World) error {
	return execAll(ctx, w.DB, []string{"CREATE TABLE flow (order_id VARBINARY(64) NOT NULL PRIMARY KEY) ENGINE=InnoDB"})
}

// Operate implements Strategy.
func (ledgerOnly) Operate(context.Context, *World) error { return nil }

// Open implements Strategy.
func (ledgerOnly) Open(_ context.Context, p *Process) (Consumer, error) {
	db, err := p.MySQL(false)
	if err != nil {
		return nil, err
	}
	return &oneByOne{process: p, handle: func(ctx context.Context, d *Delivery) (ledger.Outcome, error) {
		known := false
		err := p.transaction(ctx, db, d, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO flow (order_id) VALUES (?)", d.Record.Order)
			if known = mysqlx.Number(err) == mysqlx.ErrDupEntry; known {
				return err
			}
			if err != nil {
				return fmt.Errorf("write the order down: %w", err)
			}
			p.At(ctx, ledger.StepInserted, d)
			return p.Effect(ctx, tx, d)
		})
		if known {
			return ledger.AbsorbedLedger, nil
		}
		return ledger.Executed, err
	}}, nil
}
