package purge

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/partition"
)

// ownIndex is the expiry index of the months that partition makes. With the primary key that InnoDB appends it holds all
// that a purge reads.
const ownIndex = "idx_expire_at"

// shape is how one table is read and deleted from.
type shape struct {
	table   string // the name under which it is found now
	columns partition.Columns
	// readIndex serves the expiry bounds; empty: none does, and the table is read in the order of its primary key.
	readIndex string
	// deleteIndex begins with the order_id.
	deleteIndex string
	// order is the cursor: the index's own order, to its unique end (hazard P6).
	order []string
	// extra are the columns of order that a Victim does not have.
	extra []string
	// binary are the columns whose values are bytes; others are bound as text, so that their collation holds.
	binary map[string]bool
	legacy bool
}

// ownShape is that of a month that partition made.
func ownShape(table string) shape {
	c := partition.OwnColumns()
	return shape{
		table: table, columns: c, readIndex: ownIndex, deleteIndex: "PRIMARY",
		order:  []string{c.ExpireAt, c.CreateTime, c.OrderID, c.BizType},
		binary: map[string]bool{c.OrderID: true, c.BizType: true},
	}
}

func readShape(ctx context.Context, q mysqlx.Queryer, s partition.Scheme, table string) (shape, error) {
	if !s.Legacy() {
		return ownShape(table), nil
	}
	return legacyShape(ctx, q, table, s.Columns())
}

// expiry is the column that the cursor and the bounds compare: create_time where there is no expiry column.
func (s shape) expiry() string {
	if s.columns.ExpireAt != "" {
		return s.columns.ExpireAt
	}
	return s.columns.CreateTime
}

// from is the FROM clause of a statement that reads by the expiry.
func (s shape) from() string {
	if s.readIndex == "" {
		return " FROM " + mysqlx.Quote(s.table)
	}
	return " FROM " + mysqlx.Quote(s.table) + " FORCE INDEX (" + mysqlx.Quote(s.readIndex) + ")"
}

// bizColumn is the SELECT expression of the biz_type.
func (s shape) bizColumn() string {
	if s.columns.BizType == "" {
		return "''"
	}
	return mysqlx.Quote(s.columns.BizType)
}

type indexFacts struct {
	name    string
	columns []string
}

// legacyShape looks how a table made by someone else can be read: by an index that begins with the expiry, if there is one,
// else along its primary key.
func legacyShape(ctx context.Context, q mysqlx.Queryer, table string, c partition.Columns) (shape, error) {
	s := shape{table: table, columns: c, legacy: true}
	types, err := columnTypes(ctx, q, table)
	if err != nil {
		return s, err
	}
	if err := checkColumns(table, c, types); err != nil {
		return s, err
	}
	s.binary = map[string]bool{}
	for name, kind := range types {
		s.binary[name] = strings.Contains(kind, "binary") || strings.Contains(kind, "blob")
	}
	indexes, err := readIndexes(ctx, q, table)
	if err != nil {
		return s, err
	}
	var primary []string
	for _, ix := range indexes {
		if ix.name == "PRIMARY" {
			primary = ix.columns
		}
		if strings.EqualFold(ix.columns[0], c.OrderID) && s.deleteIndex == "" {
			s.deleteIndex = ix.name
		}
		if strings.EqualFold(ix.columns[0], s.expiry()) && s.readIndex == "" {
			s.readIndex = ix.name
			s.order = []string{s.expiry()}
			if len(ix.columns) > 1 && strings.EqualFold(ix.columns[1], c.CreateTime) {
				s.order = append(s.order, c.CreateTime)
			}
		}
	}
	if s.deleteIndex == "" {
		return s, fmt.Errorf("%w: %s has none that begins with %s, so each delete would read all of it", ErrNoIndex, table, c.OrderID)
	}
	if len(primary) == 0 || slices.Contains(primary, "") {
		primary = partition.Columns{OrderID: c.OrderID, BizType: c.BizType}.Names()
	}
	for _, name := range primary {
		if !slices.Contains(s.order, name) {
			s.order = append(s.order, name)
		}
	}
	for _, name := range s.order {
		if !slices.Contains(c.Names(), name) {
			s.extra = append(s.extra, name)
		}
	}
	return s, nil
}

// checkColumns refuses a table without the columns, or whose times are no times: a comparison with a number would select
// rows that nobody meant.
func checkColumns(table string, c partition.Columns, types map[string]string) error {
	for _, name := range c.Names() {
		if _, ok := types[name]; !ok {
			return fmt.Errorf("%w: table %s has no column %s (ledger.columns)", ErrOptions, table, name)
		}
	}
	for _, name := range []string{c.CreateTime, c.ExpireAt} {
		if name == "" {
			continue
		}
		if t := types[name]; t != "datetime" && t != "timestamp" && t != "date" {
			return fmt.Errorf("%w: column %s of %s is %s, not a DATETIME or TIMESTAMP", ErrOptions, name, table, t)
		}
	}
	return nil
}

func columnTypes(ctx context.Context, q mysqlx.Queryer, table string) (map[string]string, error) {
	types := map[string]string{}
	err := each(ctx, q, "read the columns of "+table, `SELECT column_name, data_type FROM information_schema.columns
		WHERE table_schema = DATABASE() AND table_name = ?`, func(name, kind string) {
		types[name] = strings.ToLower(kind)
	}, table)
	return types, err
}

// readIndexes lists the indexes, the primary key first. A column of which an index holds only the beginning stands in it
// without a name.
func readIndexes(ctx context.Context, q mysqlx.Queryer, table string) ([]indexFacts, error) {
	var all []indexFacts
	err := each(ctx, q, "read the indexes of "+table, `SELECT index_name, IF(sub_part IS NULL, COALESCE(column_name, ''), '') FROM information_schema.statistics
		WHERE table_schema = DATABASE() AND table_name = ?
		ORDER BY index_name <> 'PRIMARY', index_name, seq_in_index`, func(name, column string) {
		if n := len(all); n > 0 && all[n-1].name == name {
			all[n-1].columns = append(all[n-1].columns, column)
			return
		}
		all = append(all, indexFacts{name: name, columns: []string{column}})
	}, table)
	return all, err
}

// each runs a query of two text columns.
func each(ctx context.Context, q mysqlx.Queryer, what, query string, fn func(a, b string), args ...any) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	defer rows.Close()
	for rows.Next() {
		var a, b string
		if err := rows.Scan(&a, &b); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		fn(a, b)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
