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

// ErrColumns says that a table does not have a column that the scheme names.
var ErrColumns = errors.New("the columns of the ledger are not as configured")

// Info describes one table of the ledger.
type Info struct {
	Month Month  `json:"month,omitzero"` // zero: the one table of a ledger made by someone else
	Table string `json:"table"`
	// State is future, current, live, expired (the last expire_at lies before now), held, moving, missing (listed, not there) or
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
	Now       time.Time `json:"now"`       // the database's clock, or the time asked for
	Rehearsal bool      `json:"rehearsal"` // it was asked for
	// Legacy says that the ledger was made by someone else. Catalog then has no ledger id unless it got a catalog.
	Legacy  bool    `json:"legacy"`
	Catalog Catalog `json:"catalog"`
	Tables  []Info  `json:"tables"`
}

// ListRequest asks for a listing.
type ListRequest struct {
	// Exact counts rows instead of taking the server's estimate.
	Exact bool
	// AsOf judges the months as if it were this time instead of the database's now; zero: now.
	AsOf time.Time
	// Retention makes the expiry of a ledger that has no column for it: create_time plus this. Zero: it is not known.
	Retention time.Duration
}

// List describes the ledger's tables, oldest first. Of a ledger made by someone else (Scheme.Legacy) they are those that
// FindTables finds, beside those of its catalog if it has one. ErrColumns says that the column map does not fit a table.
func (m *Manager) List(ctx context.Context, req ListRequest) (Listing, error) {
	now, err := m.clock(ctx, req.AsOf)
	if err != nil {
		return Listing{}, err
	}
	cat, err := m.catalog(ctx)
	if err != nil {
		return Listing{}, err
	}
	tables, err := m.allTables(ctx, &cat)
	if err != nil {
		return Listing{}, err
	}
	l := Listing{Now: now, Rehearsal: !req.AsOf.IsZero(), Legacy: m.scheme.Legacy(), Catalog: cat, Tables: make([]Info, 0, len(tables))}
	current := MonthOf(now, m.zone)
	for _, t := range tables {
		info, err := m.describe(ctx, t, req)
		if err == nil && info.State == stateMissing && t.Also != "" { // renamed already, not settled yet
			t.Name = t.Also
			info, err = m.describe(ctx, t, req)
		}
		if err != nil {
			return l, err
		}
		if t.State == Live && info.State != stateMissing {
			info.State = liveState(t.Month, current, info, now)
		}
		l.Tables = append(l.Tables, info)
	}
	return l, nil
}

// catalog reads the catalog and compares the zone of months. A ledger made by someone else need not have one.
func (m *Manager) catalog(ctx context.Context) (Catalog, error) {
	cat, err := LoadCatalog(ctx, m.db, m.scheme)
	switch {
	case m.scheme.Legacy() && errors.Is(err, ErrNoCatalog):
		return Catalog{TimeZone: m.zone.String()}, nil
	case err != nil:
		return Catalog{}, err
	case cat.TimeZone != m.zone.String():
		return Catalog{}, fmt.Errorf("%w: the catalog says %s, this configuration says %s", ErrTimeZone, cat.TimeZone, m.zone)
	}
	return cat, nil
}

// allTables are those of the catalog and those that are there by their names, in the order of months.
func (m *Manager) allTables(ctx context.Context, cat *Catalog) ([]Table, error) {
	all := cat.clone()
	if m.scheme.Legacy() {
		found, err := FindTables(ctx, m.db, m.scheme)
		if err != nil {
			return nil, err
		}
		for _, t := range found {
			if !cat.listed(t.Name) {
				all.Tables = append(all.Tables, t)
			}
		}
		return all.Tables, nil
	}
	existing, err := m.tables(ctx)
	if err != nil {
		return nil, err
	}
	for mon := range existing {
		if !cat.listed(m.scheme.Table(mon)) {
			all.addTable(Table{Month: mon, Name: m.scheme.Table(mon), State: stateUnlisted})
		}
	}
	return all.Tables, nil
}

// States of a listing beside those of the catalog.
const (
	stateMissing  = "missing"
	stateUnlisted = "unlisted"
)

func (m *Manager) describe(ctx context.Context, t Table, req ListRequest) (Info, error) {
	info := Info{Month: t.Month, Table: t.Name, State: string(t.State), Exact: req.Exact}
	var (
		rows, bytes                     sql.NullInt64
		oldestC, newestC, oldestE, newE sql.NullTime
	)
	created, expire := mysqlx.Quote(m.scheme.Columns().CreateTime), "NULL"
	if name := m.scheme.Columns().ExpireAt; name != "" {
		expire = mysqlx.Quote(name)
	}
	err := m.db.QueryRowContext(ctx, `SELECT table_rows, data_length + index_length FROM information_schema.tables
		WHERE table_schema = DATABASE() AND table_name = ?`, t.Name).Scan(&rows, &bytes)
	if err == nil {
		info.Rows, info.Bytes = rows.Int64, bytes.Int64
		err = m.db.QueryRowContext(ctx, fmt.Sprintf("SELECT MIN(%[1]s), MAX(%[1]s), MIN(%[2]s), MAX(%[2]s) FROM %[3]s", created, expire, mysqlx.Quote(t.Name))).
			Scan(&oldestC, &newestC, &oldestE, &newE)
	}
	if err == nil && req.Exact {
		err = m.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+mysqlx.Quote(t.Name)).Scan(&info.Rows)
	}
	switch {
	case isMissing(err):
		info.State = stateMissing
		return info, nil
	case mysqlx.Number(err) == mysqlx.ErrBadField:
		return info, fmt.Errorf("describe %s: %w: %w", t.Name, ErrColumns, err)
	case err != nil:
		return info, fmt.Errorf("describe %s: %w", t.Name, err)
	}
	info.OldestCreate, info.NewestCreate = oldestC.Time, newestC.Time
	info.OldestExpire, info.NewestExpire = oldestE.Time, newE.Time
	if expire == "NULL" && req.Retention > 0 && newestC.Valid {
		info.OldestExpire, info.NewestExpire = oldestC.Time.Add(req.Retention), newestC.Time.Add(req.Retention)
	}
	return info, nil
}

func isMissing(err error) bool {
	return errors.Is(err, sql.ErrNoRows) || mysqlx.Number(err) == mysqlx.ErrNoSuchTable
}

// liveState says what a month is at a time. An entry has expired when its expire_at lies before now: strictly, as a purge
// judges it.
func liveState(m, current Month, info Info, now time.Time) string {
	switch {
	case m > current:
		return "future"
	case m == current:
		return "current"
	case m != 0 && !info.NewestExpire.IsZero() && info.NewestExpire.Before(now):
		return "expired"
	}
	return "live"
}

// likePrefix escapes a prefix for LIKE: its underscores are not wildcards.
func likePrefix(s string) string { return strings.ReplaceAll(s, "_", `\_`) }
