package partition

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// Severity says whether a finding fails a check.
type Severity string

// The severities.
const (
	Fail Severity = "fail"
	Warn Severity = "warn"
)

// Finding is one thing that is not as it should be.
type Finding struct {
	Severity Severity `json:"severity"`
	// Kind is catalog_missing, month_missing, table_gone, drift, unlisted, look_alike, leftover or future_rows.
	Kind  string `json:"kind"`
	Table string `json:"table,omitempty"`
	// What is the finding in words.
	What string `json:"what"`
	// Mend is the command, or the SQL, that mends it; a "#" begins what a person must decide first.
	Mend string `json:"mend"`
}

// The kinds of findings.
const (
	KindCatalogMissing = "catalog_missing"
	KindMonthMissing   = "month_missing"
	KindTableGone      = "table_gone"
	KindDrift          = "drift"
	KindUnlisted       = "unlisted"
	KindLookAlike      = "look_alike"
	KindLeftover       = "leftover"
	KindFutureRows     = "future_rows"
)

// CheckRequest asks for a check.
type CheckRequest struct {
	// Ahead is how many months after the current one shall exist.
	Ahead int
	// AsOf checks as if it were this time instead of the database's now; zero: now.
	AsOf time.Time
}

// CheckReport is what a check found.
type CheckReport struct {
	Now       time.Time `json:"now"`       // the database's clock, or the time asked for
	Rehearsal bool      `json:"rehearsal"` // it was asked for
	TimeZone  string    `json:"time_zone"`
	Tables    int       `json:"tables"` // that were looked at
	Findings  []Finding `json:"findings"`
	// NotChecked says what could not be looked at, and why.
	NotChecked []string `json:"not_checked"`
}

// Failed reports a finding that fails the check.
func (r *CheckReport) Failed() bool {
	for _, f := range r.Findings {
		if f.Severity == Fail {
			return true
		}
	}
	return false
}

// Check compares a ledger with what it should be: the months up to Ahead are there and listed, without holes; each table has
// the shape that a guard and a purge need; nothing else bears a month's name; no row is dated in the future. It changes
// nothing. An error means that hardly anything could be looked at; what a user's privileges hide goes into NotChecked.
func (m *Manager) Check(ctx context.Context, req CheckRequest) (CheckReport, error) {
	now, err := m.clock(ctx, req.AsOf)
	if err != nil {
		return CheckReport{}, err
	}
	if err := m.checkAhead(req.Ahead, now); err != nil {
		return CheckReport{}, err
	}
	c := &checker{m: m, now: now, ahead: req.Ahead, current: MonthOf(now, m.zone), rep: CheckReport{
		Now: now, Rehearsal: !req.AsOf.IsZero(), TimeZone: m.zone.String(), Findings: []Finding{}, NotChecked: []string{},
	}}
	cat, err := m.catalog(ctx)
	if errors.Is(err, ErrNoCatalog) {
		c.add(Fail, KindCatalogMissing, ControlTable, "there is no catalog row for "+m.scheme.prefix+": every guard refuses to start", createCommand)
		cat, err = Catalog{TimeZone: m.zone.String()}, nil
	}
	if err != nil {
		return c.rep, err
	}
	c.cat = cat
	for _, step := range []func(context.Context) error{c.readNames, c.checkMonths, c.checkListed, c.checkNames, c.checkTables, c.checkSight} {
		if err := step(ctx); err != nil {
			return c.rep, err
		}
	}
	return c.rep, nil
}

const createCommand = "idemctl partition create --execute"

// checker gathers the findings of one check.
type checker struct {
	m       *Manager
	now     time.Time
	ahead   int
	current Month
	cat     Catalog
	rep     CheckReport
	// names are all tables and views whose names begin as those of the ledger do.
	names map[string]bool
}

func (c *checker) add(severity Severity, kind, table, what, mend string) {
	c.rep.Findings = append(c.rep.Findings, Finding{Severity: severity, Kind: kind, Table: table, What: what, Mend: mend})
}

func (c *checker) skipf(format string, args ...any) {
	c.rep.NotChecked = append(c.rep.NotChecked, fmt.Sprintf(format, args...))
}

