package purge

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// tally is what a slice of a table holds.
type tally struct {
	rows int64 // that go
	odd  int64 // that would, but for their create_time
	biz  []BizWindow
}

// count tells what of a slice goes, in one pass over the index where it can. The condition on create_time is left out of
// that pass: where the latest create_time of all satisfies it, all do, and the count is that of the very condition.
func (s shape) count(ctx context.Context, q mysqlx.Queryer, sel Selection, estimate int64) (tally, error) {
	all, err := s.sumApart(ctx, q, sel, estimate)
	if err != nil {
		return tally{}, err
	}
	switch {
	case all.rows == 0:
		return tally{}, nil
	case !all.created.After(sel.Cutoff) && all.firstBiz == all.lastBiz:
		return tally{rows: all.rows, biz: []BizWindow{{BizType: all.firstBiz, Rows: all.rows, MaxCreate: all.created}}}, nil
	}
	biz, err := s.byBiz(ctx, q, sel.Where())
	if err != nil {
		return tally{}, err
	}
	t := tally{biz: biz}
	for _, b := range biz {
		t.rows += b.Rows
	}
	t.odd = max(all.rows-t.rows, 0)
	return t, nil
}

// sums are aggregates over a slice that need no grouping: twice as fast as by biz_type, and most months hold one.
type sums struct {
	rows              int64
	firstBiz, lastBiz string
	created, expiry   time.Time // the latest
}

func (s shape) sum(ctx context.Context, q mysqlx.Queryer, where string) (sums, error) {
	var (
		a               sums
		first, last     sql.NullString
		created, expiry sql.NullTime
	)
	biz := s.bizColumn()
	query := "SELECT COUNT(*), MIN(" + biz + "), MAX(" + biz + "), MAX(" + mysqlx.Quote(s.columns.CreateTime) + "), MAX(" + mysqlx.Quote(s.expiry()) + ")" + s.from()
	if where != "" {
		query += " WHERE " + where
	}
	if err := q.QueryRowContext(ctx, query).Scan(&a.rows, &first, &last, &created, &expiry); err != nil {
		return a, s.explain("count the rows", err)
	}
	a.firstBiz, a.lastBiz = first.String, last.String
	a.created, a.expiry = upToMilli(created.Time), upToMilli(expiry.Time)
	return a, nil
}

// manyRows is from where on it pays to count over several connections, and countApart over how many.
const (
	manyRows   = 100_000
	countApart = 4
)

// sumApart sums a slice up, its expiry bounds alone, in several parts at once where it is large: a server reads an index for
// one statement on one core. The selection must have both bounds. q is a pool.
func (s shape) sumApart(ctx context.Context, q mysqlx.Queryer, sel Selection, estimate int64) (sums, error) {
	part := sel.To.Sub(sel.From) / countApart
	if s.readIndex == "" || estimate < manyRows || part < time.Millisecond {
		return s.sum(ctx, q, sel.whereExpiry())
	}
	var (
		wg    sync.WaitGroup
		parts [countApart]sums
		errs  [countApart]error
	)
	for i := range parts {
		mine := sel
		mine.From = sel.From.Add(time.Duration(i) * part).Truncate(time.Millisecond)
		if i+1 < countApart {
			mine.To = sel.From.Add(time.Duration(i+1) * part).Truncate(time.Millisecond)
		}
		wg.Go(func() { parts[i], errs[i] = s.sum(ctx, q, mine.whereExpiry()) })
	}
	wg.Wait()
	all := sums{}
	for i, p := range parts {
		if errs[i] != nil {
			return all, errs[i]
		}
		all.add(p)
	}
	return all, nil
}

// everything sums up a whole table, or only the latest expiry where not all of it is before the selection's end.
func (s shape) everything(ctx context.Context, q mysqlx.Queryer, sel Selection, estimate int64) (sums, error) {
	var first, last sql.NullTime
	expiry := mysqlx.Quote(s.expiry())
	if err := q.QueryRowContext(ctx, "SELECT MIN("+expiry+"), MAX("+expiry+")"+s.from()).Scan(&first, &last); err != nil {
		return sums{}, s.explain("count the rows", err)
	}
	if !first.Valid {
		return sums{}, nil
	}
	if !last.Time.Before(sel.To) {
		return sums{rows: 1, expiry: last.Time.UTC()}, nil
	}
	sel.From = first.Time.UTC()
	sel.To = last.Time.UTC().Add(time.Millisecond)
	return s.sumApart(ctx, q, sel, estimate)
}

// add makes a the sums of both.
func (a *sums) add(b sums) {
	switch {
	case b.rows == 0:
		return
	case a.rows == 0:
		*a = b
		return
	}
	a.rows += b.rows
	a.firstBiz, a.lastBiz = min(a.firstBiz, b.firstBiz), max(a.lastBiz, b.lastBiz)
	a.created, a.expiry = later(a.created, b.created), later(a.expiry, b.expiry)
}

