package purge

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/partition"
)

// DefaultWindow is the slice of expiry by which a purge works and reports.
const DefaultWindow = 30 * day

const day = 24 * time.Hour

// maxWindow is longer than any ledger lives.
const maxWindow = 36500 * day

// PlanOptions say what is to go.
type PlanOptions struct {
	// Window is the slice of expiry by which it works and reports: whole days; 0: DefaultWindow.
	Window time.Duration
	// Before is the cutoff, if it is to be earlier than the database's now.
	Before time.Time
	// AsOf plans for another time than the database's now; Run refuses such a plan.
	AsOf time.Time
	// RowsOnly drops no month.
	RowsOnly bool
	// Retention is how long an entry is kept. A ledger without an expiry column needs it; in others it says when a month may be
	// dropped: not before it has passed since the month's end.
	Retention time.Duration
}

func (o PlanOptions) validate(s partition.Scheme) (PlanOptions, error) {
	if o.Window == 0 {
		o.Window = DefaultWindow
	}
	switch {
	case o.Window < day || o.Window%day != 0 || o.Window > maxWindow:
		return o, fmt.Errorf("%w: window %s: expected whole days, at least 1", ErrOptions, o.Window)
	case o.Retention < 0:
		return o, fmt.Errorf("%w: retention %s: expected more than 0", ErrOptions, o.Retention)
	case s.Columns().ExpireAt == "" && o.Retention < time.Millisecond:
		return o, fmt.Errorf("%w: the ledger has no expiry column, so its retention must be known", ErrOptions)
	}
	o.Retention = o.Retention.Truncate(time.Millisecond)
	return o, nil
}

// PlanPurge reads the catalog and the tables and decides what goes. It changes nothing. zone is that of month boundaries.
//
// It returns partition.ErrNoCatalog for a ledger of our own without a catalog, partition.ErrTimeZone when the catalog has
// another zone, ErrCutoffFuture for a cutoff after the database's now, and ErrNoIndex when a table cannot be read by the
// index that a purge needs.
func PlanPurge(ctx context.Context, db *sql.DB, scheme partition.Scheme, zone *time.Location, opts PlanOptions) (Plan, error) {
	opts, err := opts.validate(scheme)
	if err != nil {
		return Plan{}, err
	}
	now, err := mysqlx.Now(ctx, db)
	if err != nil {
		return Plan{}, err
	}
	pl := planner{db: db, opts: opts, now: now}
	pl.plan = Plan{
		Now: now, Cutoff: now, Prefix: scheme.Prefix(), WindowDays: int(opts.Window / day), Legacy: scheme.Legacy(), RowsOnly: opts.RowsOnly,
		Months: []MonthPlan{}, Horizon: []HorizonChange{}, scheme: scheme, zone: zone, retention: opts.Retention,
	}
	if !opts.AsOf.IsZero() {
		pl.plan.Now, pl.plan.Rehearsal = opts.AsOf.UTC().Truncate(time.Millisecond), true
		pl.plan.Cutoff = pl.plan.Now
	}
	if !opts.Before.IsZero() {
		pl.plan.Cutoff = opts.Before.UTC().Truncate(time.Millisecond)
		if pl.plan.Cutoff.After(pl.plan.Now) {
			return Plan{}, fmt.Errorf("%w: %s is after %s", ErrCutoffFuture, stamp(pl.plan.Cutoff), stamp(pl.plan.Now))
		}
	}
	if scheme.Legacy() {
		// A column without fractions is compared with a literal that has some in its own precision: a row could lie on both sides.
		pl.plan.Cutoff = pl.plan.Cutoff.Truncate(time.Second)
	}
	if err := pl.load(ctx); err != nil {
		return Plan{}, err
	}
	for _, t := range pl.tables {
		m, err := pl.month(ctx, t)
		if err != nil {
			return Plan{}, err
		}
		pl.plan.Months = append(pl.plan.Months, m)
		pl.plan.Rows += m.Rows
	}
	pl.emptyMonths()
	pl.plan.Horizon = pl.horizon()
	return pl.plan, nil
}

