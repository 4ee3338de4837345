package ledgertest

import (
	"context"
	"database/sql"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/partition"
)

// Prefix and Biz name the ledger of every test.
const (
	Prefix = "t_idempotent_flow"
	Biz    = "COUPON"
)

// Do drives a guard with one message: Guard.Do, or a batch of one.
type Do func(ctx context.Context, g *ledger.Guard, m ledger.Message, e ledger.Effect) (ledger.Result, error)

// Workbench is a ledger of one test's own, with a business table whose rows can be counted.
type Workbench struct {
	T        testing.TB
	Schema   *testenv.Schema
	Space    *testenv.RedisSpace
	Scheme   partition.Scheme
	Manager  *partition.Manager
	Template ledger.KeyTemplate
	Zone     *time.Location
	Now      time.Time // the database's, when the bench was made
	Month    partition.Month
	Lease    time.Duration
	// Dial and Redis replace the connections of guards made from here on.
	Dial  func(ctx context.Context, addr string) (net.Conn, error)
	Redis redis.UniversalClient

	seq atomic.Int64
}

// New makes a ledger with the months from the previous one to the next, vouched for since long ago, and the table coupon,
// which takes as many rows per order as it is given.
func New(t testing.TB, schema *testenv.Schema, space *testenv.RedisSpace) *Workbench {
	t.Helper()
	w := NewEmpty(t, schema, space)
	w.CreateMonths(partition.CreateRequest{Ahead: 1, From: w.Month - 1, MemorySince: w.Now.AddDate(-1, 0, 0)})
	return w
}

// NewEmpty is New without any month: a ledger that does not exist yet.
func NewEmpty(t testing.TB, schema *testenv.Schema, space *testenv.RedisSpace) *Workbench {
	t.Helper()
	w := &Workbench{T: t, Schema: schema, Space: space, Zone: time.UTC, Lease: time.Minute}
	w.Redis = w.OpenRedis(nil)
	var err error
	w.Scheme, err = partition.NewScheme(Prefix)
	w.must(err)
	w.Template, err = ledger.ParseKeyTemplate(space.Prefix + "idempotent:{biz_type}:{order_id}")
	w.must(err)
	w.Manager = partition.NewManager(schema.DB, w.Scheme, w.Zone)
	w.Now, err = mysqlx.Now(t.Context(), schema.DB)
	w.must(err)
	w.Month = partition.MonthOf(w.Now, w.Zone)
	w.SQL(`CREATE TABLE coupon (id BIGINT AUTO_INCREMENT PRIMARY KEY, order_id VARBINARY(128) NOT NULL, note VARCHAR(40), KEY (order_id)) ENGINE=InnoDB`)
	return w
}

// CreateMonths runs a plan for the months asked for.
func (w *Workbench) CreateMonths(req partition.CreateRequest) {
	w.T.Helper()
	plan, err := w.Manager.PlanCreate(w.T.Context(), req)
	w.must(err)
	_, err = w.Manager.Create(w.T.Context(), plan)
	w.must(err)
}

// Guard makes a guard with connections of its own.
func (w *Workbench) Guard(change ...func(*ledger.GuardOptions)) *ledger.Guard {
	w.T.Helper()
	g, err := w.OpenGuard(change...)
	w.must(err)
	return g
}

// OpenGuard is Guard for a test that expects a refusal.
func (w *Workbench) OpenGuard(change ...func(*ledger.GuardOptions)) (*ledger.Guard, error) {
	w.T.Helper()
	opts := ledger.GuardOptions{
		Filter:  w.Filter(),
		BizType: Biz, Zone: w.Zone, Retention: 30 * 24 * time.Hour,
	}
	for _, c := range change {
		c(&opts)
	}
	if opts.Store == nil {
		opts.Store = w.Store()
	}
	if watch := opts.OnStep; watch != nil {
		opts.OnStep = func(ctx context.Context, s ledger.Step, m ledger.Message) {
			if !strings.HasPrefix(m.Key.OrderID, companion) {
				watch(ctx, s, m)
			}
		}
	}
	return ledger.NewGuard(w.T.Context(), opts)
}

// Store opens a store with pools of its own.
func (w *Workbench) Store() *ledger.Store {
	w.T.Helper()
	return ledger.NewStore(w.Open(true), w.Open(false), w.Scheme)
}

// Open opens a pool on the bench's schema, closed with the test.
func (w *Workbench) Open(guard bool) *sql.DB {
	w.T.Helper()
	db, err := mysqlx.Open(mysqlx.Options{DSN: w.Schema.DSN, Guard: guard, Dial: w.Dial})
	w.must(err)
	w.T.Cleanup(func() { _ = db.Close() })
	return db
}

// OpenRedis opens a client as a service does, over dial if there is one; closed with the test.
func (w *Workbench) OpenRedis(dial func(ctx context.Context, network, addr string) (net.Conn, error)) redis.UniversalClient {
	w.T.Helper()
	opt, err := redis.ParseURL(w.Space.URL)
	w.must(err)
	opt.ContextTimeoutEnabled = true
	opt.Dialer = dial
	c := redis.NewClient(opt)
	w.T.Cleanup(func() { _ = c.Close() })
	return c
}

