package purge

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// cursor reads the victims of a selection page by page, each page where the last one ended: in the order of the expiry index
// down to its unique end, so that rows of one expiry, however many, are neither skipped nor met twice (hazard P6). A page
// is a statement of its own, so nothing is kept open in the server.
type cursor struct {
	q     mysqlx.Queryer
	shape shape
	sel   Selection
	after []fragment // the last row's values of shape.order; nil at the beginning
	done  bool
}

// fragment is a piece of a statement with the values bound in it.
type fragment struct {
	text string
	args []any
}

// Next returns up to n victims, and io.EOF when there are no more.
func (c *cursor) Next(ctx context.Context, n int) ([]Victim, error) {
	if c.done {
		return nil, io.EOF
	}
	query, args := c.query(n)
	rows, err := c.q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, c.shape.explain("read expired rows", err)
	}
	defer rows.Close()
	victims := make([]Victim, 0, n)
	scan := newVictimScanner(c.shape, c.sel)
	for rows.Next() {
		v, err := scan.scan(rows)
		if err != nil {
			return nil, c.shape.explain("read expired rows", err)
		}
		victims = append(victims, v)
	}
	if err := rows.Err(); err != nil {
		return nil, c.shape.explain("read expired rows", err)
	}
	c.done = len(victims) < n
	if len(victims) == 0 {
		return nil, io.EOF
	}
	if !c.done {
		if c.after, err = scan.position(victims[len(victims)-1]); err != nil {
			return nil, c.shape.explain("read expired rows", err)
		}
	}
	return victims, nil
}

// query is the statement of the next page.
func (c *cursor) query(n int) (query string, args []any) {
	text := []byte("SELECT " + mysqlx.Quote(c.shape.columns.OrderID) + ", " + c.shape.bizColumn() + ", " +
		mysqlx.Quote(c.shape.columns.CreateTime) + ", " + mysqlx.Quote(c.shape.expiry()))
	for _, name := range c.shape.extra {
		text = append(text, ", "+mysqlx.Quote(name)...)
	}
	text = append(text, c.shape.from()+" WHERE "+c.sel.Where()...)
	if c.after != nil {
		text, args = c.appendAfter(text)
	}
	text = append(text, " ORDER BY "...)
	for i, name := range c.shape.order {
		if i > 0 {
			text = append(text, ", "...)
		}
		text = append(text, mysqlx.Quote(name)...)
	}
	return string(strconv.AppendInt(append(text, " LIMIT "...), int64(n), 10)), args
}

// appendAfter writes the condition "later than the last row" as a chain of alternatives, a > x OR (a = x AND b > y) OR …:
// the servers turn that into ranges of the index, which a comparison of tuples they do not, and go straight to the place,
// past what has been deleted before it.
func (c *cursor) appendAfter(text []byte) (query []byte, args []any) {
	text = append(text, " AND ("...)
	for i := range c.after {
		if i > 0 {
			text = append(text, " OR "...)
		}
		text = append(text, '(')
		for j := range i + 1 {
			op := " = "
			if j == i {
				op = " > "
			}
			if j > 0 {
				text = append(text, " AND "...)
			}
			text = append(text, mysqlx.Quote(c.shape.order[j])+op+c.after[j].text...)
			args = append(args, c.after[j].args...)
		}
		text = append(text, ')')
	}
	return append(text, ')'), args
}

// victimScanner reads rows without keeping what the driver lends it.
type victimScanner struct {
	shape shape
	plus  time.Duration // from the column to the expiry

	order, biz sql.RawBytes
	created    time.Time
	expiry     time.Time
	extra      []any
	into       []any
	lastBiz    string // most rows have the same
}

func newVictimScanner(s shape, sel Selection) *victimScanner {
	v := &victimScanner{shape: s, extra: make([]any, len(s.extra))}
	_, v.plus = sel.expiryColumn()
	v.into = []any{&v.order, &v.biz, &v.created, &v.expiry}
	for i := range v.extra {
		v.into = append(v.into, &v.extra[i])
	}
	return v
}

func (s *victimScanner) scan(rows *sql.Rows) (Victim, error) {
	if err := rows.Scan(s.into...); err != nil {
		return Victim{}, err
	}
	if string(s.biz) != s.lastBiz {
		s.lastBiz = string(s.biz)
	}
	return Victim{OrderID: string(s.order), BizType: s.lastBiz, CreateTime: s.created.UTC(), Expiry: s.expiry.UTC().Add(s.plus)}, nil
}

// position says where the row last scanned stands.
func (s *victimScanner) position(last Victim) ([]fragment, error) {
	after := make([]fragment, len(s.shape.order))
	for i, name := range s.shape.order {
		switch name {
		case s.shape.expiry():
			after[i].text = exactLiteral(last.Expiry.Add(-s.plus))
		case s.shape.columns.CreateTime:
			after[i].text = exactLiteral(last.CreateTime)
		case s.shape.columns.OrderID:
			after[i] = s.shape.value(name, last.OrderID)
		case s.shape.columns.BizType:
			after[i] = s.shape.value(name, last.BizType)
		default:
			f, err := s.shape.anyValue(name, s.extra[slices.Index(s.shape.extra, name)])
			if err != nil {
				return nil, err
			}
			after[i] = f
		}
	}
	return after, nil
}

// value is a column's value in a statement.
func (s shape) value(column, value string) fragment {
	text, args := s.appendValue(nil, nil, column, value)
	return fragment{text: string(text), args: args}
}

// appendValue writes a value so that it is compared as the column's own are: bytes as bytes, text by its collation.
func (s shape) appendValue(text []byte, args []any, column, value string) ([]byte, []any) {
	n := len(args)
	text, args = mysqlx.AppendText(text, args, value)
	if len(args) > n && !s.binary[column] {
		args[n] = value
	}
	return text, args
}

// anyValue is the value of a key column of someone else's table.
func (s shape) anyValue(column string, value any) (fragment, error) {
	switch v := value.(type) {
	case int64:
		return fragment{text: strconv.FormatInt(v, 10)}, nil
	case uint64:
		return fragment{text: strconv.FormatUint(v, 10)}, nil
	case []byte:
		return s.value(column, string(v)), nil
	case string:
		return s.value(column, v), nil
	case time.Time:
		return fragment{text: exactLiteral(v)}, nil
	}
	return fragment{}, fmt.Errorf("%w: key column %s has values of a kind that cannot be followed (%T)", ErrOptions, column, value)
}

// exactLiteral writes a time as precisely as any column holds it.
func exactLiteral(t time.Time) string { return t.UTC().Format("'2006-01-02 15:04:05.000000'") }
