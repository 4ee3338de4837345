package partition

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// The reasons for which a move is refused.
var (
	// ErrTableChanged says that the catalog does not list the table as the caller has it: read it again.
	ErrTableChanged = errors.New("the catalog lists this table otherwise")
	// ErrTwoTables says that a month is there under both of its names, and nobody can say which one holds what.
	ErrTwoTables = errors.New("both tables are there")
	// ErrMonthNotOver says that entries of the month are still written (hazard P17).
	ErrMonthNotOver = errors.New("the month is not over")
)

var runForm = regexp.MustCompile(`^[0-9a-f]{8}$`)

// Mover renames months away, puts them back, and drops them. Each step is listed in the catalog before it is done and
// settled after (invariant 9), so a guard finds every row wherever a crash leaves the table, and the next run finishes or
// undoes what this one began (Settle).
type Mover struct {
	conn   *sql.Conn
	scheme Scheme
	zone   *time.Location
}

// NewMover returns a mover over the connection that holds the ledger's lock (LockMonths): a run that has lost its lock has
// lost that connection, and can neither rename nor drop (hazard P20). zone is that of month boundaries.
func NewMover(conn *sql.Conn, s Scheme, zone *time.Location) *Mover {
	return &Mover{conn: conn, scheme: s, zone: zone}
}

// Hold renames a live month of the past away, so that no new entry goes there; guards go on looking into it. run, 8 hex
// digits, goes into the name, so that no other run can take the table for its own. It returns the table as it is listed
// now. A rename that fails leaves the month as it was.
func (m *Mover) Hold(ctx context.Context, t Table, run string) (Table, error) {
	if !runForm.MatchString(run) {
		return t, fmt.Errorf("hold %s: run %q: expected 8 hex digits", t.Name, run)
	}
	if t.State != Live || t.Name != m.scheme.Table(t.Month) {
		return t, fmt.Errorf("hold %s: it is %s, not a live month: %w", t.Name, t.State, ErrTableChanged)
	}
	if err := m.requireOver(ctx, t.Month); err != nil {
		return t, fmt.Errorf("hold %s: %w", t.Name, err)
	}
	held := Table{Month: t.Month, Name: t.Name + "_held_" + run, State: Held}
	if err := m.move(ctx, t, held); err != nil {
		return t, fmt.Errorf("hold %s: %w", t.Name, err)
	}
	return held, nil
}

// PutBack makes a held month a home again. A rename that fails leaves it held.
func (m *Mover) PutBack(ctx context.Context, t Table) (Table, error) {
	if t.State != Held {
		return t, fmt.Errorf("put back %s: it is %s, not held: %w", t.Name, t.State, ErrTableChanged)
	}
	live := Table{Month: t.Month, Name: m.scheme.Table(t.Month), State: Live}
	if err := m.move(ctx, t, live); err != nil {
		return t, fmt.Errorf("put back %s: %w", t.Name, err)
	}
	return live, nil
}

// move lists both names, renames, and settles.
func (m *Mover) move(ctx context.Context, from, to Table) error {
	between := Table{Month: from.Month, Name: from.Name, State: Moving, Also: to.Name}
	if err := m.relist(ctx, from, between); err != nil {
		return err
	}
	statement := "RENAME TABLE " + mysqlx.Quote(from.Name) + " TO " + mysqlx.Quote(to.Name)
	err := mysqlx.DDL(ctx, m.conn, statement)
	ctx, cancel := settling(ctx)
	defer cancel()
	if err == nil {
		return m.relist(ctx, between, to)
	}
	// A server's refusal is certain, a lost connection is not: then the listing of both names stays, for Settle.
	if there, xerr := exists(ctx, m.conn, from.Name); xerr == nil && there {
		return errors.Join(err, m.relist(ctx, between, from))
	}
	if _, _, serr := m.Settle(ctx, between); serr != nil {
		return fmt.Errorf("%w (and it stays listed as moving: %w)", err, serr)
	}
	return err
}

// settleTimeout bounds the note of what a rename did, which is written even when the run was interrupted.
const settleTimeout = 10 * time.Second

func settling(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
}

