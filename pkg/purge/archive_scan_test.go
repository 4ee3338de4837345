package purge_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/idemctl/idemctl/pkg/purge"
)

// hazard P13: each page is read from where the last one ended, along the expiry index, also where all rows have the same
// expiry: what the server reads grows with the rows, not with their square.
func TestConformanceArchiveReads(t *testing.T) {
	t.Parallel()
	onShelves(t, func(s *shelf) {
		const n = 20_500 // five pages
		s.fill(s.table, n)
		conn, err := s.DB.Conn(s.Context())
		s.must(err)
		defer conn.Close()
		q := &explainingQueryer{Conn: conn, t: s.T}
		before := handlerReads(s, conn)
		_, err = purge.WriteArchive(s.Context(), q, s.selection(), s.options(), 0)
		s.must(err)
		if read := handlerReads(s, conn) - before; read > 3*n {
			s.Errorf("%d reads for %d rows", read, n)
		}
		if q.pages != 5 {
			s.Errorf("%d pages", q.pages)
		}
	})
}

// handlerReads counts the rows that this session has had the storage engine read.
func handlerReads(s *shelf, conn *sql.Conn) int64 {
	s.Helper()
	rows, err := conn.QueryContext(s.Context(), "SHOW SESSION STATUS WHERE Variable_name IN ('Handler_read_next', 'Handler_read_key', 'Handler_read_first', 'Handler_read_rnd', 'Handler_read_rnd_next')")
	s.must(err)
	defer rows.Close()
	var sum int64
	for rows.Next() {
		var name string
		var n int64
		s.must(rows.Scan(&name, &n))
		sum += n
	}
	s.must(rows.Err())
	return sum
}

// explainingQueryer looks how each page is read.
type explainingQueryer struct {
	*sql.Conn

	t     *testing.T
	pages int
}

func (q *explainingQueryer) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if strings.Contains(query, "ORDER BY `expire_at`") {
		q.pages++
		q.explain(ctx, query, args...)
	}
	return q.Conn.QueryContext(ctx, query, args...)
}

func (q *explainingQueryer) explain(ctx context.Context, query string, args ...any) {
	q.t.Helper()
	rows, err := q.Conn.QueryContext(ctx, "EXPLAIN "+query, args...)
	if err != nil {
		q.t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		q.t.Fatal(err)
	}
	for rows.Next() {
		cells := make([]sql.NullString, len(columns))
		into := make([]any, len(columns))
		for i := range cells {
			into[i] = &cells[i]
		}
		if err := rows.Scan(into...); err != nil {
			q.t.Fatal(err)
		}
		for i, c := range columns {
			if c == "key" && cells[i].String != "idx_expire_at" || c == "Extra" && strings.Contains(cells[i].String, "filesort") {
				q.t.Errorf("%s is %q: %s", c, cells[i].String, query)
			}
		}
	}
	if err := rows.Err(); err != nil {
		q.t.Fatal(err)
	}
}
