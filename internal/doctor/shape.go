package doctor

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// shape is what information_schema says of one table.
type shape struct {
	Name    string
	Engine  string
	Columns map[string]column // by name in lower case
	Indexes map[string]*index
}

type column struct {
	Type      string // varchar
	Collation string // empty: bytes
	Bytes     int64  // the most a value can have; 0: not a text
	Chars     int64
}

type index struct {
	Name    string
	Unique  bool
	Columns []string // in lower case
	Prefix  bool     // it holds only the beginning of some column
}

func (s *shape) column(name string) (column, bool) {
	c, ok := s.Columns[strings.ToLower(name)]
	return c, ok
}

// indexOn finds an index that begins with a column.
func (s *shape) indexOn(name string) bool {
	for _, ix := range s.Indexes {
		if name != "" && strings.EqualFold(ix.Columns[0], name) {
			return true
		}
	}
	return false
}

func readShapes(ctx context.Context, q mysqlx.Queryer, names []string) (map[string]*shape, error) {
	shapes := map[string]*shape{}
	if len(names) == 0 {
		return shapes, nil
	}
	in := "(?" + strings.Repeat(", ?", len(names)-1) + ")"
	args := make([]any, len(names))
	for i, n := range names {
		args[i] = n
	}
	var name, second string
	err := query(ctx, q, "SELECT table_name, COALESCE(engine, table_type) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name IN "+in,
		args, []any{&name, &second}, func() {
			shapes[name] = &shape{Name: name, Engine: second, Columns: map[string]column{}, Indexes: map[string]*index{}}
		})
	if err != nil {
		return nil, err
	}
	var collation sql.NullString
	var bytes, chars sql.NullInt64
	var kind string
	err = query(ctx, q, `SELECT table_name, column_name, data_type, collation_name, character_octet_length, character_maximum_length
		FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name IN `+in,
		args, []any{&name, &second, &kind, &collation, &bytes, &chars}, func() {
			if s := shapes[name]; s != nil {
				s.Columns[strings.ToLower(second)] = column{Type: strings.ToLower(kind), Collation: collation.String, Bytes: bytes.Int64, Chars: chars.Int64}
			}
		})
	if err != nil {
		return nil, err
	}
	var on string
	var unique, part bool
	err = query(ctx, q, `SELECT table_name, index_name, COALESCE(column_name, '(expression)'), non_unique = 0, sub_part IS NOT NULL
		FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name IN `+in+` ORDER BY table_name, index_name, seq_in_index`,
		args, []any{&name, &second, &on, &unique, &part}, func() {
			s := shapes[name]
			if s == nil {
				return
			}
			ix := s.Indexes[second]
			if ix == nil {
				ix = &index{Name: second, Unique: unique}
				s.Indexes[second] = ix
			}
			ix.Columns = append(ix.Columns, strings.ToLower(on))
			ix.Prefix = ix.Prefix || part
		})
	return shapes, err
}

// query calls each for every row, which has been scanned into the places given.
func query(ctx context.Context, q mysqlx.Queryer, text string, args, into []any, each func()) error {
	rows, err := q.QueryContext(ctx, text, args...)
	if err != nil {
		return fmt.Errorf("read from the database: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return fmt.Errorf("read from the database: %w", err)
		}
		each()
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read from the database: %w", err)
	}
	return nil
}
