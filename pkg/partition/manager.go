package partition

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// MaxTables bounds the tables of one creation: a mistyped --from must not make a thousand (hazard P2).
const MaxTables = 120

// The reasons for which a creation is refused.
var (
	ErrTimeZone      = errors.New("the ledger has another time zone")
	ErrTooManyTables = fmt.Errorf("more than %d tables in one run", MaxTables)
	ErrVouchFuture   = errors.New("memory-since lies in the future")
	// ErrPlanStale says that the catalog is no longer the one that was planned on: plan again.
	ErrPlanStale = errors.New("the catalog has changed since the plan was made")
	// ErrRehearsal says that a plan was made for another time than now.
	ErrRehearsal = errors.New("the plan is a rehearsal for another time")
	// ErrLegacy says that the ledger was made by someone else (Scheme.Legacy): its months are made by its owner.
	ErrLegacy = errors.New("a ledger made by someone else (a column map is given) gets its tables from its owner")
)

// Manager makes and lists a ledger's tables. It opens nothing; the caller owns db, whose connections commit by themselves.
type Manager struct {
	db     *sql.DB
	scheme Scheme
	zone   *time.Location
}

// NewManager returns the manager of one ledger. zone is that of month boundaries.
func NewManager(db *sql.DB, scheme Scheme, zone *time.Location) *Manager {
	return &Manager{db: db, scheme: scheme, zone: zone}
}

// clock is the time to work with: the one asked for, else the database's.
func (m *Manager) clock(ctx context.Context, asOf time.Time) (time.Time, error) {
	if !asOf.IsZero() {
		return asOf.UTC().Truncate(time.Millisecond), nil
	}
	return mysqlx.Now(ctx, m.db)
}

// CreateRequest asks for months.
type CreateRequest struct {
	// Ahead is how many months after the current one shall exist.
	Ahead int
	// From is the first month; zero: the oldest one listed, so that holes are filled, else the current one.
	From Month
	// MemorySince is the operator's word that no effect ran outside the ledger from then on. Zero: none.
	MemorySince time.Time
	// BizTypes names biz_types that MemorySince is given for although they have claimed already. None: it is given for
	// those that have not claimed yet.
	BizTypes []string
	// AsOf plans as if it were this time instead of the database's now; zero: now. Create refuses such a plan.
	AsOf time.Time
}

// Step is one table of a creation plan.
type Step struct {
	Month Month  `json:"month"`
	Table string `json:"table"`
	// Action is create, list (the table is there, the catalog does not say so), or recreate (listed, but gone).
	Action string `json:"action"`
	// RaisesHorizon is the time up to which the ledger's memory is not complete because of this table; zero: none.
	RaisesHorizon time.Time `json:"raises_horizon,omitzero"`
}

// CreatePlan is what Create does.
type CreatePlan struct {
	Now         time.Time `json:"now"`       // the database's clock, or the time asked for
	Rehearsal   bool      `json:"rehearsal"` // it was asked for: this plan is not for execution
	TimeZone    string    `json:"time_zone"`
	NewLedger   bool      `json:"new_ledger"`
	MemorySince time.Time `json:"memory_since,omitzero"`
	BizTypes    []string  `json:"biz_types,omitempty"`
	Steps       []Step    `json:"steps"`
	Present     int       `json:"present"` // months of the range that are there already, held ones too
	Generation  int64     `json:"generation"`
}

// Empty reports a plan that changes nothing.
func (p *CreatePlan) Empty() bool { return len(p.Steps) == 0 && !p.NewLedger && p.MemorySince.IsZero() }

