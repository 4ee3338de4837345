package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
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
	return ok("%d months, the last %s", len(tables), tables[len(tables)-1].Month), nil
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
	return ok("%d months, the last %s", len(tables), tables[len(tables)-1].Month)
}

// checkHorizon compares what the ledger remembers with what the retention promises.
func checkHorizon(ctx context.Context, f *Facts) (Result, error) {
	if f.Scheme.Legacy() {
		return skipped("a ledger made by someone else has no catalog that would say it"), nil
	}
	cat, err := f.catalog(ctx)
	if errors.Is(err, partition.ErrNoCatalog) {
		return skipped("no catalog yet"), nil
	}
	if err != nil {
		return Result{}, err
	}
	now, err := f.now(ctx)
	if err != nil {
		return Result{}, err
	}
	var bad []Result
	var latest time.Time
	var names []string
	for biz := range cat.Biz {
		names = append(names, biz)
	}
	slices.Sort(names)
	for _, biz := range names {
		h, known := cat.Horizon(biz)
		if !known {
			continue
		}
		if h.After(latest) {
			latest = h
		}
		bad = append(bad, judgeHorizon(biz, h, cat.Biz[biz], now, f.Retention)...)
	}
	if latest.IsZero() {
		return ok("no biz_type has claimed yet"), nil
	}
	return merge(ok("memory complete after %s at the latest, %s ago; retention %s", stamp(latest), Short(now.Sub(latest).Round(time.Minute)), Short(f.Retention)), bad), nil
}

func judgeHorizon(biz string, h time.Time, m partition.Memory, now time.Time, retention time.Duration) []Result {
	const mend = "idemctl partition list; if no effect ran outside the ledger since TIME: idemctl partition create --memory-since TIME --biz-type "
	read := fmt.Sprintf("%s: memory complete after %s", biz, stamp(h))
	switch {
	case h.After(now):
		return []Result{finding(Fail, read+", in the future", "Until then every message without a row is refused as outside_horizon.", mend+biz)}
	case now.Sub(h) >= retention:
		return nil
	case h.Equal(m.Since):
		return []Result{finding(Warn, read+", when it first claimed",
			fmt.Sprintf("Messages from before that are refused until %s: nobody can prove that they are new.", stamp(h.Add(retention))), mend+biz)}
	}
	return []Result{finding(Warn, fmt.Sprintf("%s, only %s ago; retention is %s", read, Short(now.Sub(h).Round(time.Minute)), Short(retention)),
		"Entries younger than the retention are gone (a purge with a shorter one, or a lost table), so their orders are refused when they come again.", mend+biz)}
}

// checkTimes looks for rows from the future: another writer's local time, or a clock that is wrong (hazards P3, P18).
func checkTimes(ctx context.Context, f *Facts) (Result, error) {
	found, err := f.present(ctx)
	if err != nil {
		return Result{}, err
	}
	now, err := f.now(ctx)
	if err != nil {
		return Result{}, err
	}
	var bad []Result
	var newest time.Time
	for _, s := range found {
		rows, err := f.newest(ctx, s)
		if err != nil {
			return Result{}, err
		}
		ahead, byGuard, latest := 0, 0, time.Time{}
		for _, r := range rows {
			if r.Create.After(latest) {
				latest = r.Create
			}
			if r.Create.After(now.Add(f.Slack)) {
				ahead++
				if r.Claimed {
					byGuard++
				}
			}
		}
		if latest.After(newest) {
			newest = latest
		}
		if ahead > 0 {
			who := "by other writers"
			if byGuard == ahead {
				who = "all by a guard, from the messages' business time"
			}
			bad = append(bad, finding(Fail, fmt.Sprintf("%s: %d of %d newest rows lie up to %s in the future, %s", s.Name, ahead, len(rows), Short(latest.Sub(now).Round(time.Second)), who),
				"create_time is UTC. Rows from the future are never purged, and one of a wrong clock or a local time tells the ledger's memory wrong.",
				"have their writer store UTC_TIMESTAMP(3), or the producer send the true time"))
		}
	}
	if newest.IsZero() {
		return ok("no rows yet; the server's UTC is %s", stamp(now)), nil
	}
	return merge(ok("newest create_time %s, the server's UTC %s", stamp(newest), stamp(now)), bad), nil
}

