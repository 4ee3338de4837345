package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// oneByOne is the consumer of published designs: each message by itself, SET NX first, then a transaction of the ledger's
// row and the effect, then SET. Its statements are interpolated by the driver, so each is one round trip, and its 32
// workers have a connection each.
type oneByOne struct{ shop *shop }

// insertRow is the ledger's row as those designs write it.
func (o *oneByOne) insertRow() string {
	return "INSERT INTO " + o.shop.table + " (order_id, biz_type, create_time, expire_at) VALUES (?, ?, ?, ?)"
}

var errNotAsSaid = errors.New("other work than the line says")

// lease asks Redis for the key; true: it was free.
func (o *oneByOne) lease(ctx context.Context, n int) (string, bool, error) {
	name := o.shop.template.Name(o.shop.messages[n].Key)
	free, err := o.shop.redis.SetNX(ctx, name, "PROCESSING", lease).Result()
	if err != nil {
		return "", false, fmt.Errorf("SET NX: %w", err)
	}
	return name, free, nil
}

func (o *oneByOne) done(ctx context.Context, name string) error {
	if err := o.shop.redis.Set(ctx, name, "COMPLETED", completed).Err(); err != nil {
		return fmt.Errorf("SET: %w", err)
	}
	return nil
}

// claim inserts the ledger's row.
func (o *oneByOne) claim(ctx context.Context, tx *sql.Tx, n int) error {
	m := &o.shop.messages[n]
	_, err := tx.ExecContext(ctx, o.insertRow(), []byte(m.Key.OrderID), []byte(bizType), m.Time, m.Time.Add(retention))
	return err
}

// fresh runs one message that was never seen.
func (o *oneByOne) fresh(ctx context.Context, from, _ int) error {
	name, free, err := o.lease(ctx, from)
	if err != nil || !free {
		return errors.Join(err, notIf(free))
	}
	tx, err := o.shop.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if err := o.claim(ctx, tx, from); err != nil {
		return errors.Join(fmt.Errorf("insert the row: %w", err), tx.Rollback())
	}
	if err := grant(ctx, tx, []string{o.shop.messages[from].Key.OrderID}); err != nil {
		return errors.Join(fmt.Errorf("grant the coupon: %w", err), tx.Rollback())
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return o.done(ctx, name)
}

// duplicate meets a key that Redis knows.
func (o *oneByOne) duplicate(ctx context.Context, from, _ int) error {
	_, free, err := o.lease(ctx, from)
	return errors.Join(err, notIf(!free))
}

// duplicateLedger meets a key that only the ledger knows.
func (o *oneByOne) duplicateLedger(ctx context.Context, from, _ int) error {
	name, free, err := o.lease(ctx, from)
	if err != nil || !free {
		return errors.Join(err, notIf(free))
	}
	tx, err := o.shop.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	err = o.claim(ctx, tx, from)
	if rerr := tx.Rollback(); rerr != nil {
		return fmt.Errorf("roll back: %w", rerr)
	}
	if mysqlx.Number(err) != mysqlx.ErrDupEntry {
		return fmt.Errorf("insert the row: %w (%w)", errNotAsSaid, orNone(err))
	}
	return o.done(ctx, name)
}

func notIf(ok bool) error {
	if ok {
		return nil
	}
	return errNotAsSaid
}

// rawRows fills the two tables with the rows that the guard and the effect write, and nothing else: one transaction of two
// multi-row INSERTs. All values of the ledger's rows stand in the statement's text as plain literals, the form that the
// servers parse fastest; the coupons are inserted as the effect does it on our side.
func (s *shop) rawRows(ctx context.Context, from, to int) error {
	const stamp = "2006-01-02 15:04:05.000"
	messages := s.messages[from:to]
	created, expires := s.now.Format(stamp), s.now.Add(retention).Format(stamp)
	var b strings.Builder
	b.WriteString("INSERT INTO " + s.table +
		" (order_id, biz_type, create_time, expire_at, claim_id, fingerprint, src_topic, src_partition, src_offset) VALUES ")
	orders := make([]string, len(messages))
	for i := range messages {
		m := &messages[i]
		orders[i] = m.Key.OrderID
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "('%s','%s','%s','%s',x'00112233445566778899aabbccddeeff',NULL,'%s',%d,%d)", // our own ids: digits and '-'
			m.Key.OrderID, bizType, created, expires, topic, m.Source.Partition, m.Source.Offset)
	}
	return mysqlx.WithTx(ctx, s.db, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, b.String()); err != nil {
			return fmt.Errorf("insert rows: %w", err)
		}
		return grant(ctx, tx, orders)
	})
}