// PlanCreate reads the catalog and the tables and decides which months to make.
func (m *Manager) PlanCreate(ctx context.Context, req CreateRequest) (CreatePlan, error) {
	now, err := m.clock(ctx, req.AsOf)
	if err != nil {
		return CreatePlan{}, err
	}
	if m.scheme.Legacy() {
		return CreatePlan{}, fmt.Errorf("plan months of %s: %w", m.scheme.prefix, ErrLegacy)
	}
	if err := m.checkAhead(req.Ahead, now); err != nil {
		return CreatePlan{}, err
	}
	if req.MemorySince.After(now) {
		return CreatePlan{}, fmt.Errorf("%w: %s is after %s", ErrVouchFuture, stamp(req.MemorySince), stamp(now))
	}
	p := CreatePlan{Now: now, Rehearsal: !req.AsOf.IsZero(), TimeZone: m.zone.String(), MemorySince: req.MemorySince.UTC().Truncate(time.Millisecond), BizTypes: req.BizTypes}
	if req.MemorySince.IsZero() {
		p.MemorySince = time.Time{}
	}
	cat, err := LoadCatalog(ctx, m.db, m.scheme)
	switch {
	case errors.Is(err, ErrNoCatalog):
		p.NewLedger = true
		cat = Catalog{}
	case err != nil:
		return CreatePlan{}, err
	case cat.TimeZone != m.zone.String():
		return CreatePlan{}, fmt.Errorf("%w: the catalog says %s, this configuration says %s", ErrTimeZone, cat.TimeZone, m.zone)
	}
	p.Generation = cat.Generation
	existing, err := m.tables(ctx)
	if err != nil {
		return CreatePlan{}, err
	}
	months := m.wanted(req, &cat, existing, MonthOf(now, m.zone))
	if err := p.addSteps(m, &cat, existing, months, req.From != 0); err != nil {
		return CreatePlan{}, err
	}
	return p, nil
}

// checkAhead refuses a number of months that is negative or leads out of the years that a ledger can have.
func (m *Manager) checkAhead(ahead int, now time.Time) error {
	if ahead < 0 {
		return fmt.Errorf("ahead %d: expected 0 or more", ahead)
	}
	if last := NewMonth(lastYear, time.December); MonthOf(now, m.zone)+Month(min(ahead, int(last))) > last {
		return fmt.Errorf("ahead %d: expected months up to %s", ahead, last)
	}
	return nil
}

// wanted is the run of months that shall exist: no holes, from the first to the last.
func (m *Manager) wanted(req CreateRequest, cat *Catalog, existing map[Month]bool, current Month) []Month {
	first := current
	for _, t := range cat.Tables {
		first = min(first, t.Month)
	}
	for mon := range existing {
		first = min(first, mon)
	}
	if req.From != 0 {
		first = req.From
	}
	var months []Month
	for mon := first; mon <= current+Month(req.Ahead); mon++ {
		months = append(months, mon)
	}
	return months
}

// addSteps decides about each month. asked says that the operator has named the first of them.
func (p *CreatePlan) addSteps(m *Manager, cat *Catalog, existing map[Month]bool, months []Month, asked bool) error {
	inRange := map[Month]bool{}
	for _, mon := range months {
		inRange[mon] = true
	}
	// A table that is there but not listed is listed whatever the range: a guard must probe it.
	for mon := range existing {
		if !inRange[mon] {
			if !cat.listed(m.scheme.Table(mon)) {
				months = append(months, mon)
			}
		}
	}
	for _, mon := range months {
		step := Step{Month: mon, Table: m.scheme.Table(mon)}
		listed := cat.listed(step.Table)
		switch {
		case cat.away(mon), listed && existing[mon]:
			p.Present++
			continue
		case !listed && !existing[mon] && !asked && !mon.End(m.zone).After(cat.LostUntil):
			continue // it was dropped: what belongs there is outside every horizon, and needs no home
		case listed:
			step.Action = "recreate"
		case existing[mon]:
			step.Action = "list"
		default:
			step.Action = "create"
		}
		step.RaisesHorizon = p.raises(m, step)
		p.Steps = append(p.Steps, step)
	}
	if len(p.Steps) > MaxTables {
		return fmt.Errorf("%w: %s to %s would make %d", ErrTooManyTables, p.Steps[0].Month, p.Steps[len(p.Steps)-1].Month, len(p.Steps))
	}
	return nil
}

