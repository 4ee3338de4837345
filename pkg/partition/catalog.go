package partition

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// catalogVersion is the version of the JSON in t_idempotent_control.body.
const catalogVersion = 1

// ErrNoCatalog says that the ledger has no catalog row: nobody can say what it remembers, so nothing may run on it.
var ErrNoCatalog = errors.New("no catalog row for this table prefix (run: idemctl partition create --execute)")

// ErrCatalogChanged says that a compare-and-set on the catalog's generation kept losing.
var ErrCatalogChanged = errors.New("the catalog kept changing")

// State says whether a month's table is a home for new entries.
type State string

// The states. A guard probes every table of the catalog, and takes only a live one for a home.
const (
	Live   State = "live"
	Moving State = "moving" // being renamed: it is under Name or under Also
	Held   State = "held"   // renamed away, waiting to be dropped
)

// Table is a month's table as the catalog lists it. While it is Moving, Name is where it comes from and Also where it goes.
// Whoever looks for it looks at Name first, then at Also: it is under Name until it is under Also and never goes the other
// way under the same listing, so one of the two looks finds it.
type Table struct {
	Month Month  `json:"month,omitzero"` // zero: the one table of a ledger made by someone else
	Name  string `json:"table"`
	State State  `json:"state"`
	// Also is the other name while the table is being renamed.
	Also string `json:"also,omitempty"`
}

// Names are the names under which the table may be found.
func (t Table) Names() []string {
	if t.Also != "" {
		return []string{t.Name, t.Also}
	}
	return []string{t.Name}
}

// Memory is what the ledger remembers of one biz_type.
type Memory struct {
	// Since is from when on every effect of this biz_type has left its row here; zero: nothing was claimed yet.
	Since time.Time `json:"since,omitzero"`
	// Purged is the latest create_time of any of its rows ever purged; zero: none.
	Purged time.Time `json:"purged,omitzero"`
}

// Catalog is one ledger's row in t_idempotent_control, a value.
type Catalog struct {
	Version  int    `json:"version"`
	LedgerID string `json:"ledger_id"`
	TimeZone string `json:"time_zone"`
	// VouchedSince is the operator's word (--memory-since) for biz_types that have not claimed anything yet.
	VouchedSince time.Time `json:"vouched_since,omitzero"`
	// LostUntil is the end of the latest past month whose table was lost or made later: part of every horizon.
	LostUntil time.Time         `json:"lost_until,omitzero"`
	Biz       map[string]Memory `json:"biz,omitempty"`
	Tables    []Table           `json:"tables"`

	// Generation counts the row's changes; it lives in a column of its own.
	Generation int64 `json:"-"`
}

// newCatalog is the catalog of a ledger that begins now.
func newCatalog(zone string) (Catalog, error) {
	id, err := newLedgerID()
	if err != nil {
		return Catalog{}, err
	}
	return Catalog{Version: catalogVersion, LedgerID: id, TimeZone: zone, Biz: map[string]Memory{}}, nil
}

func newLedgerID() (string, error) {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", fmt.Errorf("new ledger id: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}

// Horizon returns H of a biz_type: for a business time later than H plus slack the ledger's memory is complete. ok is false
// while the biz_type has not been registered (see Register).
func (c *Catalog) Horizon(biz string) (h time.Time, ok bool) {
	m := c.Biz[biz]
	if m.Since.IsZero() {
		return time.Time{}, false
	}
	return latest(m.Since, m.Purged, c.LostUntil), true
}

// Home returns the live table of a month.
func (c *Catalog) Home(m Month) (Table, bool) {
	for _, t := range c.Tables {
		if t.Month == m && t.State == Live {
			return t, true
		}
	}
	return Table{}, false
}

// away reports a month whose table is held, or on its way from or to there: it is made by nobody, since its own table may
// come back.
func (c *Catalog) away(m Month) bool {
	return slices.ContainsFunc(c.Tables, func(t Table) bool { return t.Month == m && t.State != Live })
}

// clone is a deep copy, so that a change can be tried on it.
func (c *Catalog) clone() Catalog {
	d := *c
	d.Tables = slices.Clone(c.Tables)
	d.Biz = make(map[string]Memory, len(c.Biz))
	maps.Copy(d.Biz, c.Biz)
	return d
}

// addTable lists a table, in the order of months.
func (c *Catalog) addTable(t Table) {
	c.Tables = append(c.Tables, t)
	slices.SortStableFunc(c.Tables, func(a, b Table) int { return int(a.Month - b.Month) })
}

// listed reports an entry that has this name, under either of its names.
func (c *Catalog) listed(name string) bool {
	return slices.ContainsFunc(c.Tables, func(t Table) bool { return slices.Contains(t.Names(), name) })
}