func (s shape) byBiz(ctx context.Context, q mysqlx.Queryer, where string) ([]BizWindow, error) {
	biz := s.bizColumn()
	query := "SELECT " + biz + " AS b, COUNT(*), MAX(" + mysqlx.Quote(s.columns.CreateTime) + ")" + s.from()
	if where != "" {
		query += " WHERE " + where
	}
	rows, err := q.QueryContext(ctx, query+" GROUP BY b ORDER BY b")
	if err != nil {
		return nil, s.explain("count the rows", err)
	}
	defer rows.Close()
	var out []BizWindow
	for rows.Next() {
		var (
			b    BizWindow
			name sql.NullString
		)
		if err := rows.Scan(&name, &b.Rows, &b.MaxCreate); err != nil {
			return nil, s.explain("count the rows", err)
		}
		b.BizType, b.MaxCreate = name.String, upToMilli(b.MaxCreate)
		out = append(out, b)
	}
	if err := rows.Err(); err != nil {
		return nil, s.explain("count the rows", err)
	}
	return out, nil
}

// rest counts what stays of a table, and how much of that was created after now.
func (s shape) rest(ctx context.Context, q mysqlx.Queryer, sel Selection, now time.Time) (kept, odd int64, err error) {
	column, plus := sel.expiryColumn()
	var n sql.NullInt64
	err = q.QueryRowContext(ctx, "SELECT COUNT(*), SUM("+mysqlx.Quote(s.columns.CreateTime)+" > "+literal(now)+")"+s.from()+
		" WHERE "+mysqlx.Quote(column)+" >= "+literal(sel.To.Add(-plus))).Scan(&kept, &n)
	if err != nil {
		return 0, 0, s.explain("count the rows that stay", err)
	}
	return kept, n.Int64, nil
}

// oldest returns the earliest expiry within the selection's bounds, if there is one: one step into the index, however long
// ago it is.
func (s shape) oldest(ctx context.Context, q mysqlx.Queryer, sel Selection) (_ time.Time, found bool, err error) {
	_, plus := sel.expiryColumn()
	var t sql.NullTime
	if err := q.QueryRowContext(ctx, "SELECT MIN("+mysqlx.Quote(s.expiry())+")"+s.from()+" WHERE "+sel.whereExpiry()).Scan(&t); err != nil {
		return time.Time{}, false, s.explain("find the oldest row", err)
	}
	return t.Time.UTC().Add(plus), t.Valid, nil
}

// errNoKey is the servers' number for an index hint that names none.
const errNoKey = 1176

// explain says of what table an error is, and how a missing index is mended.
func (s shape) explain(what string, err error) error {
	if mysqlx.Number(err) == errNoKey {
		return fmt.Errorf("%s of %s: %w: %s (see: idemctl partition check): %w", what, s.table, ErrNoIndex, s.readIndex, err)
	}
	return fmt.Errorf("%s of %s: %w", what, s.table, err)
}

// verifyIndex asks the server whether it reads by the expiry index, whose order the cursor follows (hazard P13).
func (s shape) verifyIndex(ctx context.Context, q mysqlx.Queryer, sel Selection) error {
	if s.readIndex == "" {
		return nil
	}
	c := cursor{q: q, shape: s, sel: sel}
	query, args := c.query(DefaultBatch)
	key, err := explainedKey(ctx, q, query, args)
	if err != nil {
		return s.explain("explain the purge", err)
	}
	if !strings.EqualFold(key, s.readIndex) {
		return fmt.Errorf("%w: the server would read %s by %q instead of %s", ErrNoIndex, s.table, key, s.readIndex)
	}
	return nil
}

// explainedKey returns the index that the server would use.
func explainedKey(ctx context.Context, q mysqlx.Queryer, query string, args []any) (string, error) {
	rows, err := q.QueryContext(ctx, "EXPLAIN FORMAT=TRADITIONAL "+query, args...)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return "", err
	}
	at := slices.IndexFunc(names, func(n string) bool { return strings.EqualFold(n, "key") })
	values := make([]sql.NullString, len(names))
	into := make([]any, len(names))
	for i := range values {
		into[i] = &values[i]
	}
	key := ""
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return "", err
		}
		if at >= 0 && values[at].Valid {
			key = values[at].String
		}
	}
	return key, rows.Err()
}

// maxCreate is what the horizon must know of rows that go.
func maxCreate(biz []BizWindow) map[string]time.Time {
	m := make(map[string]time.Time, len(biz))
	for _, b := range biz {
		if b.MaxCreate.After(m[b.BizType]) {
			m[b.BizType] = b.MaxCreate
		}
	}
	return m
}

// mergeBiz adds up the windows of a table by biz_type, in their order.
func mergeBiz(windows []Window) []BizWindow {
	sum := map[string]BizWindow{}
	for _, w := range windows {
		for _, b := range w.Biz {
			s := sum[b.BizType]
			s.BizType = b.BizType
			s.Rows += b.Rows
			if b.MaxCreate.After(s.MaxCreate) {
				s.MaxCreate = b.MaxCreate
			}
			sum[b.BizType] = s
		}
	}
	out := make([]BizWindow, 0, len(sum))
	for _, name := range slices.Sorted(maps.Keys(sum)) {
		out = append(out, sum[name])
	}
	return out
}

// upToMilli rounds up to what a literal can say: a column of someone else may hold microseconds, and a bound below the row
// it speaks of would miss it.
func upToMilli(t time.Time) time.Time {
	t = t.UTC()
	if whole := t.Truncate(time.Millisecond); whole.Before(t) {
		return whole.Add(time.Millisecond)
	}
	return t
}