// planner makes one plan.
type planner struct {
	db     *sql.DB
	opts   PlanOptions
	now    time.Time // the database's, also in a rehearsal
	plan   Plan
	cat    partition.Catalog
	tables []partition.Table
}

// load reads which tables there are.
func (pl *planner) load(ctx context.Context) error {
	scheme := pl.plan.scheme
	cat, err := partition.LoadCatalog(ctx, pl.db, scheme)
	switch {
	case errors.Is(err, partition.ErrNoCatalog) && scheme.Legacy():
	case err != nil:
		return err
	case cat.TimeZone != pl.plan.zone.String():
		return fmt.Errorf("%w: the catalog says %s, this configuration says %s", partition.ErrTimeZone, cat.TimeZone, pl.plan.zone)
	default:
		pl.plan.catalog, pl.plan.Generation = true, cat.Generation
	}
	pl.cat, pl.tables = cat, cat.Tables
	if scheme.Legacy() {
		pl.tables, err = partition.FindTables(ctx, pl.db, scheme)
	}
	return err
}

// month plans one table.
func (pl *planner) month(ctx context.Context, t partition.Table) (MonthPlan, error) {
	m := MonthPlan{Table: t, Action: ActionKeep, Windows: []Window{}}
	name, estimate, bytes, err := pl.find(ctx, t)
	if err != nil {
		return m, err
	}
	m.Kept, m.Bytes = estimate, bytes
	if t.State != partition.Live {
		m.Action = ActionFinish
	}
	if name == "" {
		m.Note = "the catalog lists it, and it is not there (see: idemctl partition check)"
		return m, nil
	}
	s, err := readShape(ctx, pl.db, pl.plan.scheme, name)
	if err != nil {
		return m, err
	}
	sel := pl.plan.selection(name)
	if err := pl.windows(ctx, s, sel, &m); err != nil {
		return m, err
	}
	current := partition.MonthOf(pl.plan.Now, pl.plan.zone)
	if m.Rows == 0 && m.Odd == 0 && t.State == partition.Live && (t.Month >= current || pl.plan.Legacy) {
		return m, nil // a busy month of which nothing goes is not counted
	}
	kept, odd, err := s.rest(ctx, pl.db, sel, pl.now)
	if err != nil {
		return m, err
	}
	m.Kept, m.Odd = kept+m.Odd, m.Odd+odd
	if m.Rows > 0 {
		if err := s.verifyIndex(ctx, pl.db, sel); err != nil {
			return m, err
		}
	}
	return pl.decide(m), nil
}

// find returns under which of its names the table is (empty: under none), and what the server estimates of it.
func (pl *planner) find(ctx context.Context, t partition.Table) (name string, rows, bytes int64, err error) {
	for _, name := range t.Names() {
		var one int
		err := pl.db.QueryRowContext(ctx, "SELECT 1 FROM "+mysqlx.Quote(name)+" LIMIT 0").Scan(&one)
		if mysqlx.Number(err) == mysqlx.ErrNoSuchTable {
			continue
		}
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return "", 0, 0, fmt.Errorf("look for %s: %w", name, err)
		}
		var r, b sql.NullInt64
		err = pl.db.QueryRowContext(ctx, `SELECT table_rows, data_length + index_length FROM information_schema.tables
			WHERE table_schema = DATABASE() AND table_name = ?`, name).Scan(&r, &b)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return "", 0, 0, fmt.Errorf("size of %s: %w", name, err)
		}
		return name, r.Int64, b.Int64, nil
	}
	return "", 0, 0, nil
}

