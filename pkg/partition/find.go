package partition

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// FindTables lists the tables of a ledger by their names, oldest first: the months, and in a ledger made by someone else
// also the one that is called as the prefix itself. That one has Month 0 and comes last, since it holds the newest entries.
// All are Live. A table that this user may not see is not found: for a ledger of our own the catalog is the list
// (LoadCatalog).
func FindTables(ctx context.Context, q mysqlx.Queryer, s Scheme) ([]Table, error) {
	var found []Table
	err := each(ctx, q, `SELECT table_name FROM information_schema.tables
		WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE' AND table_name LIKE ?`,
		[]any{likePrefix(s.prefix) + "%"}, func(row []string) {
			if mon, ok := s.Month(row[0]); ok {
				found = append(found, Table{Month: mon, Name: row[0], State: Live})
			} else if s.Legacy() && row[0] == s.prefix {
				found = append(found, Table{Name: row[0], State: Live})
			}
		})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b Table) int {
		if (a.Month == 0) != (b.Month == 0) {
			return cmp.Compare(b.Month, a.Month)
		}
		return cmp.Compare(a.Month, b.Month)
	})
	return found, nil
}

// exists asks the table itself: information_schema hides what this user may not see, and a table that is merely hidden must
// not be taken for lost.
func exists(ctx context.Context, q mysqlx.Queryer, name string) (bool, error) {
	var one int
	err := q.QueryRowContext(ctx, "SELECT 1 FROM "+mysqlx.Quote(name)+" LIMIT 0").Scan(&one)
	switch {
	case errors.Is(err, sql.ErrNoRows) || err == nil:
		return true, nil
	case mysqlx.Number(err) == mysqlx.ErrNoSuchTable:
		return false, nil
	}
	return false, fmt.Errorf("look for %s: %w", name, err)
}
