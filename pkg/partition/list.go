package partition

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// Info describes one table of the ledger.
type Info struct {
	Month Month  `json:"month"`
	Table string `json:"table"`
	// State is future, current, live, expired (every row is past expire_at), held, moving, missing (listed, not there) or
	// unlisted (there, not in the catalog).
	State string `json:"state"`
	// Rows is the server's estimate, or exact when asked for.
	Rows  int64 `json:"rows"`
	Exact bool  `json:"exact"`
	Bytes int64 `json:"bytes"`
	// The ends of its rows' times; zero for an empty table.
	OldestCreate time.Time `json:"oldest_create,omitzero"`
	NewestCreate time.Time `json:"newest_create,omitzero"`
	OldestExpire time.Time `json:"oldest_expire,omitzero"`
	NewestExpire time.Time `json:"newest_expire,omitzero"`
}

// Listing is the ledger at one moment.
type Listing struct {
	Now     time.Time `json:"now"`
	Catalog Catalog   `json:"catalog"`
	Tables  []Info    `json:"tables"`
}

// List describes the ledger's tables, oldest first. exact counts rows instead of taking the server's estimate.
func (m *Manager) List(ctx context.Context, exact bool) (Listing, error) {
	now, err := mysqlx.Now(ctx, m.db)
	if err != nil {
		return Listing{}, err
	}
	cat, err := LoadCatalog(ctx, m.db, m.scheme)
	if err != nil {
		return Listing{}, err
	}
	if cat.TimeZone != m.zone.String() {
		return Listing{}, fmt.Errorf("%w: the catalog says %s, this configuration says %s", ErrTimeZone, cat.TimeZone, m.zone)
	}
	existing, err := m.tables(ctx)
	if err != nil {
		return Listing{}, err
	}
	for mon := range existing {
		if _, ok := cat.listed(m.scheme.Table(mon)); !ok {
			cat.addTable(Table{Month: mon, Name: m.scheme.Table(mon), State: "unlisted"})
		}
	}
	l := Listing{Now: now, Catalog: cat, Tables: make([]Info, 0, len(cat.Tables))}
	current := MonthOf(now, m.zone)
	for _, t := range cat.Tables {
		info, err := m.describe(ctx, t, current, now, exact)
		if err == nil && info.State == "missing" && t.Also != "" { // renamed already, not settled yet
			t.Name = t.Also
			info, err = m.describe(ctx, t, current, now, exact)
		}
		if err != nil {
			return l, err
		}
		l.Tables = append(l.Tables, info)
	}
	return l, nil
}

func (m *Manager) describe(ctx context.Context, t Table, current Month, now time.Time, exact bool) (Info, error) {
	info := Info{Month: t.Month, Table: t.Name, State: string(t.State), Exact: exact}
	var (
		rows, bytes                     sql.NullInt64
		oldestC, newestC, oldestE, newE sql.NullTime
	)
	err := m.db.QueryRowContext(ctx, `SELECT table_rows, data_length + index_length FROM information_schema.tables
		WHERE table_schema = DATABASE() AND table_name = ?`, t.Name).Scan(&rows, &bytes)
	if err == nil {
		info.Rows, info.Bytes = rows.Int64, bytes.Int64
		err = m.db.QueryRowContext(ctx, "SELECT MIN(create_time), MAX(create_time), MIN(expire_at), MAX(expire_at) FROM "+mysqlx.Quote(t.Name)).
			Scan(&oldestC, &newestC, &oldestE, &newE)
	}
	if err == nil && exact {
		err = m.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+mysqlx.Quote(t.Name)).Scan(&info.Rows)
	}
	switch {
	case isMissing(err):
		info.State = "missing"
		return info, nil
	case err != nil:
		return info, fmt.Errorf("describe %s: %w", t.Name, err)
	}
	info.OldestCreate, info.NewestCreate = oldestC.Time, newestC.Time
	info.OldestExpire, info.NewestExpire = oldestE.Time, newE.Time
	if t.State == Live {
		info.State = liveState(t.Month, current, info, now)
	}
	return info, nil
}

func isMissing(err error) bool {
	return errors.Is(err, sql.ErrNoRows) || mysqlx.Number(err) == mysqlx.ErrNoSuchTable
}

func liveState(m, current Month, info Info, now time.Time) string {
	switch {
	case m > current:
		return "future"
	case m == current:
		return "current"
	case !info.NewestExpire.IsZero() && !info.NewestExpire.After(now):
		return "expired"
	}
	return "live"
}

// likePrefix escapes a prefix for LIKE: its underscores are not wildcards.
func likePrefix(s string) string { return strings.ReplaceAll(s, "_", `\_`) }