// checkMonths looks for months without a table: from the oldest that there is to the last that shall be there. A month that
// was dropped is no hole, and one that is held comes back or goes.
func (c *checker) checkMonths(context.Context) error {
	if len(c.cat.Tables) == 0 && c.m.scheme.Legacy() && !c.hasMonths() {
		return nil // one table for all months
	}
	first := c.current
	for name := range c.names {
		if mon, ok := c.m.scheme.Month(name); ok {
			first = min(first, mon)
		}
	}
	for _, t := range c.cat.Tables {
		if t.Month != 0 {
			first = min(first, t.Month)
		}
	}
	missing := 0
	for mon := first; mon <= c.current+Month(c.ahead); mon++ {
		name := c.m.scheme.Table(mon)
		listed := c.cat.listed(name)
		if listed || c.names[name] || c.cat.away(mon) || !mon.End(c.m.zone).After(c.cat.LostUntil) {
			continue
		}
		missing++
		if missing > MaxTables {
			continue
		}
		mend := createCommand
		switch {
		case c.m.scheme.Legacy():
			mend = "# its owner makes it"
		case mon > c.current:
			mend = fmt.Sprintf("idemctl partition create --ahead %d --execute", c.ahead)
		}
		c.add(Fail, KindMonthMissing, name, c.missingWords(mon), mend)
	}
	if missing > MaxTables {
		c.add(Fail, KindMonthMissing, "", fmt.Sprintf("and %d more months", missing-MaxTables), createCommand)
	}
	return nil
}

func (c *checker) missingWords(mon Month) string {
	switch n := int(mon - c.current); {
	case n == 0:
		return "the current month has no table: consumers are held at its messages"
	case n > 0:
		return fmt.Sprintf("the month begins at %s and has no table", mon.Start(c.m.zone).In(c.m.zone).Format(time.RFC3339))
	}
	return "a hole: older months have a table and this one has none"
}

func (c *checker) hasMonths() bool {
	for name := range c.names {
		if _, ok := c.m.scheme.Month(name); ok {
			return true
		}
	}
	return false
}

// checkListed looks at each table of the catalog under the names that it has there.
func (c *checker) checkListed(ctx context.Context) error {
	busy, err := c.m.locked(ctx)
	if err != nil {
		return err
	}
	for _, t := range c.cat.Tables {
		there := 0
		for _, name := range t.Names() {
			ok, err := exists(ctx, c.m.db, name)
			switch {
			case isDenied(err):
				c.skipf("%s: this user may not read it", name)
				ok = true
			case err != nil:
				return err
			}
			if ok {
				there++
			}
		}
		c.checkEntry(t, there, busy)
	}
	return nil
}

func (c *checker) checkEntry(t Table, there int, busy bool) {
	by := "a run broke off; the next purge ends what it began"
	if busy {
		by = "a run is at work on the months now"
	}
	const mend = "idemctl purge --execute"
	switch {
	case t.State == Live && there == 0:
		c.add(Fail, KindTableGone, t.Name, "it is listed and not there: every guard refuses to start", createCommand+"   # raises the horizon to the month's end")
	case t.State == Live:
	case there == 0 && t.State == Held:
		c.add(Warn, KindLeftover, t.Name, "it was dropped and is still listed: "+by, mend)
	case there == 0:
		c.add(Fail, KindTableGone, t.Name, "it was being renamed to "+t.Also+" and is under neither name", mend)
	case there > 1:
		c.add(Fail, KindLeftover, t.Name, "it was being renamed to "+t.Also+" and both are there: nobody can say which holds the month",
			"# compare them; drop or rename the one that is not the month, then: "+mend)
	case t.State == Moving:
		c.add(Warn, KindLeftover, t.Name, "it is being renamed to "+t.Also+": "+by, mend)
	default:
		c.add(Warn, KindLeftover, t.Name, "it is held, waiting to be dropped: "+by, mend)
	}
}

// locked reports that a run holds the lock of the months.
func (m *Manager) locked(ctx context.Context) (bool, error) {
	schema, err := mysqlx.Schema(ctx, m.db)
	if err != nil {
		return false, err
	}
	var held bool
	if err := m.db.QueryRowContext(ctx, "SELECT IS_USED_LOCK(?) IS NOT NULL", m.scheme.LockName(schema)).Scan(&held); err != nil {
		return false, fmt.Errorf("look for a run: %w", err)
	}
	return held, nil
}

func isDenied(err error) bool {
	switch mysqlx.Number(err) {
	case mysqlx.ErrTableAccessDenied, mysqlx.ErrDBAccessDenied:
		return true
	}
	return false
}
