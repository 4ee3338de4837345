package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

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
	well := ok("%s, all by a guard", count(total, "newest row"))
	if len(others) > 0 {
		well = ok("%s; others write biz_types that no handler here executes: %s", count(total, "newest row"), strings.Join(others, ", "))
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
	return merge(ok("%s: no key fills its column, none is empty", count(total, "newest row")), bad), nil
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
