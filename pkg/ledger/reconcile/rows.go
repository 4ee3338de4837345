package reconcile

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/partition"
)

// row is what a comparison needs of a ledger row.
type row struct {
	table            string
	created, expires time.Time
	fingerprint      []byte
}

// books is the ledger as a scan reads it.
type books struct {
	db     *sql.DB
	scheme partition.Scheme
	server mysqlx.Server
	limit  time.Duration // of one statement in the server
	// Of a ledger made by someone else: how long its rows last, and the one biz_type of rows that do not say theirs, or "".
	retention time.Duration
	onlyBiz   string

	mu      sync.Mutex
	catalog *partition.Catalog // replaced, never changed
	lastHit string             // the table in which keys were found last
}

// openBooks refuses a server on which a row might be missing that is there, or there that never was (hazard C9).
func openBooks(ctx context.Context, o *Options) (*books, error) {
	server, err := mysqlx.Inspect(ctx, o.DB)
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	if err := errors.Join(server.RequireWritable(), server.RequireReadCommitted(ctx, o.DB)); err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	b := &books{db: o.DB, scheme: o.Scheme, server: server, limit: o.StatementLimit, retention: o.Retention, onlyBiz: onlyBiz(o)}
	if _, err := b.reload(ctx); err != nil {
		return nil, err
	}
	return b, nil
}

// stillPrimary refuses a server that takes no writes any more.
func (b *books) stillPrimary(ctx context.Context) error {
	server, err := mysqlx.Inspect(ctx, b.db)
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	if err := server.RequireWritable(); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}

func (b *books) reload(ctx context.Context) (*partition.Catalog, error) {
	load := func(ctx context.Context) (partition.Catalog, error) {
		return partition.LoadCatalog(ctx, b.db, b.scheme)
	}
	if b.scheme.Legacy() {
		load = b.legacyCatalog
	}
	cat, err := load(ctx)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.catalog = &cat
	return &cat, nil
}

func (b *books) current() *partition.Catalog {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.catalog
}

// order is the tables by where keys are to be expected: where the last ones were, then the newest first.
func (b *books) order() []partition.Table {
	b.mu.Lock()
	defer b.mu.Unlock()
	tables := slices.Clone(b.catalog.Tables)
	slices.Reverse(tables)
	slices.SortStableFunc(tables, func(x, y partition.Table) int {
		switch b.lastHit {
		case x.Name:
			return -1
		case y.Name:
			return 1
		}
		return 0
	})
	return tables
}

func (b *books) hit(table string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lastHit = table
}

// lookPage is how many keys one look-up asks for: long enough that the way to the server costs little, short enough for the
// range optimizer's memory.
const lookPage = 1000

// reloadAttempts bounds how often looks are repeated because the catalog changed under them.
const reloadAttempts = 10

// findAny finds one row of each key, wherever it is, in the order of keys; nil: none. A table that is being moved away may be
// missed: whoever finds nothing looks again with findAll.
func (b *books) findAny(ctx context.Context, keys []ledger.Key) ([]*row, error) {
	found := make([]*row, len(keys))
	open := len(keys)
	for _, t := range b.order() {
		if open == 0 {
			break
		}
		before := open
		err := b.inTable(ctx, t, keys, func(i int) bool { return found[i] == nil }, func(i int, r row) {
			if found[i] == nil {
				found[i] = &r
				open--
			}
		})
		if err != nil && mysqlx.Number(err) != mysqlx.ErrNoSuchTable {
			return nil, err
		}
		if before-open > len(keys)/2 {
			b.hit(t.Name)
		}
	}
	return found, nil
}

// findAll finds every row of each key in all tables of the catalog, held ones too. The generation is read last and must be
// that of the catalog in hand, which it then still is.
func (b *books) findAll(ctx context.Context, keys []ledger.Key) ([][]row, error) {
	for range reloadAttempts {
		cat := b.current()
		found := make([][]row, len(keys))
		var err error
		for _, t := range cat.Tables {
			err = b.inTable(ctx, t, keys, func(int) bool { return true }, func(i int, r row) { found[i] = append(found[i], r) })
			if err != nil {
				break
			}
		}
		if err != nil && mysqlx.Number(err) != mysqlx.ErrNoSuchTable {
			return nil, err
		}
		// A listed table that nobody can see: its keys must not be taken for missing. A catalog that has changed is read again.
		now, rerr := b.reload(ctx)
		if rerr != nil {
			return nil, rerr
		}
		if now.Generation == cat.Generation && (!b.scheme.Legacy() || slices.Equal(now.Tables, cat.Tables)) {
			return found, err
		}
	}
	return nil, partition.ErrCatalogChanged
}

// inTable looks wanted keys up in one table, under whichever name it has.
func (b *books) inTable(ctx context.Context, t partition.Table, keys []ledger.Key, wanted func(int) bool, each func(int, row)) error {
	byBiz := map[string][]int{}
	for i := range keys {
		if keys[i].BizType != "" && wanted(i) { // a key that is not of the template has no row
			byBiz[keys[i].BizType] = append(byBiz[keys[i].BizType], i)
		}
	}
	for biz, at := range byBiz {
		for page := range slices.Chunk(at, lookPage) {
			var err error
			for _, name := range t.Names() {
				if err = b.page(ctx, name, biz, keys, page, each); mysqlx.Number(err) != mysqlx.ErrNoSuchTable {
					break
				}
			}
			if err != nil {
				return fmt.Errorf("look up %d keys in %s: %w", len(page), t.Name, err)
			}
		}
	}
	return nil
}

func (b *books) page(ctx context.Context, table, biz string, keys []ledger.Key, at []int, each func(int, row)) error {
	if b.scheme.Legacy() {
		return b.pageLegacy(ctx, table, biz, keys, at, each)
	}
	const idText = 40
	index := make(map[string]int, len(at))
	text := append(make([]byte, 0, idText*(len(at)+8)), "SELECT order_id, create_time, expire_at, fingerprint FROM "+mysqlx.Quote(table)+" WHERE order_id IN ("...)
	for n, i := range at {
		index[keys[i].OrderID] = i
		if n > 0 {
			text = append(text, ',')
		}
		text = appendBytes(text, keys[i].OrderID)
	}
	text = append(text, ") AND biz_type = "...)
	text = appendBytes(text, biz)
	rows, err := b.db.QueryContext(ctx, b.server.Limited(string(text), b.limit))
	if err != nil {
		return err
	}
	defer rows.Close()
	var id, fingerprint sql.RawBytes
	for rows.Next() {
		r := row{table: table}
		if err := rows.Scan(&id, &r.created, &r.expires, &fingerprint); err != nil {
			return err
		}
		i, asked := index[string(id)] // byte by byte, whatever the server's collation took for equal
		if !asked {
			continue
		}
		if len(fingerprint) > 0 {
			r.fingerprint = bytes.Clone(fingerprint)
		}
		each(i, r)
	}
	return rows.Err()
}

// appendBytes writes a value of a VARBINARY column into a statement: as it stands where no byte of it could mean anything to a
// server's parser, whatever its mode, else in hexadecimal.
func appendBytes(text []byte, value string) []byte {
	for i := range len(value) {
		switch c := value[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.', c == ':':
		default:
			text = append(text, "x'"...)
			text = hex.AppendEncode(text, []byte(value))
			return append(text, '\'')
		}
	}
	text = append(text, '\'')
	text = append(text, value...)
	return append(text, '\'')
}
