package drill

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/replay"
)

// Strategy is a way of building the consumer.
type Strategy interface {
	Traits() Traits
	// Prepare makes what the strategy needs in the run's schema beside the business tables. It may change the records before
	// they are published.
	Prepare(ctx context.Context, w *World) error
	// Open makes the consumer of one process.
	Open(ctx context.Context, p *Process) (Consumer, error)
	// Operate does what the operator of this strategy does after a failover of the database, before the consumers start again.
	Operate(ctx context.Context, w *World) error
}

// Traits are what the engine must know of a strategy.
type Traits struct {
	Name string
	// What it is, in a line.
	What string
	// Guarded is asserted to lose and repeat nothing; of the others that is only reported.
	Guarded bool
	// Batch is how many records a consumer takes at once.
	Batch int
	// Marker is the Redis key by which a service would mark an order, behind the run's prefix; empty: it has none.
	Marker string
	// Rival is the INSERT by which another session claims a key in the ledger: one placeholder, the order. Empty: it has none.
	Rival string
}

// Consumer handles the records of one process. It is called for several partitions at once, and for one partition in order.
type Consumer interface {
	// Handle returns how many records have passed, counted from the first: their offsets may be committed. For the rest it
	// will be called again, after wait.
	Handle(ctx context.Context, batch []*Delivery) (passed int, wait time.Duration)
}

// Delivery is a record on one of its ways through a consumer.
type Delivery struct {
	Record *Record // what was published
	Kafka  *kgo.Record

	process *Process
	pending *replay.Pending // of the guard's gate
	began   time.Time
}

// World is what a strategy prepares on.
type World struct {
	DB      *sql.DB // the primary, in the run's schema; commits by itself
	DSN     string  // of the same, past the relay
	Prefix  string  // of the run's Redis keys
	Records []Record
	Issue   *ledger.Token // front tokens
	// Months are where business times lie: from the month before boundary on.
	Boundary time.Time
}

// Strategies are all there are, in the order in which they are shown.
func Strategies() []Strategy {
	return []Strategy{naive{}, token{}, redisOnly{}, selectInsert{}, ledgerOnly{}, twoLayer{}, guard{batch: 1}, guard{batch: guardBatch}}
}

// ParseStrategies finds strategies by their names; none, or the word all, means all.
func ParseStrategies(names []string) ([]Strategy, error) {
	all := Strategies()
	if len(names) == 0 || slices.Equal(names, []string{All}) {
		return all, nil
	}
	var known []string
	for _, s := range all {
		known = append(known, s.Traits().Name)
	}
	for _, n := range names {
		if !slices.Contains(known, n) {
			return nil, fmt.Errorf("strategy %q: %w; expected %s, or some of %s", n, ErrUnknown, All, words(known))
		}
	}
	return slices.DeleteFunc(all, func(s Strategy) bool { return !slices.Contains(names, s.Traits().Name) }), nil
}

// errorWait is how long a consumer leaves a message alone that failed.
const errorWait = 20 * time.Millisecond

// oneByOne is a consumer that takes one message at a time. It acknowledges what was handled without an error; after an error
// the message comes again.
type oneByOne struct {
	process *Process
	handle  func(ctx context.Context, d *Delivery) (ledger.Outcome, error)
}

// Handle implements Consumer.
func (c *oneByOne) Handle(ctx context.Context, batch []*Delivery) (int, time.Duration) {
	for i, d := range batch {
		c.process.At(ctx, ledger.StepStart, d)
		outcome, err := c.handle(ctx, d)
		if err != nil {
			c.process.run.trouble(err)
			return i, errorWait
		}
		c.process.run.tally.count(outcome)
	}
	return len(batch), 0
}

// transaction runs fn in a transaction, and reports the step behind its COMMIT.
func (p *Process) transaction(ctx context.Context, db *sql.DB, d *Delivery, fn func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // after COMMIT it does nothing; otherwise the error is already there
	if err := fn(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	p.At(ctx, ledger.StepCommitted, d)
	return nil
}
