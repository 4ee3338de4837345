package reconcile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/partition"
)

// A ledger made by someone else (partition.Scheme.Legacy) is read as ledger.Store reads it: by the columns of the map, its
// tables found by name, its keys asked for as text in whatever collation they are in, and what comes back compared byte by
// byte. What such a ledger cannot tell is in Report.Untold.

// errUnknownColumn is the servers' number for a column that a table does not have.
const errUnknownColumn = 1054

// legacyCatalog is the catalog of a ledger made by someone else: a row of its prefix, if there is one, and the tables that
// there are. A table that the row lists and that is gone is not missed.
func (b *books) legacyCatalog(ctx context.Context) (partition.Catalog, error) {
	cat, err := partition.LoadCatalog(ctx, b.db, b.scheme)
	if err != nil && !errors.Is(err, partition.ErrNoCatalog) {
		return cat, err
	}
	found, err := partition.FindTables(ctx, b.db, b.scheme)
	if err != nil {
		return cat, fmt.Errorf("find the tables of %s: %w", b.scheme.Prefix(), err)
	}
	tables := slices.Clone(cat.Tables)
	for _, t := range found {
		if !slices.ContainsFunc(cat.Tables, func(l partition.Table) bool { return slices.Contains(l.Names(), t.Name) }) {
			tables = append(tables, t)
		}
	}
	cat.Tables = nil
	for _, t := range tables {
		for _, name := range t.Names() {
			there, err := b.fits(ctx, name)
			if err != nil {
				return cat, err
			}
			if there {
				cat.Tables = append(cat.Tables, partition.Table{Month: t.Month, Name: name, State: t.State})
				break
			}
		}
	}
	if len(cat.Tables) == 0 {
		return cat, fmt.Errorf("%w: there is neither %[2]s nor any %[2]s_YYYYMM that this user may see", ledger.ErrMonthMissing, b.scheme.Prefix())
	}
	return cat, nil
}

// fits reports whether a table is there. It returns ledger.ErrColumnMap for one that has not the columns of the map, or
// whose times are no times.
func (b *books) fits(ctx context.Context, table string) (bool, error) {
	rows, err := b.db.QueryContext(ctx, b.scheme.Columns().Select(table)+" LIMIT 0")
	switch mysqlx.Number(err) {
	case mysqlx.ErrNoSuchTable:
		return false, nil
	case errUnknownColumn:
		return false, fmt.Errorf("%w: table %s: %w", ledger.ErrColumnMap, table, err)
	}
	if err != nil {
		return false, fmt.Errorf("look into %s: %w", table, err)
	}
	defer rows.Close()
	types, err := rows.ColumnTypes()
	if err != nil {
		return false, fmt.Errorf("look into %s: %w", table, err)
	}
	times := 1 // the columns before them
	if b.scheme.Columns().BizType != "" {
		times++
	}
	for _, t := range types[times:] {
		switch t.DatabaseTypeName() {
		case "DATETIME", "TIMESTAMP", "DATE":
		default:
			return false, fmt.Errorf("%w: table %s: column %s is %s, and should be a DATETIME or TIMESTAMP", ledger.ErrColumnMap, table, t.Name(), t.DatabaseTypeName())
		}
	}
	return true, rows.Err()
}

// told reports whether the ledger says of its rows whose they are: by a column, or because it has one biz_type only.
func (b *books) told() bool {
	return !b.scheme.Legacy() || b.scheme.Columns().BizType != "" || b.onlyBiz != ""
}

// pageLegacy is page for a table of someone else. Keys that are no text can only be in a column of bytes. They go apart:
// beside them the server would compare all as bytes, and use no index on text.
func (b *books) pageLegacy(ctx context.Context, table, biz string, keys []ledger.Key, at []int, each func(int, row)) error {
	index := make(map[string]int, len(at))
	var texts, raws []any
	for _, i := range at {
		id := keys[i].OrderID
		index[id] = i
		if utf8.ValidString(id) {
			texts = append(texts, id)
		} else {
			raws = append(raws, []byte(id))
		}
	}
	take := func(w *walked) error {
		if i, asked := index[w.key.OrderID]; asked {
			each(i, row{table: table, created: w.created, expires: w.expires})
		}
		return nil
	}
	for _, ids := range [][]any{texts, raws} {
		if err := b.findText(ctx, table, biz, ids, take); err != nil {
			return err
		}
	}
	return nil
}

// findText looks for keys. A key that its column's character set cannot hold is not in it: the server refuses to look, so it
// is told apart from the others.
func (b *books) findText(ctx context.Context, table, biz string, ids []any, take func(*walked) error) error {
	if len(ids) == 0 {
		return nil
	}
	c := b.scheme.Columns()
	query := b.scheme.Columns().Select(table) + " WHERE " + mysqlx.Quote(c.OrderID) + " IN (?" + strings.Repeat(",?", len(ids)-1) + ")"
	args := slices.Clone(ids)
	if c.BizType != "" {
		query += " AND " + mysqlx.Quote(c.BizType) + " = ?"
		args = append(args, biz)
	}
	err := b.queryLegacy(ctx, query, args, func(w *walked) error {
		if c.BizType != "" && w.key.BizType != biz {
			return nil
		}
		return take(w)
	})
	if !mysqlx.IsCharset(err) {
		return err
	}
	if len(ids) == 1 {
		return nil
	}
	half := len(ids) / 2 //nolint:mnd // a half
	if err := b.findText(ctx, table, biz, ids[:half], take); err != nil {
		return err
	}
	return b.findText(ctx, table, biz, ids[half:], take)
}

// queryLegacy calls take with each row of a query by Columns.Select. take keeps nothing of it but its key.
func (b *books) queryLegacy(ctx context.Context, query string, args []any, take func(*walked) error) error {
	rows, err := b.db.QueryContext(ctx, b.server.Limited(query, b.limit), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	c := b.scheme.Columns()
	var (
		id, kind         sql.RawBytes
		created, expires sql.NullTime
	)
	into := []any{&id}
	if c.BizType != "" {
		into = append(into, &kind)
	}
	into = append(into, &created)
	if c.ExpireAt != "" {
		into = append(into, &expires)
	}
	for rows.Next() {
		expires = sql.NullTime{}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		w := walked{key: ledger.Key{BizType: b.onlyBiz, OrderID: string(id)}, tables: 1}
		if c.BizType != "" {
			w.key.BizType = string(kind)
		}
		w.created, w.expires = lifetime(created, expires, b.retention)
		if err := take(&w); err != nil {
			return err
		}
	}
	return rows.Err()
}

// lifetime is when a row was made and when it expires: at the time it says, else after the retention. Zero: not known.
func lifetime(created, expires sql.NullTime, retention time.Duration) (from, to time.Time) {
	from = created.Time.UTC()
	switch {
	case expires.Valid:
		to = expires.Time.UTC()
	case created.Valid:
		to = from.Add(retention)
	}
	return from, to
}
