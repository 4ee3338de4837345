package reconcile

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/time/rate"

	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/partition"
)

// Directions says which store is gone through; the other one is looked up.
type Directions uint8

// The directions.
const (
	FilterToLedger Directions = 1 << iota
	LedgerToFilter
	Both = FilterToLedger | LedgerToFilter
)

// Options shape a Reconciler. The zero values of those below the line are their defaults.
type Options struct {
	// DB goes to the ledger's primary and commits by itself (mysqlx.Open without Guard).
	DB     *sql.DB
	Scheme partition.Scheme
	// Redis is a client of one server, of a Sentinel's master, of a cluster or a ring. Its read timeout must leave time for a
	// pipeline of some thousand commands.
	Redis    redis.UniversalClient
	Template ledger.KeyTemplate
	// Lease and CompletedTTL are the TTLs that the guards write.
	Lease, CompletedTTL time.Duration
	// Bare says that the guards write the bare words.
	Bare bool
	// MemorySince is the operator's word, by biz_type, that from then on no effect ran without its row. It is needed where no
	// catalog says since when the ledger remembers: without it nobody knows whether a row is missing.
	MemorySince map[string]time.Time
	// Retention is how long the rows of a ledger made by someone else last that do not say so themselves.
	Retention time.Duration
	// LedgerBizTypes are those that the ledger is for. In one made by someone else that has no biz_type column every row counts
	// for each of them.
	LedgerBizTypes []string

	// Slack is by how much clocks may differ; 0 means 5 minutes.
	Slack time.Duration
	// BizTypes limits both directions; empty: all that the template and the tables have.
	BizTypes []string
	// Since limits both directions to what was written from then on; zero: all. A marker without a TTL has no known age and is
	// always looked at.
	Since time.Time
	// Sample is the percentage of keys that are looked at, chosen by a hash of the key, so the same in both directions;
	// 0 means 100.
	Sample float64
	// Rate bounds keys and rows a second, both directions together; 0: no bound.
	Rate float64
	// MaxDuration bounds a scan; what it did not get to makes it incomplete. 0: no bound.
	MaxDuration time.Duration
	// Settle is the pause before the second look; 0 means 3 s.
	Settle time.Duration
	// Directions to compare in; 0 means Both.
	Directions Directions
	// Examples bounds the examples of each kind; 0 means 5.
	Examples int
	// StatementLimit ends a statement in the ledger's server; 0 means 10 s.
	StatementLimit time.Duration
	// Now is this machine's clock; nil means time.Now.
	Now func() time.Time

	// betweenLooks is called after the first look at everything and before the second; tests change things there.
	betweenLooks func()
	// beforeChange is called between the last look at a page of markers and their repair; tests change things there.
	beforeChange func()
}

// Reconciler compares a filter with a ledger. It is safe for concurrent use.
type Reconciler struct {
	opts    Options
	limiter *rate.Limiter // nil: no bound
}

const (
	wholeSample     = 100
	defaultSettle   = 3 * time.Second
	defaultSlack    = 5 * time.Minute
	defaultLimit    = 10 * time.Second
	defaultExamples = 5
)

// New validates the options. It opens nothing.
func New(opts Options) (*Reconciler, error) {
	switch {
	case opts.DB == nil || opts.Redis == nil:
		return nil, errors.New("reconcile: the ledger's pool and the Redis client are both needed")
	case opts.Scheme.Prefix() == "":
		return nil, errors.New("reconcile: no table prefix")
	case opts.Template == ledger.KeyTemplate{}:
		return nil, errors.New("reconcile: no key template")
	case opts.Lease < time.Second:
		return nil, fmt.Errorf("reconcile: lease %v: expected at least 1s", opts.Lease)
	case opts.CompletedTTL < time.Second:
		return nil, fmt.Errorf("reconcile: completed_ttl %v: expected at least 1s", opts.CompletedTTL)
	case opts.Sample < 0 || opts.Sample > wholeSample:
		return nil, fmt.Errorf("reconcile: sample %v: expected a percentage", opts.Sample)
	case opts.Rate < 0 || opts.Slack < 0 || opts.MaxDuration < 0 || opts.Settle < 0 || opts.Examples < 0 || opts.StatementLimit < 0:
		return nil, errors.New("reconcile: rate, durations and numbers must not be negative")
	}
	if err := opts.checkLegacy(); err != nil {
		return nil, err
	}
	for _, biz := range slices.Concat(opts.BizTypes, opts.LedgerBizTypes) {
		if err := ledger.ValidateBizType(biz); err != nil {
			return nil, fmt.Errorf("reconcile: %w", err)
		}
	}
	opts.setDefaults()
	r := &Reconciler{opts: opts}
	if opts.Rate > 0 {
		r.limiter = rate.NewLimiter(rate.Limit(opts.Rate), min(scanPage, max(1, int(opts.Rate))))
	}
	return r, nil
}

func (o *Options) setDefaults() {
	if o.Slack == 0 {
		o.Slack = defaultSlack
	}
	if o.Sample == 0 {
		o.Sample = wholeSample
	}
	if o.Settle == 0 {
		o.Settle = defaultSettle
	}
	if o.Directions == 0 {
		o.Directions = Both
	}
	if o.Examples == 0 {
		o.Examples = defaultExamples
	}
	if o.StatementLimit == 0 {
		o.StatementLimit = defaultLimit
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}