// checkWriters looks for rows without a claim id: their writers do not look into other months (hazard G26).
func checkWriters(ctx context.Context, f *Facts) (Result, error) {
	if f.Scheme.Legacy() {
		return skipped("a ledger made by someone else has no claim ids"), nil
	}
	found, err := f.present(ctx)
	if err != nil {
		return Result{}, err
	}
	foreign, total := map[string]int{}, 0
	for _, s := range found {
		rows, err := f.newest(ctx, s)
		if err != nil {
			return Result{}, err
		}
		total += len(rows)
		for _, r := range rows {
			if !r.Claimed {
				foreign[r.BizType]++
			}
		}
	}
	ours := f.bizTypes()
	var bad []Result
	var others []string
	for _, biz := range sortedKeys(foreign) {
		if !slices.Contains(ours, biz) {
			others = append(others, fmt.Sprintf("%s %d", biz, foreign[biz]))
			continue
		}
		bad = append(bad, finding(Fail, fmt.Sprintf("%s: %d of the %d newest rows were not written by a guard", biz, foreign[biz], total),
			"Their writer does not look into the other months, so an order that comes again after the month has turned can run twice. replay --mode execute and consume refuse this biz_type.",
			"guard that writer too; or, knowing the risk, --accept-foreign-writers"))
	}
	well := ok("%d newest rows, all by a guard", total)
	if len(others) > 0 {
		well = ok("%d newest rows; others write biz_types that no handler here executes: %s", total, strings.Join(others, ", "))
	}
	return merge(well, bad), nil
}

// checkTruncated looks for what INSERT IGNORE and a lax sql_mode leave behind: keys that fill their column, empty keys,
// dates that are none (hazard G5).
func checkTruncated(ctx context.Context, f *Facts) (Result, error) {
	found, err := f.present(ctx)
	if err != nil {
		return Result{}, err
	}
	var bad []Result
	total := 0
	for _, s := range found {
		rows, err := f.newest(ctx, s)
		if err != nil {
			return Result{}, err
		}
		total += len(rows)
		col, _ := s.column(f.Scheme.Columns().OrderID)
		bad = append(bad, judgeCut(s.Name, col, rows)...)
	}
	return merge(ok("%d newest rows: no key fills its column, none is empty", total), bad), nil
}

func judgeCut(table string, col column, rows []row) []Result {
	var full, empty, undated int
	example := ""
	for _, r := range rows {
		size := int64(len(r.OrderID))
		if col.Collation != "" { // VARCHAR(n) holds n characters
			size = int64(len([]rune(string(r.OrderID))))
		}
		switch {
		case size == 0:
			empty++
		case col.Chars > 0 && size >= col.Chars:
			full++
			example = string(r.OrderID)
		}
		if r.Create.IsZero() {
			undated++
		}
	}
	const mend = "have their writer use a plain INSERT in strict mode, check lengths before it, and widen the column"
	var bad []Result
	if full > 0 {
		bad = append(bad, finding(Warn, fmt.Sprintf("%s: %d of %d newest keys are exactly as long as their column (%d), such as %q", table, full, len(rows), col.Chars, example),
			"INSERT IGNORE cuts a key that does not fit: two orders that differ behind the cut become one, and the second is dropped.", mend))
	}
	if empty+undated > 0 {
		bad = append(bad, finding(Fail, fmt.Sprintf("%s: %d empty keys and %d rows without a date among the %d newest", table, empty, undated, len(rows)),
			"INSERT IGNORE stores '' for a missing key: all messages without one pass for duplicates of the first.", mend))
	}
	return bad
}

// monthsLock is the purpose of the lock that partition.LockMonths takes.
const monthsLock = "months"

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
	if err := f.DB.QueryRowContext(ctx, "SELECT IS_USED_LOCK(?) IS NOT NULL", mysqlx.LockName(monthsLock, schema, f.Scheme.Prefix())).Scan(&busy); err != nil {
		return Result{}, fmt.Errorf("ask for the lock of the months: %w", err)
	}
	if busy {
		return ok("%s; a run is at it", strings.Join(left, ", ")), nil
	}
	return finding(Warn, strings.Join(left, ", ")+", and no run is at it",
		"A purge broke off. Guards look into these tables but write none, so a message of that month is held.",
		"idemctl purge --execute goes on with them: it drops what is expired and puts the rest back"), nil
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
