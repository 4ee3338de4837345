package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/partition"
)

// checkLeftover looks for tables that a purge has renamed and not dropped or put back (hazard G25).
func checkLeftover(ctx context.Context, f *Facts) (Result, error) {
	if f.Scheme.Legacy() {
		return skipped("a ledger made by someone else has no catalog that would list them"), nil
	}
	tables, err := f.tables(ctx)
	if err != nil {
		return Result{}, err
	}
	var left []string
	for _, t := range tables {
		if t.State != partition.Live {
			left = append(left, fmt.Sprintf("%s is %s", strings.Join(t.Names(), " or "), t.State))
		}
	}
	if len(left) == 0 {
		return ok("no table is held or being moved"), nil
	}
	schema, err := mysqlx.Schema(ctx, f.DB)
	if err != nil {
		return Result{}, err
	}
	var busy bool
	// The lock that create, purge and restore share: while someone has it, this is work going on.
	if err := f.DB.QueryRowContext(ctx, "SELECT IS_USED_LOCK(?) IS NOT NULL", f.Scheme.LockName(schema)).Scan(&busy); err != nil {
		return Result{}, fmt.Errorf("ask for the lock of the months: %w", err)
	}
	if busy {
		return ok("%s; a run is at it", strings.Join(left, ", ")), nil
	}
	return finding(Warn, strings.Join(left, ", ")+", and no run is at it",
		"A purge broke off. Guards look into these tables but write none, so a message of that month is held.",
		"idemctl purge --execute goes on with them: it drops what is expired and puts the rest back"), nil
}
