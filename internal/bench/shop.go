package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/idemctl/idemctl/internal/lab"
	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/partition"
)

const (
	bizType     = "COUPON"
	topic       = "order-paid"
	partitions  = 4
	batchSize   = 500
	workers     = 32 // of a rival that takes one message at a time
	keyTemplate = "idempotent:{biz_type}:{order_id}"
	lease       = 2 * time.Minute
	completed   = 24 * time.Hour
	retention   = 30 * 24 * time.Hour
)

// shop is the ledger, the business table and the orders that all lines work on.
type shop struct {
	guard    *ledger.Guard
	template ledger.KeyTemplate
	table    string // home month of all orders
	now      time.Time
	messages []ledger.Message // every order once, in random order

	// The guard's connections, and those of the rivals.
	guardTx, guardRead, db *sql.DB
	guardRedis, redis      *redis.Client
}

// openShop makes a ledger as `idemctl partition create` does (this month and two ahead), a table of coupons and the orders.
func openShop(ctx context.Context, l *lab.Lab, orders int) (_ *shop, err error) {
	s := &shop{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if err := s.connect(l); err != nil {
		return nil, err
	}
	if s.now, err = mysqlx.Now(ctx, s.guardRead); err != nil {
		return nil, err
	}
	scheme, err := partition.NewScheme(lab.TablePrefix)
	if err != nil {
		return nil, err
	}
	s.table = scheme.Table(partition.MonthOf(s.now, time.UTC))
	manager := partition.NewManager(s.guardRead, scheme, time.UTC)
	plan, err := manager.PlanCreate(ctx, partition.CreateRequest{Ahead: 2, MemorySince: s.now.Add(-24 * time.Hour)})
	if err != nil {
		return nil, err
	}
	if _, err := manager.Create(ctx, plan); err != nil {
		return nil, err
	}
	if _, err := s.db.ExecContext(ctx, couponTable); err != nil {
		return nil, fmt.Errorf("create the table coupon: %w", err)
	}
	if s.template, err = ledger.ParseKeyTemplate(keyTemplate); err != nil {
		return nil, err
	}
	filter, err := ledger.NewFilter(s.guardRedis, ledger.FilterOptions{Template: s.template, Lease: lease, CompletedTTL: completed})
	if err != nil {
		return nil, err
	}
	s.guard, err = ledger.NewGuard(ctx, ledger.GuardOptions{
		Store: ledger.NewStore(s.guardTx, s.guardRead, scheme), Filter: filter, BizType: bizType, Zone: time.UTC, Retention: retention,
	})
	if err != nil {
		return nil, err
	}
	s.messages = s.orders(orders)
	return s, nil
}

func (s *shop) connect(l *lab.Lab) (err error) {
	if s.guardTx, s.guardRead, err = ledger.OpenConnections(l.DSN); err != nil {
		return err
	}
	if s.db, err = mysqlx.Open(mysqlx.Options{DSN: l.DSN, MaxOpen: workers}); err != nil {
		return err
	}
	for _, client := range []**redis.Client{&s.guardRedis, &s.redis} {
		opts, err := redis.ParseURL(l.RedisURL)
		if err != nil {
			return fmt.Errorf("read the URL of Redis: %w", err)
		}
		opts.MaxRetries = -1
		if client == &s.guardRedis {
			opts.ContextTimeoutEnabled = true // a guard insists on it
		} else {
			opts.PoolSize = workers
		}
		*client = redis.NewClient(opts)
	}
	return nil
}

// orders are n orders of one day, in random order, always the same one.
func (s *shop) orders(n int) []ledger.Message {
	random := rand.New(rand.NewPCG(2026, 11))
	messages := make([]ledger.Message, n)
	sources := make([]ledger.Source, n)
	for i, id := range random.Perm(n) {
		sources[i] = ledger.Source{Topic: topic, Partition: int32(i % partitions), Offset: int64(i / partitions)}
		messages[i] = ledger.Message{
			Key: ledger.Key{BizType: bizType, OrderID: fmt.Sprintf("20261111-%07d", id)}, Time: s.now, Source: &sources[i],
		}
	}
	return messages
}

// empty forgets all rows and markers: every order is fresh again.
func (s *shop) empty(ctx context.Context) error {
	for _, table := range []string{s.table, "coupon"} {
		if _, err := s.db.ExecContext(ctx, "TRUNCATE TABLE "+table); err != nil {
			return fmt.Errorf("empty %s: %w", table, err)
		}
	}
	return s.flush(ctx)
}

// flush forgets all markers.
func (s *shop) flush(ctx context.Context) error {
	if err := s.redis.FlushDB(ctx).Err(); err != nil {
		return fmt.Errorf("empty Redis: %w", err)
	}
	return nil
}

// fill empties the shop and executes the first n orders.
func (s *shop) fill(ctx context.Context, n int) error {
	if err := s.empty(ctx); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(4) //nolint:mnd // enough to keep the database busy
	for from := 0; from < n; from += batchSize {
		g.Go(func() error {
			return s.batch(ctx, s.messages[from:min(n, from+batchSize)], ledger.Executed, func(context.Context, ledger.Tx, []int) error { return nil })
		})
	}
	return g.Wait()
}

// batch takes messages through the guard. A side that does other work than the line says measures nothing, so anything but
// the outcome expected is an error.
func (s *shop) batch(ctx context.Context, messages []ledger.Message, want ledger.Outcome, effect ledger.BatchEffect) error {
	results := s.guard.DoBatch(ctx, messages, effect)
	for i := range results {
		if r := &results[i]; r.Outcome != want || r.Degraded {
			return fmt.Errorf("order %s came out as %s (degraded: %t, %s), not %s: %w",
				messages[i].Key.OrderID, r.Outcome, r.Degraded, r.Reason, want, orNone(r.Err))
		}
	}
	return nil
}

var errNone = errors.New("no error")

func orNone(err error) error {
	if err == nil {
		return errNone
	}
	return err
}

func (s *shop) close() error {
	var errs []error
	for _, db := range []*sql.DB{s.guardTx, s.guardRead, s.db} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	for _, c := range []*redis.Client{s.guardRedis, s.redis} {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}
