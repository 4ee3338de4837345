package reconcile

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/partition"
)

// walked is a key of the ledger with what is known of its rows.
type walked struct {
	key              ledger.Key
	created, expires time.Time // of its newest row
	fingerprint      []byte
	tables           int // how many have a row; of a ledger made by someone else how many rows the table has
}

const (
	// walkRows is how many rows all tables together are read ahead by: what a walk holds in memory.
	walkRows = 16_000
	// walkLeast and walkMost bound one page of one table.
	walkLeast, walkMost = 100, 2000
)

// walk goes through all tables of the catalog at once in the order of their primary key, page by page, so that rows of one
// key in several tables meet. fn is called for each key, from one goroutine; rows tells it how many rows were read.
//
// Which rows are wanted is for fn to say: a condition that few rows meet would keep the server busy over one page for longer
// than a statement may last.
func (b *books) walk(ctx context.Context, rows func(ctx context.Context, n int) error, fn func(walked) error) error {
	if b.scheme.Legacy() {
		return b.walkLegacy(ctx, rows, fn)
	}
	tables := b.current().Tables
	size := max(walkLeast, min(walkMost, walkRows/2/max(1, len(tables))))
	g, ctx := errgroup.WithContext(ctx)
	var cursors []*cursor
	for _, t := range tables {
		c := &cursor{books: b, table: t, size: size, pages: make(chan []walked)}
		cursors = append(cursors, c)
		g.Go(func() error { return c.fetch(ctx) })
	}
	g.Go(func() error {
		m := &merge{rows: rows, fn: fn}
		for _, c := range cursors {
			ok, err := m.advance(ctx, c)
			if err != nil {
				return err
			}
			if ok {
				m.open = append(m.open, c)
			}
		}
		return m.run(ctx)
	})
	return g.Wait() //nolint:wrapcheck // each cursor says what it was reading
}

// cursor reads one table by keyset pages.
type cursor struct {
	books *books
	table partition.Table
	size  int
	pages chan []walked

	page []walked // in hand; the merge's
	at   int
}

// fetch reads page after page, one ahead of the merge. A table that has gone meanwhile is looked for under the name that
// the catalog has for it now; one that was dropped has no more rows.
func (c *cursor) fetch(ctx context.Context) error {
	defer close(c.pages)
	var after *ledger.Key
	name := c.table.Name
	for {
		page, err := c.read(ctx, name, after)
		if mysqlx.Number(err) == mysqlx.ErrNoSuchTable {
			if name, err = c.moved(ctx, name); err != nil || name == "" {
				return err
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		if len(page) == 0 {
			return nil
		}
		after = &page[len(page)-1].key
		select {
		case c.pages <- page:
		case <-ctx.Done():
			return ctx.Err()
		}
		if len(page) < c.size {
			return nil
		}
	}
}

// moved finds another name of a table, or "" where it is gone.
func (c *cursor) moved(ctx context.Context, name string) (string, error) {
	cat, err := c.books.reload(ctx)
	if err != nil {
		return "", err
	}
	for _, t := range cat.Tables {
		if t.Month != c.table.Month {
			continue
		}
		for _, other := range t.Names() {
			if other == name {
				continue
			}
			if _, err := c.read(ctx, other, nil); err == nil {
				return other, nil
			} else if mysqlx.Number(err) != mysqlx.ErrNoSuchTable {
				return "", fmt.Errorf("read %s: %w", other, err)
			}
		}
	}
	return "", nil
}

func (c *cursor) read(ctx context.Context, table string, after *ledger.Key) ([]walked, error) {
	query := "SELECT order_id, biz_type, create_time, expire_at, fingerprint FROM " + mysqlx.Quote(table) + " WHERE TRUE"
	if after != nil {
		id, biz := string(appendBytes(nil, after.OrderID)), string(appendBytes(nil, after.BizType))
		query += " AND order_id >= " + id + " AND (order_id > " + id + " OR biz_type > " + biz + ")"
	}
	query += fmt.Sprintf(" ORDER BY order_id, biz_type LIMIT %d", c.size)
	rows, err := c.books.db.QueryContext(ctx, c.books.server.Limited(query, c.books.limit))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	page := make([]walked, 0, c.size)
	var id, biz, fingerprint sql.RawBytes
	last := ""
	for rows.Next() {
		w := walked{tables: 1}
		if err := rows.Scan(&id, &biz, &w.created, &w.expires, &fingerprint); err != nil {
			return nil, err
		}
		if string(biz) != last { // most rows have the same
			last = string(biz)
		}
		w.key = ledger.Key{BizType: last, OrderID: string(id)}
		if len(fingerprint) > 0 {
			w.fingerprint = bytes.Clone(fingerprint)
		}
		page = append(page, w)
	}
	return page, rows.Err()
}

// merge puts the cursors together.
type merge struct {
	open []*cursor // those that have a row in hand
	rows func(ctx context.Context, n int) error
	fn   func(walked) error
}

// advance moves a cursor to its next row; false at its end.
func (m *merge) advance(ctx context.Context, c *cursor) (bool, error) {
	c.at++
	if c.at < len(c.page) {
		return true, nil
	}
	select {
	case page, ok := <-c.pages:
		if !ok {
			return false, nil
		}
		c.page, c.at = page, 0
		return true, m.rows(ctx, len(page))
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

func (m *merge) run(ctx context.Context) error {
	for len(m.open) > 0 {
		least := m.open[0]
		for _, c := range m.open[1:] {
			if before(c.page[c.at].key, least.page[least.at].key) {
				least = c
			}
		}
		w := least.page[least.at]
		for i := 0; i < len(m.open); {
			c := m.open[i]
			if c.page[c.at].key != w.key {
				i++
				continue
			}
			if other := c.page[c.at]; c != least {
				w.tables++
				if other.created.After(w.created) {
					w.created, w.expires, w.fingerprint = other.created, other.expires, other.fingerprint
				}
			}
			more, err := m.advance(ctx, c)
			if err != nil {
				return err
			}
			if more {
				i++
			} else {
				m.open = append(m.open[:i], m.open[i+1:]...)
			}
		}
		if err := m.fn(w); err != nil {
			return err
		}
	}
	return nil
}

// before is the order of the primary key.
func before(a, b ledger.Key) bool {
	if a.OrderID != b.OrderID {
		return a.OrderID < b.OrderID
	}
	return a.BizType < b.BizType
}