// LoadCatalog reads the row in one SELECT (hazard G24). It returns ErrNoCatalog when the row or the table is missing.
func LoadCatalog(ctx context.Context, q mysqlx.Queryer, s Scheme) (Catalog, error) {
	var (
		c    Catalog
		body []byte
		gen  int64
	)
	err := q.QueryRowContext(ctx, "SELECT generation, body FROM "+mysqlx.Quote(ControlTable)+" WHERE name = ?", []byte(s.prefix)).Scan(&gen, &body)
	switch {
	case errors.Is(err, sql.ErrNoRows) || mysqlx.Number(err) == mysqlx.ErrNoSuchTable:
		return c, fmt.Errorf("catalog of %s: %w", s.prefix, ErrNoCatalog)
	case err != nil:
		return c, fmt.Errorf("catalog of %s: %w", s.prefix, err)
	}
	if err := json.Unmarshal(body, &c); err != nil {
		return c, fmt.Errorf("catalog of %s: %w", s.prefix, err)
	}
	if c.Version != catalogVersion {
		return c, fmt.Errorf("catalog of %s has version %d; this program reads %d", s.prefix, c.Version, catalogVersion)
	}
	c.Generation = gen
	return c, nil
}

// UpdateCatalog applies change to the catalog and raises its generation in the same statement. change may be called again
// on a newer catalog when someone else was faster; returning false leaves the row as it is.
func UpdateCatalog(ctx context.Context, db *sql.DB, s Scheme, change func(*Catalog) (bool, error)) (Catalog, error) {
	return updateCatalog(ctx, dbOrConn{Queryer: db, Execer: db}, s, change)
}

// dbOrConn is a *sql.DB or a *sql.Conn.
type dbOrConn struct {
	mysqlx.Queryer
	mysqlx.Execer
}

// overConn is for changes that go over the connection that holds the ledger's lock.
func overConn(conn *sql.Conn) dbOrConn { return dbOrConn{Queryer: conn, Execer: conn} }

// updateAttempts bounds how often a compare-and-set is tried: each loss means that another change went through.
const updateAttempts = 50

func updateCatalog(ctx context.Context, db dbOrConn, s Scheme, change func(*Catalog) (bool, error)) (Catalog, error) {
	for range updateAttempts {
		old, err := LoadCatalog(ctx, db, s)
		if err != nil {
			return old, err
		}
		next := old.clone()
		changed, err := change(&next)
		if err != nil || !changed {
			return old, err
		}
		body, err := json.Marshal(&next)
		if err != nil {
			return old, fmt.Errorf("catalog of %s: %w", s.prefix, err)
		}
		res, err := db.ExecContext(ctx, "UPDATE "+mysqlx.Quote(ControlTable)+
			" SET generation = generation + 1, body = ?, updated_at = UTC_TIMESTAMP(3) WHERE name = ? AND generation = ?",
			body, []byte(s.prefix), old.Generation)
		if err != nil {
			return old, fmt.Errorf("update catalog of %s: %w", s.prefix, err)
		}
		if n, err := res.RowsAffected(); err != nil {
			return old, fmt.Errorf("update catalog of %s: %w", s.prefix, err)
		} else if n == 1 {
			next.Generation = old.Generation + 1
			return next, nil
		}
	}
	return Catalog{}, fmt.Errorf("update catalog of %s: %w", s.prefix, ErrCatalogChanged)
}

// Register makes sure that the ledger knows since when it remembers biz: the database's now at the first claim, or the
// earlier time that the operator vouches for (since, else the catalog's own --memory-since).
func Register(ctx context.Context, db *sql.DB, s Scheme, biz string, since time.Time) (Catalog, error) {
	now, err := mysqlx.Now(ctx, db)
	if err != nil {
		return Catalog{}, err
	}
	return UpdateCatalog(ctx, db, s, func(c *Catalog) (bool, error) {
		m := c.Biz[biz]
		if !m.Since.IsZero() {
			return false, nil
		}
		m.Since = c.firstSince(now, since)
		c.Biz[biz] = m
		return true, nil
	})
}

// firstSince is the earliest of the database's now and what the operator vouches for.
func (c *Catalog) firstSince(now, since time.Time) time.Time {
	for _, vouched := range []time.Time{c.VouchedSince, since} {
		if !vouched.IsZero() && vouched.Before(now) {
			now = vouched.UTC().Truncate(time.Millisecond)
		}
	}
	return now
}

// FirstHorizon is what the horizon of a biz_type that has not claimed yet would be if it claimed now.
func (c *Catalog) FirstHorizon(biz string, now, since time.Time) time.Time {
	return latest(c.firstSince(now, since), c.Biz[biz].Purged, c.LostUntil)
}

func latest(times ...time.Time) time.Time {
	var t time.Time
	for _, u := range times {
		if u.After(t) {
			t = u
		}
	}
	return t
}
