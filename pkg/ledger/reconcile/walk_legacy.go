package reconcile

import (
	"context"
	"database/sql"
	"fmt"
	"unicode/utf8"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/partition"
)

// walkLegacy goes through the tables of someone else one after the other, page by page. Within a table fn is called once for
// each key, with the number of its rows; a key that is in two tables comes twice. Rows without a key that a marker could
// have are passed over.
//
// The order of the pages is that of the key's column, so there must be an index that begins with it, or with the biz_type and
// it: without one each page costs the server the whole table, and a large one is ended by the limit of a statement.
func (b *books) walkLegacy(ctx context.Context, rows func(ctx context.Context, n int) error, fn func(walked) error) error {
	for _, t := range b.current().Tables {
		kinds, err := b.kindsIn(ctx, t)
		if mysqlx.Number(err) == mysqlx.ErrNoSuchTable {
			continue // its owner has dropped it
		}
		if err != nil {
			return fmt.Errorf("list the biz_types in %s: %w", t.Name, err)
		}
		for _, kind := range kinds {
			w := legacyWalk{books: b, table: t, kind: kind, rows: rows, fn: fn}
			if err := w.run(ctx); err != nil && mysqlx.Number(err) != mysqlx.ErrNoSuchTable {
				return err
			}
		}
	}
	return nil
}

// kindsIn are the biz_types of a table, one of each that its collation takes for the same; nil stands for a table that has
// no such column.
func (b *books) kindsIn(ctx context.Context, t partition.Table) ([]any, error) {
	c := b.scheme.Columns().BizType
	if c == "" {
		return []any{nil}, nil
	}
	query := "SELECT DISTINCT " + mysqlx.Quote(c) + " FROM " + mysqlx.Quote(t.Name) + " WHERE " + mysqlx.Quote(c) + " IS NOT NULL"
	rows, err := b.db.QueryContext(ctx, b.server.Limited(query, b.limit))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var kinds []any
	for rows.Next() {
		var kind []byte
		if err := rows.Scan(&kind); err != nil {
			return nil, err
		}
		kinds = append(kinds, asText(kind))
	}
	return kinds, rows.Err()
}

// asText is a value as a statement takes it: as text, to be compared in the character set of its column, where it is text.
func asText(v []byte) any {
	if utf8.Valid(v) {
		return string(v)
	}
	return v
}

// legacyWalk goes through the rows of one biz_type of one table.
type legacyWalk struct {
	*books

	table partition.Table
	kind  any // nil: there is no such column
	rows  func(ctx context.Context, n int) error
	fn    func(walked) error
}

// run reads pages of whole keys: each ends with all rows of its last key, and of all keys that the collation takes for the
// same. So no row is met twice, and those of one key are in one page.
func (w *legacyWalk) run(ctx context.Context) error {
	var after any
	for {
		until, last, err := w.boundary(ctx, after)
		if err == nil {
			err = w.page(ctx, after, until, last)
		}
		if err != nil || last {
			return err
		}
		after = until
	}
}

// where is the condition of what comes after a key.
func (w *legacyWalk) where(after any) (text string, args []any) {
	c := w.scheme.Columns()
	id := mysqlx.Quote(c.OrderID)
	text = " WHERE " + id + " IS NOT NULL"
	if c.BizType != "" {
		text += " AND " + mysqlx.Quote(c.BizType) + " = ?"
		args = append(args, w.kind)
	}
	if after != nil {
		text += " AND " + id + " > ?"
		args = append(args, after)
	}
	return text, args
}

// boundary is the key at which the next page ends; last: it is the last one.
func (w *legacyWalk) boundary(ctx context.Context, after any) (until any, last bool, err error) {
	id := mysqlx.Quote(w.scheme.Columns().OrderID)
	where, args := w.where(after)
	query := "SELECT " + id + " FROM " + mysqlx.Quote(w.table.Name) + where + fmt.Sprintf(" ORDER BY %s LIMIT 1 OFFSET %d", id, walkMost-1)
	rows, err := w.db.QueryContext(ctx, w.server.Limited(query, w.limit), args...)
	if err != nil {
		return nil, false, fmt.Errorf("read %s: %w", w.table.Name, err)
	}
	defer rows.Close()
	var v sql.RawBytes
	if !rows.Next() {
		return nil, true, rows.Err()
	}
	if err := rows.Scan(&v); err != nil {
		return nil, false, fmt.Errorf("read %s: %w", w.table.Name, err)
	}
	until = asText(append([]byte{}, v...))
	return until, false, rows.Err()
}

func (w *legacyWalk) page(ctx context.Context, after, until any, last bool) error {
	where, args := w.where(after)
	if !last {
		where += " AND " + mysqlx.Quote(w.scheme.Columns().OrderID) + " <= ?"
		args = append(args, until)
	}
	var page []walked
	at := map[ledger.Key]int{}
	n := 0
	err := w.queryLegacy(ctx, w.scheme.Columns().Select(w.table.Name)+where, args, func(r *walked) error {
		n++
		if !isKey(r.key) {
			return nil
		}
		i, there := at[r.key]
		if !there {
			at[r.key] = len(page)
			page = append(page, *r)
			return nil
		}
		page[i].tables++
		if r.created.After(page[i].created) {
			page[i].created, page[i].expires = r.created, r.expires
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read %s: %w", w.table.Name, err)
	}
	if err := w.rows(ctx, n); err != nil {
		return err
	}
	for i := range page {
		if err := w.fn(page[i]); err != nil {
			return err
		}
	}
	return nil
}

// isKey reports a key that a marker can have.
func isKey(k ledger.Key) bool {
	return ledger.ValidateOrderID(k.OrderID) == nil && ledger.ValidateBizType(k.BizType) == nil
}
