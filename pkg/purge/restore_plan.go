package purge

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/partition"
)

// The reasons for which a restore is refused. Nothing has been changed then.
var (
	// ErrRestoreLegacy says that a ledger made by someone else cannot be restored: its rows were archived, and no rule says
	// how they would have to be written.
	ErrRestoreLegacy = errors.New("a ledger with other columns cannot be restored by this version; its archives can be read with zstdcat")
	// ErrNoMonth says that the archive's month takes no rows: it has no table, or a purge holds it. The text says what to do.
	ErrNoMonth = errors.New("the archive's month has no table to restore into")
	// ErrInto says that a table of that name must not be restored into.
	ErrInto = errors.New("a table that cannot be restored into")
	// ErrOtherLedger says that the archive belongs to a ledger of another table prefix.
	ErrOtherLedger = errors.New("the archive is of another ledger")
)

// RestoreOptions say where an archive goes.
type RestoreOptions struct {
	// Into names the table; empty: the archive's month. A name that is none of the ledger's makes a table that protects
	// nothing: no guard looks into it.
	Into string
	// Retention is how long the restored rows are kept from now on (hazard P19).
	Retention time.Duration
}

// RestorePlan is what Restore does: the value that is shown is the value that is executed.
type RestorePlan struct {
	Archive  string   `json:"archive"`
	Manifest Manifest `json:"manifest"`
	// Target is the table. Month is that of the ledger that it is; zero: it is none, and protects nothing.
	Target   string          `json:"target"`
	Month    partition.Month `json:"month,omitzero"`
	Protects bool            `json:"protects"`
	// Create says that the table is not there and is made.
	Create bool  `json:"create"`
	Rows   int64 `json:"rows"`
	// Now is the database's clock, read once. Every restored row expires at Expiry, Now and the retention; its create_time
	// is that of the archive.
	Now    time.Time `json:"now"`
	Expiry time.Time `json:"expiry"`
	// LeftOut are columns of the archive that the table has not.
	LeftOut []string `json:"columns_left_out"`
	// LedgerID is the ledger's now, empty without a catalog. Another one than the archive's is no obstacle: it is rotated.
	LedgerID string `json:"ledger_id"`

	archive *Archive
	scheme  partition.Scheme
	zone    *time.Location
}

var tableForm = regexp.MustCompile(`^[A-Za-z0-9_$]+$`)

// PlanRestore verifies the archive, every byte of it, and decides where its rows go. zone is that of the ledger's months.
// Errors are *ArchiveError, ErrRestoreLegacy, ErrNoMonth, ErrInto, ErrOtherLedger, partition.ErrTimeZone, and those of the
// server.
func PlanRestore(ctx context.Context, db *sql.DB, scheme partition.Scheme, zone *time.Location, a *Archive, opts RestoreOptions) (RestorePlan, error) {
	m := a.Manifest()
	p := RestorePlan{Archive: a.Path(), Manifest: m, Rows: m.Rows, LeftOut: []string{}, archive: a, scheme: scheme, zone: zone}
	if scheme.Legacy() || !m.ColumnMap.own() {
		return p, ErrRestoreLegacy
	}
	if opts.Retention < time.Second {
		return p, fmt.Errorf("retention %s: expected at least 1s", opts.Retention)
	}
	if err := a.Verify(ctx); err != nil {
		return p, err
	}
	server, err := mysqlx.Inspect(ctx, db)
	if err != nil {
		return p, err
	}
	if err := server.RequireSingleWriter(); err != nil {
		return p, err
	}
	if p.Now, err = mysqlx.Now(ctx, db); err != nil {
		return p, err
	}
	p.Expiry = p.Now.Add(opts.Retention.Truncate(time.Millisecond))
	if err := p.target(ctx, db, opts.Into); err != nil {
		return p, err
	}
	columns, err := tableColumns(ctx, db, p.Target)
	if err != nil {
		return p, err
	}
	p.Create = len(columns) == 0
	if p.Create && p.Protects {
		err := p.monthLost()
		return p, err
	}
	if p.Create {
		columns = ownTableColumns()
	} else if err := p.checkShape(ctx, db); err != nil {
		return p, err
	}
	for _, c := range m.Columns {
		if !c.Computed && !columns.has(c.Name) {
			p.LeftOut = append(p.LeftOut, c.Name)
		}
	}
	return p, nil
}