// windows counts what goes, oldest first. A stretch in which nothing expired is jumped over.
func (pl *planner) windows(ctx context.Context, s shape, sel Selection, m *MonthPlan) error {
	for from := (time.Time{}); ; {
		look := sel
		look.From = from
		oldest, found, err := s.oldest(ctx, pl.db, look)
		if err != nil || !found {
			return err
		}
		w := pl.plan.window(oldest)
		if s.readIndex == "" {
			w.To = pl.plan.Cutoff // each look reads the whole table: one is enough
		}
		look.From, look.To = w.From, w.To
		t, err := s.count(ctx, pl.db, look, m.Kept)
		if err != nil {
			return err
		}
		m.Odd += t.odd
		if t.rows > 0 {
			w.Rows, w.Biz = t.rows, t.biz
			m.Windows = append(m.Windows, w)
			m.Rows += t.rows
		}
		if from = w.To; !from.Before(sel.To) {
			return nil
		}
	}
}

// window is the slice that an expiry before the cutoff falls in, counted back from the cutoff.
func (p *Plan) window(expiry time.Time) Window {
	// In milliseconds: a time.Duration ends at 292 years, a DATETIME does not.
	size := int64(p.WindowDays) * day.Milliseconds()
	cutoff := p.Cutoff.UnixMilli()
	n := max((cutoff-expiry.UnixMilli()+size-1)/size, 1) // an expiry at the very beginning of a window belongs to it
	from := time.UnixMilli(cutoff - n*size).UTC()
	if from.Year() < 1 {
		from = time.Time{}.Add(time.Millisecond) // the servers' first year; zero would mean no bound
	}
	return Window{From: from, To: time.UnixMilli(cutoff - (n-1)*size).UTC()}
}

// selection is the one condition of a table.
func (p *Plan) selection(table string) Selection {
	return Selection{Table: table, Columns: p.scheme.Columns(), Retention: p.retention, To: p.Cutoff, Cutoff: p.Cutoff}
}

// decide says what happens to a table whose rows are counted.
func (pl *planner) decide(m MonthPlan) MonthPlan {
	whole := m.Kept == 0 && m.Odd == 0 && !pl.plan.RowsOnly && !pl.plan.Legacy && !pl.protected(m.Table) && pl.outlived(m.Table)
	switch {
	case m.Action == ActionFinish:
		m.PutBack = !whole
	case whole && m.Rows > 0:
		m.Action = ActionDrop
	case m.Rows > 0:
		m.Action = ActionRows
	}
	return m
}

func (pl *planner) protected(t partition.Table) bool {
	return protected(&pl.cat, t, pl.plan.Now, pl.plan.zone)
}

// protected reports a month that is never dropped (hazard P17): the current and future ones, and the newest, without which
// the ledger would have no home at all.
func protected(cat *partition.Catalog, t partition.Table, now time.Time, zone *time.Location) bool {
	if t.Month >= partition.MonthOf(now, zone) {
		return true
	}
	return !slices.ContainsFunc(cat.Tables, func(o partition.Table) bool {
		return o.State == partition.Live && o.Month > t.Month
	})
}

// outlived reports that the retention has passed since the month's end: its drop, which makes every message of the month
// unprovable, then forgets nothing that is not due to be forgotten. A month whose rows all came early loses them as rows.
// Without a retention it counts as passed.
func (pl *planner) outlived(t partition.Table) bool {
	return !t.Month.End(pl.plan.zone).Add(pl.opts.Retention).After(pl.plan.Cutoff)
}

// emptyMonths drops past months without a row where that makes no message unprovable that is not already: below what the
// horizon will be anyway, or when the retention has passed since the month's end.
func (pl *planner) emptyMonths() {
	if pl.plan.Legacy || pl.plan.RowsOnly {
		return
	}
	var lowest time.Time
	for i, h := range pl.horizonAfter() {
		if i == 0 || h.After.Before(lowest) {
			lowest = h.After
		}
	}
	for i := range pl.plan.Months {
		m := &pl.plan.Months[i]
		if m.Action != ActionKeep || m.Note != "" || m.Kept > 0 || m.Odd > 0 || pl.protected(m.Table) {
			continue
		}
		if !m.Table.Month.End(pl.plan.zone).After(lowest) || (pl.opts.Retention > 0 && pl.outlived(m.Table)) {
			m.Action = ActionDrop
		}
	}
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
