package drill

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemctl/idemctl/pkg/ledger"
)

// markerTTL is how long the published designs keep their key: longer than any run.
const markerTTL = 24 * time.Hour

// redisOnly is SET NX EX and no ledger: who sets the key does the work, everyone else takes the message for a duplicate. An
// error deletes the key, so that the next delivery can try.
type redisOnly struct{}

// Traits implements Strategy.
func (redisOnly) Traits() Traits {
	return Traits{Name: "redis-only", What: "SET NX EX, no ledger", Batch: 1, Marker: "redis-only:"}
}

// Prepare implements Strategy.
func (redisOnly) Prepare(context.Context, *World) error { return nil }

// Operate implements Strategy.
func (redisOnly) Operate(context.Context, *World) error { return nil }

// Open implements Strategy.
func (s redisOnly) Open(_ context.Context, p *Process) (Consumer, error) {
	db, err := p.MySQL(false)
	if err != nil {
		return nil, err
	}
	client := p.Redis()
	return &oneByOne{process: p, handle: func(ctx context.Context, d *Delivery) (ledger.Outcome, error) {
		key := p.run.prefix + s.Traits().Marker + d.Record.Order
		first, err := setNX(ctx, client, key, "1")
		switch {
		case err != nil:
			return ledger.Failed, err
		case !first:
			return ledger.AbsorbedFilter, nil
		}
		p.At(ctx, ledger.StepLeased, d)
		err = p.transaction(ctx, db, d, func(tx *sql.Tx) error { return p.Effect(ctx, tx, d) })
		if err != nil {
			client.Del(ctx, key)
			return ledger.Failed, err
		}
		return ledger.Executed, nil
	}}, nil
}

// setNX sets a key that is not there.
func setNX(ctx context.Context, client *redis.Client, key, value string) (bool, error) {
	first, err := client.SetNX(ctx, key, value, markerTTL).Result()
	if err != nil {
		return false, fmt.Errorf("SET %s NX: %w", key, err)
	}
	return first, nil
}