// Settle ends a move that a crash broke off: it looks under which of its names the table is, and lists it so. false: it is
// under neither, so it is not listed any more, and the horizon lies at the month's end at least. ErrTwoTables: someone has
// made a table by the name that was given up; nothing is changed. A table that is not moving stays as it is.
func (m *Mover) Settle(ctx context.Context, t Table) (Table, bool, error) {
	if t.State != Moving {
		return t, true, nil
	}
	from, err := exists(ctx, m.conn, t.Name)
	if err != nil {
		return t, true, fmt.Errorf("settle %s: %w", t.Name, err)
	}
	to, err := exists(ctx, m.conn, t.Also)
	if err != nil {
		return t, true, fmt.Errorf("settle %s: %w", t.Name, err)
	}
	settled := Table{Month: t.Month, Name: t.Name}
	switch {
	case from && to:
		return t, true, fmt.Errorf("settle %s: %w: %s and %s; compare them, and remove or rename the one that is not the month", t.Name, ErrTwoTables, t.Name, t.Also)
	case to:
		settled.Name = t.Also
	case !from:
		if err := m.unlist(ctx, t, nil); err != nil {
			return t, true, fmt.Errorf("settle %s: %w", t.Name, err)
		}
		return t, false, nil
	}
	settled.State = Held
	if settled.Name == m.scheme.Table(t.Month) {
		settled.State = Live
	}
	if err := m.relist(ctx, t, settled); err != nil {
		return t, true, fmt.Errorf("settle %s: %w", t.Name, err)
	}
	return settled, true, nil
}

// Drop ends a held month. purged is the latest create_time of its rows for each biz_type. The horizon is raised first, to
// these times and to the month's end at least; then the table goes, then its listing. A table that is gone already, since a
// run broke off between the two, only loses its listing.
func (m *Mover) Drop(ctx context.Context, t Table, purged map[string]time.Time) error {
	if t.State != Held {
		return fmt.Errorf("drop %s: it is %s, not held: %w", t.Name, t.State, ErrTableChanged)
	}
	err := m.requireOver(ctx, t.Month)
	if err == nil {
		err = checkHorizon(ctx, m.conn, purged)
	}
	if err == nil {
		_, err = updateCatalog(ctx, overConn(m.conn), m.scheme, func(c *Catalog) (bool, error) {
			if !slices.Contains(c.Tables, t) {
				return false, ErrTableChanged
			}
			return c.raise(purged, t.Month.End(m.zone)), nil
		})
	}
	if err == nil {
		err = mysqlx.DDL(ctx, m.conn, "DROP TABLE IF EXISTS "+mysqlx.Quote(t.Name))
	}
	if err == nil {
		ctx, cancel := settling(ctx)
		defer cancel()
		err = m.unlist(ctx, t, purged)
	}
	if err != nil {
		return fmt.Errorf("drop %s: %w", t.Name, err)
	}
	return nil
}

// requireOver refuses a month in which the database's now lies, or a later one: it is a home of new entries.
func (m *Mover) requireOver(ctx context.Context, month Month) error {
	now, err := mysqlx.Now(ctx, m.conn)
	if err != nil {
		return err
	}
	if end := month.End(m.zone); end.After(now) {
		return fmt.Errorf("%w: it ends at %s", ErrMonthNotOver, stamp(end))
	}
	return nil
}

// relist replaces one entry of the catalog.
func (m *Mover) relist(ctx context.Context, from, to Table) error {
	_, err := updateCatalog(ctx, overConn(m.conn), m.scheme, func(c *Catalog) (bool, error) {
		i := slices.Index(c.Tables, from)
		if i < 0 {
			return false, fmt.Errorf("%s (%s): %w", from.Name, from.State, ErrTableChanged)
		}
		c.Tables[i] = to
		return true, nil
	})
	return err
}

// unlist takes an entry out of the catalog, with what is forgotten by that, in one statement.
func (m *Mover) unlist(ctx context.Context, t Table, purged map[string]time.Time) error {
	_, err := updateCatalog(ctx, overConn(m.conn), m.scheme, func(c *Catalog) (bool, error) {
		i := slices.Index(c.Tables, t)
		if i < 0 {
			return false, nil
		}
		c.raise(purged, t.Month.End(m.zone))
		c.Tables = slices.Delete(c.Tables, i, i+1)
		return true, nil
	})
	return err
}
