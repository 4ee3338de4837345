package drill

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/idemctl/idemctl/pkg/ledger"
)

// token is the front token alone: each publication carries one, and whoever uses it up does the work. A publication that
// Kafka brings again is refused by it; a second publication of the order has a token of its own.
type token struct{}

// Traits implements Strategy.
func (token) Traits() Traits { return Traits{Name: "token", What: "front token only", Batch: 1} }

// Prepare implements Strategy: the pages hand out their tokens.
func (token) Prepare(ctx context.Context, w *World) error {
	for i := range w.Records {
		r := &w.Records[i]
		if r.burst && r.copied && i > 0 {
			r.Token = w.Records[i-1].Token // a burst is one click, delivered a thousand times
			continue
		}
		t, err := w.Issue.Issue(ctx, r.Order)
		if err != nil {
			return fmt.Errorf("record %d: %w", i, err)
		}
		r.Token = t
	}
	return nil
}

// Operate implements Strategy.
func (token) Operate(context.Context, *World) error { return nil }

// Open implements Strategy.
func (token) Open(_ context.Context, p *Process) (Consumer, error) {
	db, err := p.MySQL(false)
	if err != nil {
		return nil, err
	}
	tokens, err := newTokens(p.Redis(), p.run.prefix)
	if err != nil {
		return nil, err
	}
	return &oneByOne{process: p, handle: func(ctx context.Context, d *Delivery) (ledger.Outcome, error) {
		err := tokens.Consume(ctx, d.Record.Token, d.Record.Order)
		switch {
		case errors.Is(err, ledger.ErrTokenUnknown):
			return ledger.AbsorbedFilter, nil // used, or never issued: taken for a duplicate
		case err != nil:
			return ledger.Failed, err
		}
		p.At(ctx, ledger.StepLeased, d)
		err = p.transaction(ctx, db, d, func(tx *sql.Tx) error { return p.Effect(ctx, tx, d) })
		return ledger.Executed, err
	}}, nil
}
