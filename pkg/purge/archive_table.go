package purge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/partition"
)

// valueKind says how a column's values are written in a line.
type valueKind uint8

const (
	kindText   valueKind = iota // a string, or base64 where it is no UTF-8
	kindBytes                   // as text, bound to a statement as bytes
	kindNumber                  // digits
	kindFloat                   // digits, asked for in full
	kindTime                    // RFC 3339
	kindHex                     // hexadecimal
	kindDate                    // a string; asked for as one, since the driver would parse it
)

// kindOf reads information_schema's column type.
func kindOf(columnType string) valueKind {
	if strings.Contains(columnType, "zerofill") {
		return kindDate // leading zeros are no JSON number
	}
	word := strings.ToLower(columnType)
	if i := strings.IndexFunc(word, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }); i >= 0 {
		word = word[:i]
	}
	switch word {
	case "tinyint", "smallint", "mediumint", "int", "bigint", "decimal":
		return kindNumber
	case "float", "double":
		return kindFloat
	case "datetime", "timestamp":
		return kindTime
	case "date", "time", "year":
		return kindDate
	case "varbinary", "tinyblob", "blob", "mediumblob", "longblob":
		return kindBytes
	case "binary", "bit", "vector", "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
		"geometrycollection", "geomcollection":
		return kindHex
	}
	return kindText
}

// tableLayout is what reading a table in a fixed order needs to know.
type tableLayout struct {
	columns []ArchiveColumn
	kinds   []valueKind
	// The places of the columns that mean something; -1: there is none.
	order, biz, create, expire int
	retention                  time.Duration // where expire is -1
	// cursor are the places of the columns by which rows are ordered: expiry, creation time as far as an index has them, and
	// the primary key. No two rows have the same (hazard P6).
	cursor []int
	index  string // the index that is in this order; "": the primary key is
}

// readLayout asks information_schema for all columns of a table, also those that someone has added.
func readLayout(ctx context.Context, q mysqlx.Queryer, table string, names partition.Columns, retention time.Duration) (*tableLayout, error) {
	l := &tableLayout{retention: retention}
	if err := l.readColumns(ctx, q, table); err != nil {
		return nil, fmt.Errorf("columns of %s: %w", table, err)
	}
	if len(l.columns) == 0 {
		return nil, fmt.Errorf("table %s is not there, or this user may not see it", table)
	}
	if err := l.find(names); err != nil {
		return nil, fmt.Errorf("table %s: %w", table, err)
	}
	if err := l.readOrder(ctx, q, table); err != nil {
		return nil, fmt.Errorf("indexes of %s: %w", table, err)
	}
	return l, nil
}

func (l *tableLayout) readColumns(ctx context.Context, q mysqlx.Queryer, table string) error {
	rows, err := q.QueryContext(ctx, `SELECT column_name, column_type, COALESCE(generation_expression, '') <> ''
		FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = ? ORDER BY ordinal_position`, table)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var c ArchiveColumn
		if err := rows.Scan(&c.Name, &c.Type, &c.Computed); err != nil {
			return err
		}
		c.Type = strings.ToLower(c.Type)
		l.columns = append(l.columns, c)
		l.kinds = append(l.kinds, kindOf(c.Type))
	}
	return rows.Err()
}

// find looks up the columns of the map.
func (l *tableLayout) find(names partition.Columns) error {
	l.order, l.biz, l.create, l.expire = l.at(names.OrderID), l.at(names.BizType), l.at(names.CreateTime), l.at(names.ExpireAt)
	for name, at := range map[string]int{names.OrderID: l.order, names.BizType: l.biz, names.CreateTime: l.create, names.ExpireAt: l.expire} {
		if at < 0 && name != "" {
			return fmt.Errorf("it has no column %s", name)
		}
	}
	if l.order < 0 || l.create < 0 {
		return errors.New("the column map names no order_id or no create_time")
	}
	for _, at := range []int{l.create, l.expire} {
		if at >= 0 && l.kinds[at] != kindTime && l.columns[at].Type != "date" {
			return fmt.Errorf("column %s is %s, not a DATETIME or TIMESTAMP", l.columns[at].Name, l.columns[at].Type)
		}
	}
	return nil
}

func (l *tableLayout) at(name string) int {
	if name == "" {
		return -1
	}
	return slices.IndexFunc(l.columns, func(c ArchiveColumn) bool { return strings.EqualFold(c.Name, name) })
}

// readOrder finds the index that starts with the expiry, and orders the rows as it does. Where there is none they are read
// along the primary key: sorting them anew for every page would read all of them for each.
func (l *tableLayout) readOrder(ctx context.Context, q mysqlx.Queryer, table string) error {
	indexes, err := readIndexes(ctx, q, table)
	if err != nil {
		return err
	}
	if len(indexes) == 0 || indexes[0].name != "PRIMARY" || slices.Contains(indexes[0].columns, "") {
		return errors.New("it has no primary key over whole columns, and rows without one cannot be told apart")
	}
	wanted := []int{l.create}
	if l.expire >= 0 {
		wanted = []int{l.expire, l.create}
	}
	for _, ix := range indexes {
		n := 0
		for n < len(ix.columns) && n < len(wanted) && l.at(ix.columns[n]) == wanted[n] {
			n++
		}
		if n > len(l.cursor) {
			l.cursor, l.index = wanted[:n:n], ix.name
		}
	}
	for _, name := range indexes[0].columns {
		if at := l.at(name); !slices.Contains(l.cursor, at) {
			l.cursor = append(l.cursor, at)
		}
	}
	return nil
}

// selectList asks for every column as text, times as the server writes them, so that nothing is lost on the way.
func (l *tableLayout) selectList() string {
	list := make([]string, len(l.columns))
	for i, c := range l.columns {
		name := mysqlx.Quote(c.Name)
		switch l.kinds[i] {
		case kindTime, kindDate:
			name = "CAST(" + name + " AS CHAR)"
		case kindFloat:
			name = "(" + name + " + 0e0)" // a FLOAT by itself is shown with six digits
		case kindText, kindBytes, kindNumber, kindHex:
		}
		list[i] = name
	}
	return strings.Join(list, ", ")
}
