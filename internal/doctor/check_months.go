package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/idemctl/idemctl/pkg/partition"
)

const mendCreate = "idemctl partition create --execute, nightly from cron"

// checkMonths wants the current month and the next to be listed and there (hazard G18).
func checkMonths(ctx context.Context, f *Facts) (Result, error) {
	tables, err := f.tables(ctx)
	if err != nil {
		return Result{}, err
	}
	now, err := f.now(ctx)
	if err != nil {
		return Result{}, err
	}
	found, err := f.present(ctx)
	if err != nil {
		return Result{}, err
	}
	if f.Scheme.Legacy() {
		return legacyMonths(f, tables, now), nil
	}
	if _, err := f.catalog(ctx); errors.Is(err, partition.ErrNoCatalog) {
		return finding(Fail, fmt.Sprintf("no catalog for %s", f.Scheme.Prefix()), "Nobody can say what the ledger remembers, so every guard refuses to run.", "idemctl partition create --execute"), nil
	}
	there := map[string]bool{}
	for _, s := range found {
		there[s.Name] = true
	}
	bad := missingMonths(f, tables, there, now)
	listed, err := partition.FindTables(ctx, f.DB, f.Scheme)
	if err != nil {
		return Result{}, err
	}
	for _, t := range listed {
		if !slices.ContainsFunc(tables, func(u partition.Table) bool { return slices.Contains(u.Names(), t.Name) }) {
			bad = append(bad, finding(Warn, t.Name+" is there and the catalog does not list it", "No guard looks into it: what it holds protects nothing.", "idemctl partition create lists it; look at its rows first"))
		}
	}
	if len(bad) > 0 {
		return merge(Result{}, bad), nil
	}
	return ok("%s, the last %s", count(len(tables), "month"), tables[len(tables)-1].Month), nil
}

func missingMonths(f *Facts, tables []partition.Table, there map[string]bool, now time.Time) []Result {
	var bad []Result
	current := partition.MonthOf(now, f.Zone)
	for _, m := range []partition.Month{current, current + 1} {
		home := slices.ContainsFunc(tables, func(t partition.Table) bool { return t.Month == m && t.State == partition.Live && there[t.Name] })
		if home {
			continue
		}
		why := "Every message of this month is held until its table is made."
		if m > current {
			why = fmt.Sprintf("From %s on every message is held until the table is made.", m.Start(f.Zone).Format(time.RFC3339))
		}
		bad = append(bad, finding(Fail, fmt.Sprintf("%s is missing", f.Scheme.Table(m)), why, mendCreate))
	}
	for _, t := range tables {
		if t.Month >= current && t.Month <= current+1 || slices.ContainsFunc(t.Names(), func(n string) bool { return there[n] }) {
			continue
		}
		bad = append(bad, finding(Fail, t.Name+" is listed and gone", "Guards stop at a table that the catalog lists and the server does not have; what it remembered is lost.",
			"restore it, or idemctl partition create --execute: it is made again and the horizon raised"))
	}
	return bad
}

// legacyMonths judges a ledger that has no catalog: who makes its tables is not known, only that the next one is needed.
func legacyMonths(f *Facts, tables []partition.Table, now time.Time) Result {
	if len(tables) == 0 {
		return noTables(f)
	}
	if slices.ContainsFunc(tables, func(t partition.Table) bool { return t.Month == 0 }) {
		return ok("one table, %s", f.Scheme.Prefix())
	}
	current := partition.MonthOf(now, f.Zone)
	for _, m := range []partition.Month{current, current + 1} {
		if !slices.ContainsFunc(tables, func(t partition.Table) bool { return t.Month == m }) {
			return finding(Fail, f.Scheme.Table(m)+" is missing", "When the month has come, its writer fails, or makes the table in the middle of a transaction.",
				"have the service that owns the ledger make its months ahead")
		}
	}
	return ok("%s, the last %s", count(len(tables), "month"), tables[len(tables)-1].Month)
}
