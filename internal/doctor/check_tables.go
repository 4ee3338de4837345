package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/partition"
)

// The reasons for which the shape of a table matters.
const (
	whyUnique   = "The unique key is what stops the second execution: without exactly order_id and biz_type in it, an order runs twice, or another effect of it is dropped."
	whyExact    = "Orders whose ids differ only in case, accents or trailing spaces pass for one: the second of them is dropped."
	whyEngine   = "It cannot roll back: the row stays although the effect failed, and the order is lost."
	whyGuard    = "A guard refuses such a table, so its consumer stands still."
	whyWidth    = "Longer ids are refused, or cut by a lax sql_mode: two orders become one."
	mendVarbin  = "ALTER TABLE ... MODIFY the key columns to VARBINARY(128) and VARBINARY(32)"
	mendPrimary = "ALTER TABLE ... ADD UNIQUE KEY over order_id and biz_type in full length (look for duplicates first)"
)

// checkTables judges the tables as they are, from information_schema (hazards G5, G6, P13).
func checkTables(ctx context.Context, f *Facts) (Result, error) {
	found, err := f.present(ctx)
	if err != nil {
		return Result{}, err
	}
	if len(found) == 0 {
		return noTables(f), nil
	}
	var bad []Result
	for _, s := range found {
		if !f.Scheme.Legacy() {
			_, err := partition.VerifyTables(ctx, f.DB, []string{s.Name})
			if unsafe, ok := errors.AsType[*partition.UnsafeTableError](err); ok {
				bad = append(bad, finding(Fail, s.Name+": "+strings.Join(unsafe.Reasons, "; "), whyGuard,
					"bring the table back to the shape in docs/partition.md, or move it away and run idemctl partition create --execute"))
			} else if err != nil {
				return Result{}, err
			}
		}
		bad = append(bad, judgeShape(s, f.Scheme)...)
	}
	return merge(ok("%s, each with its exact unique key and expiry index", count(len(found), "table")), bad), nil
}

func noTables(f *Facts) Result {
	return finding(Fail, fmt.Sprintf("no table %s_YYYYMM", f.Scheme.Prefix()), "Without a table for the month nothing can be claimed, and every consumer waits.",
		"idemctl partition create --execute; or correct ledger.dsn and ledger.table_prefix")
}

// judgeShape finds what is unsafe about a table, whoever made it.
func judgeShape(s *shape, scheme partition.Scheme) []Result {
	c := scheme.Columns()
	if _, has := s.column(c.OrderID); !has {
		return []Result{finding(Fail, fmt.Sprintf("%s has no column %s", s.Name, c.OrderID), whyUnique, "correct ledger.columns")}
	}
	var bad []Result
	add := func(status Status, why, mend, format string, args ...any) {
		bad = append(bad, finding(status, s.Name+": "+fmt.Sprintf(format, args...), why, mend))
	}
	if !strings.EqualFold(s.Engine, "InnoDB") {
		add(Fail, whyEngine, "ALTER TABLE ... ENGINE=InnoDB", "engine %s", s.Engine)
	}
	key := []string{strings.ToLower(c.OrderID)}
	if _, has := s.column(c.BizType); has && c.BizType != "" {
		key = append(key, strings.ToLower(c.BizType))
	}
	judgeUnique(s, key, add)
	for _, name := range key {
		col, _ := s.column(name)
		switch {
		case col.Bytes == 0:
			add(Warn, "An id that is no number becomes 0, or is refused: orders with letters in their ids become one.", mendVarbin, "%s is %s", name, col.Type)
		case col.Collation != "" && !exact(col.Collation):
			status := Fail
			if strings.HasSuffix(col.Collation, "_bin") {
				status = Warn // it merges trailing spaces only
			}
			add(status, whyExact, mendVarbin, "%s compares by %s", name, col.Collation)
		}
	}
	if col, _ := s.column(c.OrderID); col.Bytes > 0 && col.Bytes < ledger.MaxOrderID {
		add(Warn, whyWidth, mendVarbin, "%s holds %d bytes", c.OrderID, col.Bytes)
	}
	by := c.ExpireAt
	if _, has := s.column(by); by == "" || !has {
		by = c.CreateTime
	}
	if !s.indexOn(by) {
		add(Warn, "Without it purge reads the whole table, and its locks meet the consumers' inserts.", fmt.Sprintf("ALTER TABLE ... ADD KEY (%s)", by), "no index on %s", by)
	}
	return bad
}

// judgeUnique wants a unique key over exactly the key's columns, in full.
func judgeUnique(s *shape, key []string, add func(Status, string, string, string, ...any)) {
	var narrower, others []string
	exactly := false
	for _, ix := range s.Indexes {
		if !ix.Unique {
			continue
		}
		cols := slices.Sorted(slices.Values(ix.Columns))
		switch same := slices.Equal(cols, slices.Sorted(slices.Values(key))); {
		case same && !ix.Prefix:
			exactly = true
		case same || subset(cols, key):
			narrower = append(narrower, describeIndex(ix))
		default:
			others = append(others, describeIndex(ix))
		}
	}
	slices.Sort(narrower)
	slices.Sort(others)
	switch {
	case len(narrower) > 0:
		add(Fail, whyUnique, mendPrimary, "unique key %s is narrower than (%s): different keys are taken for duplicates", strings.Join(narrower, ", "), strings.Join(key, ", "))
	case !exactly && len(others) > 0:
		add(Fail, whyUnique, mendPrimary, "no unique key over exactly (%s), but %s", strings.Join(key, ", "), strings.Join(others, ", "))
	case !exactly:
		add(Fail, whyUnique, mendPrimary, "no unique key over (%s)", strings.Join(key, ", "))
	}
}

func subset(small, large []string) bool {
	for _, c := range small {
		if !slices.Contains(large, c) {
			return false
		}
	}
	return true
}

func describeIndex(ix *index) string {
	text := "(" + strings.Join(ix.Columns, ", ") + ")"
	if ix.Prefix {
		text += " of a prefix"
	}
	return text
}

// exact reports a collation that tells all texts apart that differ in a byte: those that compare code points without
// padding. utf8mb4_bin and its like ignore trailing spaces.
func exact(collation string) bool {
	return collation == "binary" || strings.HasSuffix(collation, "_bin") && (strings.Contains(collation, "_0900_") || strings.Contains(collation, "_nopad_"))
}