// Filter makes a filter over the bench's Redis.
func (w *Workbench) Filter(change ...func(*ledger.FilterOptions)) *ledger.Filter {
	w.T.Helper()
	opts := ledger.FilterOptions{Template: w.Template, Lease: w.Lease, CompletedTTL: time.Hour, Timeout: 2 * time.Second}
	for _, c := range change {
		c(&opts)
	}
	f, err := ledger.NewFilter(w.Redis, opts)
	w.must(err)
	return f
}

// NewMessage is a message of this moment with a key that no other has.
func (w *Workbench) NewMessage() ledger.Message {
	n := w.seq.Add(1)
	return w.Message("ORD-" + time.Now().Format("150405.000000") + "-" + strconv.FormatInt(n, 10))
}

// Message is a message of this moment with the key given.
func (w *Workbench) Message(orderID string) ledger.Message {
	return ledger.Message{
		Key: ledger.Key{BizType: Biz, OrderID: orderID}, Time: w.Now,
		Source: &ledger.Source{Topic: "order-paid", Partition: 3, Offset: 10233},
	}
}

// Grant is the effect: a coupon for the order.
func (w *Workbench) Grant(m ledger.Message) ledger.Effect {
	return func(ctx context.Context, tx ledger.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO coupon (order_id) VALUES (?)", []byte(m.Key.OrderID))
		return err
	}
}

// Coupons counts the coupons of an order.
func (w *Workbench) Coupons(m ledger.Message) int {
	w.T.Helper()
	var n int
	w.must(w.Schema.DB.QueryRowContext(w.T.Context(), "SELECT COUNT(*) FROM coupon WHERE order_id = ?", []byte(m.Key.OrderID)).Scan(&n))
	return n
}

// Rows counts the ledger rows of an order over all months that exist.
func (w *Workbench) Rows(m ledger.Message) int {
	w.T.Helper()
	total := 0
	for mon := w.Month - 1; mon <= w.Month+2; mon++ {
		var n int
		err := w.Schema.DB.QueryRowContext(w.T.Context(), "SELECT COUNT(*) FROM "+w.Scheme.Table(mon)+" WHERE order_id = ? AND biz_type = ?",
			[]byte(m.Key.OrderID), []byte(m.Key.BizType)).Scan(&n)
		if mysqlx.Number(err) == mysqlx.ErrNoSuchTable {
			continue
		}
		w.must(err)
		total += n
	}
	return total
}

// ExactlyOnce fails the test unless the order has one coupon and one row.
func (w *Workbench) ExactlyOnce(m ledger.Message) {
	w.T.Helper()
	if c, r := w.Coupons(m), w.Rows(m); c != 1 || r != 1 {
		w.T.Fatalf("order %q: %d coupons and %d ledger rows, want 1 and 1", m.Key.OrderID, c, r)
	}
}

// Nothing fails the test if the order has a coupon or a row.
func (w *Workbench) Nothing(m ledger.Message) {
	w.T.Helper()
	if c, r := w.Coupons(m), w.Rows(m); c != 0 || r != 0 {
		w.T.Fatalf("order %q: %d coupons and %d ledger rows, want none", m.Key.OrderID, c, r)
	}
}

// Marker reads the raw marker of an order; "" for none.
func (w *Workbench) Marker(m ledger.Message) string {
	w.T.Helper()
	v, err := w.Space.Client.Get(w.T.Context(), w.Template.Name(m.Key)).Result()
	if err == redis.Nil { //nolint:errorlint // go-redis returns the sentinel itself
		return ""
	}
	w.must(err)
	return v
}

// SetMarker writes a marker as another service would; ttl 0 is none.
func (w *Workbench) SetMarker(m ledger.Message, value string, ttl time.Duration) {
	w.T.Helper()
	w.must(w.Space.Client.Set(w.T.Context(), w.Template.Name(m.Key), value, ttl).Err())
}

// Forget deletes the marker, as an eviction or a failover would.
func (w *Workbench) Forget(m ledger.Message) {
	w.T.Helper()
	w.must(w.Space.Client.Del(w.T.Context(), w.Template.Name(m.Key)).Err())
}

// SQL runs a statement on the bench's schema.
func (w *Workbench) SQL(query string, args ...any) {
	w.T.Helper()
	if _, err := w.Schema.DB.ExecContext(w.T.Context(), query, args...); err != nil {
		w.T.Fatalf("%s: %v", query, err)
	}
}

// Catalog changes the catalog as partition, purge and restore do.
func (w *Workbench) Catalog(change func(*partition.Catalog)) {
	w.T.Helper()
	_, err := partition.UpdateCatalog(w.T.Context(), w.Schema.DB, w.Scheme, func(c *partition.Catalog) (bool, error) {
		change(c)
		return true, nil
	})
	w.must(err)
}

// Want fails the test unless the outcome is the one wanted, without an error.
func (w *Workbench) Want(want ledger.Outcome, res ledger.Result, err error) {
	w.T.Helper()
	if err != nil || res.Outcome != want {
		w.T.Fatalf("outcome %s (%s), error %v; want %s", res.Outcome, res.Reason, err, want)
	}
}

func (w *Workbench) must(err error) {
	w.T.Helper()
	if err != nil {
		w.T.Fatal(err)
	}
}
