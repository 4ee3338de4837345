package ledger

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
	"github.com/idemctl/idemctl/pkg/partition"
)

// A ledger made by someone else (partition.Scheme.Legacy) can be looked into: Guard.Classify says which keys it has.
//
//   - Only the columns of the map are read, by the names it gives them. What it does not have stays zero in an Entry.
//   - Without a biz_type column every row counts for the guard's biz_type, whatever effect it was written for.
//   - Its keys may be of a lax collation. The server then finds more than was asked for, and what it returns is compared byte
//     by byte: ORD-1 and ord-1 are two keys.
//   - Its tables are found by name (partition.FindTables), besides those that a catalog row of its prefix lists. Such a row
//     need not be there. Without one nobody has written down since when the ledger remembers anything: a key without a row
//     is outside the horizon unless the operator vouches for it (GuardOptions.MemorySince).
//   - It is never written. What keeps a key from running twice is a row that every writer inserts in the effect's own
//     transaction, under a key that is exact, and nothing says that of these tables.
var (
	// ErrLegacy says that an effect was to run on such a ledger.
	ErrLegacy = errors.New("a ledger made by someone else can be verified, not written")
	// ErrColumnMap says that a table does not have the columns that the map names.
	ErrColumnMap = errors.New("the column map does not fit the table")
)

// errUnknownColumn is the servers' number for a column that a table does not have.
const errUnknownColumn = 1054

// Legacy reports a store that can only be looked into (ErrLegacy).
func (s *Store) Legacy() bool { return s.scheme.Legacy() }

// catalog reads the catalog in one SELECT. That of a ledger made by someone else need not be there, and does not know of
// months that its owner has made meanwhile.
func (s *Store) catalog(ctx context.Context, zone *time.Location) (partition.Catalog, error) {
	cat, err := partition.LoadCatalog(ctx, s.read, s.scheme)
	if !s.Legacy() {
		return cat, err
	}
	switch {
	case errors.Is(err, partition.ErrNoCatalog):
		cat = partition.Catalog{TimeZone: zone.String()}
	case err != nil:
		return cat, err
	}
	found, err := partition.FindTables(ctx, s.read, s.scheme)
	if err != nil {
		return cat, fmt.Errorf("find the tables of %s: %w", s.scheme.Prefix(), err)
	}
	listed := map[string]bool{}
	for _, t := range cat.Tables {
		for _, name := range t.Names() {
			listed[name] = true
		}
	}
	for _, t := range found {
		if !listed[t.Name] {
			cat.Tables = append(cat.Tables, t)
		}
	}
	if len(cat.Tables) == 0 {
		return cat, fmt.Errorf("%w: there is neither %[2]s nor any %[2]s_YYYYMM that this user may see", ErrMonthMissing, s.scheme.Prefix())
	}
	return cat, nil
}

// verifyTables refuses tables that cannot be what the catalog takes them for, and returns those that are there.
func (s *Store) verifyTables(ctx context.Context, names []string) (map[string]bool, error) {
	if !s.Legacy() {
		return partition.VerifyTables(ctx, s.read, names)
	}
	found := make(map[string]bool, len(names))
	for _, name := range names {
		_, err := s.queryLegacy(ctx, s.read, name, "", s.scheme.Columns().Select(name)+" LIMIT 0")
		switch mysqlx.Number(err) {
		case mysqlx.ErrNoSuchTable:
			continue
		case errUnknownColumn:
			return nil, fmt.Errorf("%w: table %s: %w", ErrColumnMap, name, err)
		}
		if err != nil {
			return nil, fmt.Errorf("look into %s: %w", name, err)
		}
		found[name] = true
	}
	return found, nil
}

// findLegacy is find for the tables of someone else. A key goes to the server as text, to be compared in the character set of
// its column. One that is no text can only be in a column of bytes: it goes alone, or the server would compare all as bytes.
func (s *Store) findLegacy(ctx context.Context, q mysqlx.Queryer, table, biz string, orderIDs []string) ([]Entry, error) {
	var entries []Entry
	var texts []any
	for _, id := range orderIDs {
		if utf8.ValidString(id) {
			texts = append(texts, id)
			continue
		}
		found, err := s.findText(ctx, q, table, biz, []any{[]byte(id)})
		if err != nil {
			return nil, err
		}
		entries = append(entries, found...)
	}
	if len(texts) == 0 {
		return entries, nil
	}
	found, err := s.findText(ctx, q, table, biz, texts)
	return append(entries, found...), err
}

// findText looks for keys as they are given. A key that its column's character set cannot hold is not in it: the server
// refuses to look, so it is told apart from the others.
func (s *Store) findText(ctx context.Context, q mysqlx.Queryer, table, biz string, keys []any) ([]Entry, error) {
	c := s.scheme.Columns()
	query := s.scheme.Columns().Select(table) + " WHERE " + mysqlx.Quote(c.OrderID) + " IN (?" + strings.Repeat(",?", len(keys)-1) + ")"
	args := slices.Clone(keys)
	if c.BizType != "" {
		query += " AND " + mysqlx.Quote(c.BizType) + " = ?"
		args = append(args, biz)
	}
	entries, err := s.queryLegacy(ctx, q, table, biz, query, args...)
	if !mysqlx.IsCharset(err) {
		return entries, err
	}
	if len(keys) == 1 {
		return nil, nil
	}
	half := len(keys) / 2
	first, err := s.findText(ctx, q, table, biz, keys[:half])
	if err != nil {
		return nil, err
	}
	second, err := s.findText(ctx, q, table, biz, keys[half:])
	return append(first, second...), err
}

// queryLegacy reads the rows of biz. The server may have found others: another case, or trailing spaces.
func (s *Store) queryLegacy(ctx context.Context, q mysqlx.Queryer, table, biz, query string, args ...any) ([]Entry, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	return s.scanLegacy(rows, table, biz)
}

func (s *Store) scanLegacy(rows *sql.Rows, table, biz string) ([]Entry, error) {
	c := s.scheme.Columns()
	var (
		entries          []Entry
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
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		if c.BizType != "" && string(kind) != biz {
			continue
		}
		entries = append(entries, Entry{
			Key: Key{BizType: biz, OrderID: string(id)}, CreateTime: created.Time.UTC(), ExpireAt: expires.Time.UTC(), Table: table,
		})
	}
	return entries, rows.Err()
}

// legacyKeys calls add with every order_id of biz, in whatever order they come.
func (s *Store) legacyKeys(ctx context.Context, table, biz string, add func(orderID []byte) error) error {
	c := s.scheme.Columns()
	var id, kind sql.RawBytes
	into, names := []any{&id}, mysqlx.Quote(c.OrderID)
	if c.BizType != "" {
		into, names = append(into, &kind), names+", "+mysqlx.Quote(c.BizType)
	}
	rows, err := s.read.QueryContext(ctx, "SELECT "+names+" FROM "+mysqlx.Quote(table)) //nolint:gosec // quoted identifiers
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if c.BizType != "" && string(kind) != biz {
			continue
		}
		if err := add(id); err != nil {
			return err
		}
	}
	return rows.Err()
}