// raises says up to when the new table leaves the ledger's memory incomplete: a month that is over, or whose table was
// lost, may have held entries that nobody knows of, unless the operator vouches for it.
func (p *CreatePlan) raises(m *Manager, s Step) time.Time {
	end := s.Month.End(m.zone)
	if s.Action != "recreate" && end.After(p.Now) {
		return time.Time{}
	}
	// A word given for some biz_types says nothing about the others, and the table is everyone's.
	if !p.MemorySince.IsZero() && len(p.BizTypes) == 0 && !p.MemorySince.After(s.Month.Start(m.zone)) {
		return time.Time{}
	}
	return end
}

// tables finds the month tables that are there, by name.
func (m *Manager) tables(ctx context.Context) (map[Month]bool, error) {
	found := map[Month]bool{}
	err := each(ctx, m.db, `SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name LIKE ?`,
		[]any{likePrefix(m.scheme.prefix) + `\_%`}, func(row []string) {
			if mon, ok := m.scheme.Month(row[0]); ok {
				found[mon] = true
			}
		})
	return found, err
}

// CreateReport says what a creation did.
type CreateReport struct {
	Created    []string `json:"created"`
	Listed     []string `json:"listed"`
	Present    int      `json:"present"`
	Generation int64    `json:"generation"`
}

// Create acts on a plan. It is idempotent and safe when two runs race: both hold the lock in turn, and the second finds
// what the first made.
func (m *Manager) Create(ctx context.Context, p CreatePlan) (CreateReport, error) {
	rep := CreateReport{Present: p.Present, Created: []string{}, Listed: []string{}}
	if p.Rehearsal {
		return rep, ErrRehearsal
	}
	if m.scheme.Legacy() {
		return rep, ErrLegacy
	}
	lock, err := LockMonths(ctx, m.db, m.scheme)
	if err != nil {
		return rep, err
	}
	defer lock.Release(ctx) //nolint:errcheck // the connection is closed either way, and what was done is reported
	conn := lock.Conn()
	cat, err := m.prepare(ctx, conn, p)
	if err != nil {
		return rep, err
	}
	rep.Generation = cat.Generation
	for _, s := range p.Steps {
		cat, made, err := m.createOne(ctx, conn, s)
		if err != nil {
			return rep, fmt.Errorf("%s %s: %w", s.Action, s.Table, err)
		}
		rep.Generation = cat.Generation
		if made {
			rep.Created = append(rep.Created, s.Table)
		} else {
			rep.Listed = append(rep.Listed, s.Table)
		}
	}
	return rep, nil
}

// prepare makes the control table and the catalog row of a new ledger, and writes down what the operator vouches for.
func (m *Manager) prepare(ctx context.Context, conn *sql.Conn, p CreatePlan) (Catalog, error) {
	if p.NewLedger {
		if err := mysqlx.DDL(ctx, conn, fmt.Sprintf(controlDDL, mysqlx.Quote(ControlTable))); err != nil {
			return Catalog{}, err
		}
		c, err := newCatalog(p.TimeZone)
		if err != nil {
			return c, err
		}
		body, err := json.Marshal(&c)
		if err != nil {
			return c, fmt.Errorf("catalog of %s: %w", m.scheme.prefix, err)
		}
		_, err = conn.ExecContext(ctx, "INSERT INTO "+ControlTable+" (name, generation, body, updated_at) VALUES (?, 1, ?, UTC_TIMESTAMP(3))",
			[]byte(m.scheme.prefix), body)
		if err != nil && mysqlx.Number(err) != mysqlx.ErrDupEntry { // a duplicate: another run has just begun the same ledger
			return c, fmt.Errorf("create catalog of %s: %w", m.scheme.prefix, err)
		}
	}
	return updateCatalog(ctx, overConn(conn), m.scheme, func(c *Catalog) (bool, error) {
		if c.TimeZone != p.TimeZone {
			return false, fmt.Errorf("%w: the catalog says %s", ErrTimeZone, c.TimeZone)
		}
		if !p.NewLedger && len(p.Steps) > 0 && c.Generation != p.Generation && stale(c, p) {
			return false, ErrPlanStale
		}
		return vouch(c, p), nil
	})
}

