package doctor

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/partition"
)

// Setup is what is looked at: the configuration, and the servers that it names.
type Setup struct {
	Scheme    partition.Scheme
	Zone      *time.Location // of month boundaries
	Retention time.Duration  // of a ledger entry
	Slack     time.Duration  // of the horizon

	// KeyTemplate names Redis keys. Bare says that markers are written as the bare words.
	KeyTemplate  string
	Lease        time.Duration
	CompletedTTL time.Duration
	Bare         bool

	Handlers []Handler
	// Group is the live consumer's group; empty: nobody asked about it.
	Group string

	// DB commits by itself, as mysqlx.Open without Guard opens it. A server that is not configured is nil without an error;
	// the error says why one that is configured could not be reached.
	DB       *sql.DB
	DBErr    error
	Redis    redis.UniversalClient
	RedisErr error
	Kafka    Topics
	KafkaErr error

	Now func() time.Time
}

// Handler is one configured pairing of a topic and an effect.
type Handler struct {
	Name, Topic, BizType string
	Key                  string
	// EventTime is where the business time is; EventTimeRecord means the record's timestamp. Fallback is what a message
	// without one gets.
	EventTime, Fallback string
	Fingerprint         []string
	// P99 is how long one message takes, as the operator has measured it; 0: not said.
	P99 time.Duration
}

// EventTimeRecord is the record's own timestamp as a source of business time.
const EventTimeRecord = "record"

// The guarded consumer's own bounds: how many records one poll hands out, and how long it may then be silent before its
// group gives its partitions to another (hazard G21).
const (
	PollSize         = 20
	RebalanceTimeout = 60 * time.Second
)

// Facts answers what several checks ask, and asks the servers for each of it once. It is used from one goroutine.
type Facts struct {
	Setup

	settings memo[mysqlx.Settings]
	about    memo[mysqlx.Server]
	cat      memo[partition.Catalog]
	list     memo[[]partition.Table]
	shapes   memo[map[string]*shape]
	rows     map[string]*memo[[]row]
	markers  memo[markerSample]
	nodes    memo[[]node]
}

// NewFacts begins with nothing read.
func NewFacts(s Setup) *Facts { return &Facts{Setup: s, rows: map[string]*memo[[]row]{}} }

type memo[T any] struct {
	done  bool
	value T
	err   error
}

func (m *memo[T]) get(read func() (T, error)) (T, error) {
	if !m.done {
		m.value, m.err = read()
		m.done = true
	}
	return m.value, m.err
}

// server says whether a server is configured, and why it cannot be asked.
func (f *Facts) server(s Server) (configured bool, err error) {
	switch s {
	case MySQL:
		return f.DB != nil, f.DBErr
	case Redis:
		return f.Redis != nil, f.RedisErr
	case Kafka:
		return f.Kafka != nil, f.KafkaErr
	}
	return false, nil
}

func (f *Facts) serverSettings(ctx context.Context) (mysqlx.Settings, error) {
	return f.settings.get(func() (mysqlx.Settings, error) { return mysqlx.ReadSettings(ctx, f.DB) })
}

func (f *Facts) mysql(ctx context.Context) (mysqlx.Server, error) {
	return f.about.get(func() (mysqlx.Server, error) { return mysqlx.Inspect(ctx, f.DB) })
}

// catalog wraps partition.ErrNoCatalog where there is none.
func (f *Facts) catalog(ctx context.Context) (partition.Catalog, error) {
	return f.cat.get(func() (partition.Catalog, error) { return partition.LoadCatalog(ctx, f.DB, f.Scheme) })
}

// tables are those that the catalog lists; without a catalog (a ledger made by someone else, or one that is not made yet)
// those that have the names of months.
func (f *Facts) tables(ctx context.Context) ([]partition.Table, error) {
	return f.list.get(func() ([]partition.Table, error) {
		if f.Scheme.Legacy() {
			return partition.FindTables(ctx, f.DB, f.Scheme)
		}
		cat, err := f.catalog(ctx)
		if errors.Is(err, partition.ErrNoCatalog) {
			return partition.FindTables(ctx, f.DB, f.Scheme)
		}
		return cat.Tables, err
	})
}

// present are the tables of the ledger that are there, by the name under which they are.
func (f *Facts) present(ctx context.Context) ([]*shape, error) {
	tables, err := f.tables(ctx)
	if err != nil {
		return nil, err
	}
	shapes, err := f.shapes.get(func() (map[string]*shape, error) {
		var names []string
		for _, t := range tables {
			names = append(names, t.Names()...)
		}
		return readShapes(ctx, f.DB, names)
	})
	if err != nil {
		return nil, err
	}
	var found []*shape
	for _, t := range tables {
		for _, name := range t.Names() {
			if s := shapes[name]; s != nil {
				found = append(found, s)
			}
		}
	}
	return found, nil
}

// now is the database's clock where there is one, else this machine's.
func (f *Facts) now(ctx context.Context) (time.Time, error) {
	if f.DB != nil && f.DBErr == nil {
		return mysqlx.Now(ctx, f.DB)
	}
	return f.Now().UTC(), nil
}
