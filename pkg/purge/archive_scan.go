package purge

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// archivePage is how many rows one query reads: short statements, so that the server need not keep old versions of rows
// for a snapshot that a slow disk makes long.
const archivePage = 5000

// tableScan reads a table in the order of its layout, page by page. Each page is a statement of its own.
type tableScan struct {
	q      mysqlx.Queryer
	layout *tableLayout
	table  string
	where  string // which rows; "" all
	limit  int64  // rows in all; 0 all
}

// run calls fn for each row. The values are valid until fn returns; nil is NULL.
func (s *tableScan) run(ctx context.Context, fn func(row []sql.RawBytes) error) error {
	row := make([]sql.RawBytes, len(s.layout.columns))
	into := make([]any, len(row))
	for i := range row {
		into[i] = &row[i]
	}
	var last [][]byte
	for left := s.limit; ; {
		page := int64(archivePage)
		if s.limit > 0 {
			page = min(page, left)
		}
		n, next, err := s.page(ctx, last, page, into, row, fn)
		if err != nil {
			return fmt.Errorf("read %s: %w", s.table, err)
		}
		last, left = next, left-n
		if n < page || s.limit > 0 && left == 0 {
			return nil
		}
	}
}

func (s *tableScan) page(ctx context.Context, after [][]byte, page int64, into []any, row []sql.RawBytes, fn func([]sql.RawBytes) error) (int64, [][]byte, error) {
	query, args := s.query(after, page)
	rows, err := s.q.QueryContext(ctx, query, args...)
	if err != nil {
		return 0, nil, err
	}
	defer rows.Close()
	var n int64
	var last [][]byte
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return n, nil, err
		}
		if err := fn(row); err != nil {
			return n, nil, err
		}
		n++
		if n == page {
			for _, at := range s.layout.cursor {
				last = append(last, bytes.Clone(row[at]))
			}
		}
	}
	return n, last, rows.Err()
}

// query reads one page after the row whose cursor columns are given.
func (s *tableScan) query(after [][]byte, page int64) (string, []any) {
	l := s.layout
	order := make([]string, len(l.cursor))
	for i, at := range l.cursor {
		order[i] = mysqlx.Quote(l.columns[at].Name)
	}
	var b strings.Builder
	b.WriteString("SELECT " + l.selectList() + " FROM " + mysqlx.Quote(s.table))
	if l.index != "" {
		b.WriteString(" FORCE INDEX (" + mysqlx.Quote(l.index) + ")") // hazard P13
	}
	var args []any
	var conditions []string
	if s.where != "" {
		conditions = append(conditions, s.where)
	}
	if after != nil {
		condition, values := l.after(order, after)
		conditions, args = append(conditions, condition), values
	}
	if len(conditions) > 0 {
		b.WriteString(" WHERE " + strings.Join(conditions, " AND "))
	}
	b.WriteString(" ORDER BY " + strings.Join(order, ", ") + " LIMIT " + strconv.FormatInt(page, 10))
	return b.String(), args
}

// after is the condition that a row comes later in the order than the one given: e >= E AND (e > E OR (c > C OR (c = C
// AND …))), which the servers turn into ranges of one index.
func (l *tableLayout) after(order []string, values [][]byte) (string, []any) {
	condition, args := "", []any(nil)
	for i, name := range slices.Backward(order) {
		v := l.bind(l.cursor[i], values[i])
		if condition == "" {
			condition, args = name+" > ?", []any{v}
			continue
		}
		condition = "(" + name + " > ? OR (" + name + " = ? AND " + condition + "))"
		args = append([]any{v, v}, args...)
	}
	return order[0] + " >= ? AND " + condition, append([]any{l.bind(l.cursor[0], values[0])}, args...)
}

// bind makes a value that was read an argument of a statement: bytes where the column holds bytes, else text in the
// connection's character set.
func (l *tableLayout) bind(at int, v []byte) any {
	switch {
	case v == nil:
		return nil
	case l.kinds[at] == kindBytes || l.kinds[at] == kindHex:
		return v
	}
	return string(v)
}
