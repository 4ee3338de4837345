package drill

import (
	"context"
	"database/sql"

	"github.com/idemctl/idemctl/pkg/ledger"
)

// naive does the work and then commits the offset: at least once, as Kafka delivers.
type naive struct{}

// Traits implements Strategy.
func (naive) Traits() Traits {
	return Traits{Name: "naive", What: "effect, then commit the offset", Batch: 1}
}

// Prepare implements Strategy.
func (naive) Prepare(context.Context, *World) error { return nil }

// Operate implements Strategy.
func (naive) Operate(context.Context, *World) error { return nil }

// Open implements Strategy.
func (naive) Open(_ context.Context, p *Process) (Consumer, error) {
	db, err := p.MySQL(false)
	if err != nil {
		return nil, err
	}
	return &oneByOne{process: p, handle: func(ctx context.Context, d *Delivery) (ledger.Outcome, error) {
		err := p.transaction(ctx, db, d, func(tx *sql.Tx) error { return p.Effect(ctx, tx, d) })
		return ledger.Executed, err
	}}, nil
}
