package drill

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/ledger"
)

// twoLayer is the filter and the ledger as they are commonly published: SET NX that fails means duplicate, so the message is
// dropped and acknowledged; an error deletes the key; a duplicate-key error from anywhere in the transaction means duplicate;
// the row goes into the month of now.
type twoLayer struct{}

// twoLayerInsert writes into the month's table: the month before the boundary, or the one after.
func twoLayerInsert(turned bool) string {
	if turned {
		return "INSERT INTO flow_after (order_id) VALUES (?)"
	}
	return "INSERT INTO flow_before (order_id) VALUES (?)"
}

// Traits implements Strategy.
func (twoLayer) Traits() Traits {
	return Traits{
		Name: "two-layer", What: "SET NX and unique row, as commonly published", Batch: 1, Marker: "two-layer:",
		Rival: twoLayerInsert(false),
	}
}

// Prepare implements Strategy.
func (twoLayer) Prepare(ctx context.Context, w *World) error {
	const columns = " (order_id VARBINARY(64) NOT NULL PRIMARY KEY, created DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3)) ENGINE=InnoDB"
	return execAll(ctx, w.DB, []string{"CREATE TABLE flow_before" + columns, "CREATE TABLE flow_after" + columns})
}

// Operate implements Strategy.
func (twoLayer) Operate(context.Context, *World) error { return nil }

// Open implements Strategy.
func (s twoLayer) Open(_ context.Context, p *Process) (Consumer, error) {
	db, err := p.MySQL(false)
	if err != nil {
		return nil, err
	}
	client := p.Redis()
	return &oneByOne{process: p, handle: func(ctx context.Context, d *Delivery) (ledger.Outcome, error) {
		key := p.run.prefix + s.Traits().Marker + d.Record.Order
		first, err := setNX(ctx, client, key, "PROCESSING")
		switch {
		case err != nil:
			return ledger.Failed, err
		case !first:
			return ledger.AbsorbedFilter, nil
		}
		p.At(ctx, ledger.StepLeased, d)
		err = p.transaction(ctx, db, d, func(tx *sql.Tx) error { return s.write(ctx, tx, p, d) })
		switch {
		case mysqlx.Number(err) == mysqlx.ErrDupEntry:
			return ledger.AbsorbedLedger, nil
		case err != nil:
			client.Del(ctx, key)
			return ledger.Failed, err
		}
		client.Set(ctx, key, "COMPLETED", markerTTL)
		p.At(ctx, ledger.StepMarked, d)
		return ledger.Executed, nil
	}}, nil
}

// write is the transaction.
func (twoLayer) write(ctx context.Context, tx *sql.Tx, p *Process, d *Delivery) error {
	if _, err := tx.ExecContext(ctx, twoLayerInsert(p.run.turned.Load()), d.Record.Order); err != nil {
		return fmt.Errorf("write the order down: %w", err)
	}
	p.At(ctx, ledger.StepInserted, d)
	return p.Effect(ctx, tx, d)
}