// stale reports whether a newer catalog contradicts the plan. Tables that another run has listed meanwhile do not, nor does
// a biz_type's first claim: a table that is being moved does.
func stale(c *Catalog, p CreatePlan) bool {
	for _, s := range p.Steps {
		if c.away(s.Month) {
			return true
		}
	}
	return false
}

// vouch writes the operator's word into the catalog and reports whether that changed it.
func vouch(c *Catalog, p CreatePlan) bool {
	if p.MemorySince.IsZero() {
		return false
	}
	if len(p.BizTypes) == 0 {
		if c.VouchedSince.Equal(p.MemorySince) {
			return false
		}
		c.VouchedSince = p.MemorySince
		return true
	}
	changed := false
	for _, b := range p.BizTypes {
		if m := c.Biz[b]; !m.Since.Equal(p.MemorySince) {
			m.Since = p.MemorySince
			c.Biz[b] = m
			changed = true
		}
	}
	return changed
}

// createOne makes one table, then lists it. made is false when the table was there.
func (m *Manager) createOne(ctx context.Context, conn *sql.Conn, s Step) (Catalog, bool, error) {
	made := true
	if s.Action == "recreate" {
		// The horizon first: a guard that finds the new, empty table must already know what it does not know.
		if _, err := m.list(ctx, conn, s); err != nil {
			return Catalog{}, false, err
		}
	} else if cat, listed, err := m.listedMeanwhile(ctx, conn, s); err != nil || listed {
		return cat, false, err
	}
	if err := mysqlx.DDL(ctx, conn, fmt.Sprintf(monthDDL, mysqlx.Quote(s.Table))); err != nil {
		if mysqlx.Number(err) != mysqlx.ErrTableExists {
			return Catalog{}, false, err
		}
		made = false
	}
	if _, err := VerifyTables(ctx, conn, []string{s.Table}); err != nil {
		return Catalog{}, made, err
	}
	cat, err := m.list(ctx, conn, s)
	return cat, made, err
}

// listedMeanwhile reports a table that another run has made since the plan. If it is gone again it may have held entries
// that the plan knows nothing of: made now, it would be empty and the horizon where it was.
func (m *Manager) listedMeanwhile(ctx context.Context, conn *sql.Conn, s Step) (Catalog, bool, error) {
	cat, err := LoadCatalog(ctx, conn, m.scheme)
	if err != nil {
		return cat, false, err
	}
	if !cat.listed(s.Table) {
		return cat, false, nil
	}
	found, err := VerifyTables(ctx, conn, []string{s.Table})
	if err == nil && !found[s.Table] {
		err = ErrPlanStale
	}
	return cat, true, err
}

// list puts the table into the catalog with what it does to the horizon. A table already listed by a run that raced with
// this one stays as it is.
func (m *Manager) list(ctx context.Context, conn *sql.Conn, s Step) (Catalog, error) {
	return updateCatalog(ctx, overConn(conn), m.scheme, func(c *Catalog) (bool, error) {
		listed := c.listed(s.Table)
		if listed && s.Action != "recreate" {
			return false, nil
		}
		changed := false
		if s.RaisesHorizon.After(c.LostUntil) {
			c.LostUntil = s.RaisesHorizon
			changed = true
		}
		if !listed {
			c.addTable(Table{Month: s.Month, Name: s.Table, State: Live})
			changed = true
		}
		return changed, nil
	})
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