// monthLost is the refusal of a month that the catalog lists and that is not there. It is not made on the way: what it held
// besides is not known, and only partition create raises the horizon for it.
func (p *RestorePlan) monthLost() error {
	return fmt.Errorf("%w: %s is in the catalog, but not there (make it again: idemctl partition create --from %s --execute)", ErrNoMonth, p.Target, p.Month)
}

// checkShape refuses a table on which a duplicate key would not mean what it must (invariant 5).
func (p *RestorePlan) checkShape(ctx context.Context, q mysqlx.Queryer) error {
	_, err := partition.VerifyTables(ctx, q, []string{p.Target})
	if _, unsafe := errors.AsType[*partition.UnsafeTableError](err); unsafe && !p.Protects {
		return fmt.Errorf("%w: %w", ErrInto, err)
	}
	return err
}

// target finds the table.
func (p *RestorePlan) target(ctx context.Context, q mysqlx.Queryer, into string) error {
	cat, err := partition.LoadCatalog(ctx, q, p.scheme)
	switch {
	case errors.Is(err, partition.ErrNoCatalog) && into != "":
		cat = partition.Catalog{} // any server will do to look at an archive
	case err != nil:
		return err
	case cat.TimeZone != p.zone.String():
		return fmt.Errorf("%w: the catalog says %s, this configuration says %s", partition.ErrTimeZone, cat.TimeZone, p.zone)
	}
	p.LedgerID = cat.LedgerID
	if into == "" {
		if p.Manifest.Prefix != p.scheme.Prefix() {
			return fmt.Errorf("%w: its tables are %s_…, this configuration's are %s_… (give --table-prefix %s, or --into TABLE)",
				ErrOtherLedger, p.Manifest.Prefix, p.scheme.Prefix(), p.Manifest.Prefix)
		}
		into = p.scheme.Table(p.Manifest.Month)
		if !listed(&cat, into) {
			return fmt.Errorf("%w: %s is not in the catalog (make it: idemctl partition create --from %s --execute; or look at the rows elsewhere: --into TABLE)",
				ErrNoMonth, into, p.Manifest.Month)
		}
	}
	if len(into) > 64 || !tableForm.MatchString(into) {
		return fmt.Errorf("%w: %q: expected 1 to 64 of A-Z a-z 0-9 _ $", ErrInto, into)
	}
	p.Target = into
	return p.place(&cat)
}

// place decides whether the target is a month of the ledger, and refuses what is neither that nor clearly none.
func (p *RestorePlan) place(cat *partition.Catalog) error {
	for _, t := range cat.Tables {
		for _, name := range t.Names() {
			switch {
			case !strings.EqualFold(name, p.Target):
			case name != p.Target:
				return fmt.Errorf("%w: %s differs from the month %s by case alone", ErrInto, p.Target, name)
			case t.State != partition.Live:
				return fmt.Errorf("%w: %s is %s: a purge is dropping it or has broken off (finish it: idemctl purge --execute; then idemctl partition create --from %s --execute)",
					ErrNoMonth, name, t.State, t.Month)
			default:
				p.Month, p.Protects = t.Month, true
				return nil
			}
		}
		if t.Month == p.Manifest.Month && p.Target == p.scheme.Table(t.Month) {
			return fmt.Errorf("%w: it is %s as %s: a purge is dropping it or has broken off (finish it: idemctl purge --execute; then idemctl partition create --from %s --execute)",
				ErrNoMonth, t.State, t.Name, t.Month)
		}
	}
	lower := strings.ToLower(p.Target)
	if strings.HasPrefix(lower, strings.ToLower(p.scheme.Prefix())+"_") || strings.EqualFold(p.Target, p.scheme.Prefix()) ||
		strings.HasPrefix(lower, "t_idempotent_control") || strings.HasPrefix(lower, "t_idempotent_run") {
		return fmt.Errorf("%w: %s would be taken for one of the ledger's own tables (choose a name such as restored_%s)",
			ErrInto, p.Target, p.Manifest.Month.Digits())
	}
	return nil
}

func listed(cat *partition.Catalog, name string) bool {
	for _, t := range cat.Tables {
		if slices.Contains(t.Names(), name) {
			return true
		}
	}
	return false
}
