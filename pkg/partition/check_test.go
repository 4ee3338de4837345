package partition_test

import (
	"strings"
	"testing"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/partition"
)

func (b *bench) check(req partition.CheckRequest) partition.CheckReport {
	b.Helper()
	r, err := b.manager.Check(b.Context(), req)
	b.must(err)
	return r
}

// wantFindings compares a report with "severity kind table" lines, in any order.
func (b *bench) wantFindings(r partition.CheckReport, want ...string) {
	b.Helper()
	got := map[string]int{}
	for _, f := range r.Findings {
		got[string(f.Severity)+" "+f.Kind+" "+f.Table]++
		if f.What == "" || f.Mend == "" {
			b.Errorf("a finding without words: %+v", f)
		}
	}
	for _, w := range want {
		got[w]--
		if got[w] < 0 {
			b.Errorf("no finding %q", w)
		}
	}
	for g, n := range got {
		if n > 0 {
			b.Errorf("%d findings %q too many: %+v", n, g, r.Findings)
		}
	}
}

// A ledger that was just made has no finding, on any server: the comparison is with what the server itself says of the DDL.
func TestConformanceCheckClean(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		b.create(partition.CreateRequest{From: b.month - 1, Ahead: 2, MemorySince: b.now.AddDate(-1, 0, 0)})
		b.entry(b.table(0), "A-1", b.now.Add(-time.Second), b.now.AddDate(0, 1, 0))
		r := b.check(partition.CheckRequest{Ahead: 2})
		b.wantFindings(r)
		if r.Failed() || r.Tables != 4 || len(r.NotChecked) != 0 || r.Rehearsal {
			b.Errorf("%+v", r)
		}
	})
}

// Months: missing ones, holes, unlisted ones, lost ones; what was dropped or is held is no hole.
func TestConformanceCheckMonths(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		b.wantFindings(b.check(partition.CheckRequest{}), "fail catalog_missing t_idempotent_control", "fail month_missing "+b.table(0))
		b.create(partition.CreateRequest{From: b.month - 8, Ahead: 1, MemorySince: b.now.AddDate(-1, 0, 0)})
		b.sql("DROP TABLE " + b.table(-8) + ", " + b.table(-7) + ", " + b.table(-4) + ", " + b.table(-2))
		b.sql("RENAME TABLE " + b.table(-5) + " TO " + b.table(-5) + "_held_0badcafe")
		b.sql("CREATE TABLE " + b.table(-3) + "_held_0badcafe LIKE " + b.table(-3))
		b.sql("CREATE TABLE " + b.table(-1) + "_held_deadbeef LIKE " + b.table(-1))
		b.change(func(c *partition.Catalog) {
			held := func(n int) string { return b.table(n) + "_held_0badcafe" }
			c.LostUntil = (b.month - 7).End(b.zone)
			c.Tables[3] = partition.Table{Month: b.month - 5, Name: held(-5), State: partition.Held}
			c.Tables[4] = partition.Table{Month: b.month - 4, Name: b.table(-4), State: partition.Moving, Also: held(-4)}
			c.Tables[5] = partition.Table{Month: b.month - 3, Name: b.table(-3), State: partition.Moving, Also: held(-3)}
			c.Tables = append(c.Tables[:6], c.Tables[7:9]...) // -2 is a hole, +1 is not listed
			c.Tables = c.Tables[1:]                           // -8 was dropped
		})
		r := b.check(partition.CheckRequest{Ahead: 3})
		b.wantFindings(r,
			"fail table_gone "+b.table(-7), "warn leftover "+b.table(-5)+"_held_0badcafe", "fail table_gone "+b.table(-4),
			"fail leftover "+b.table(-3), "fail month_missing "+b.table(-2), "fail unlisted "+b.table(-1)+"_held_deadbeef",
			"fail unlisted "+b.table(1), "fail month_missing "+b.table(2), "fail month_missing "+b.table(3))
		if !r.Failed() {
			b.Error("it does not fail")
		}
	})
}

// hazard P4: what only looks like a month is named, and fails nothing.
func TestConformanceCheckLookAlikes(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		b.create(partition.CreateRequest{})
		var want []string
		for _, end := range []string{"_202604_bak", "_202613", "_20260", "202604", ""} {
			b.sql("CREATE TABLE " + prefix + end + " (id INT)")
			want = append(want, "warn look_alike "+prefix+end)
		}
		b.sql("CREATE TABLE " + prefix + "_other_202604 (id INT)") // another ledger's
		r := b.check(partition.CheckRequest{})
		b.wantFindings(r, want...)
		if r.Failed() {
			b.Error("a look-alike fails the check")
		}
	})
}

// Drift is named column by column, and the SQL that is shown mends it.
func TestConformanceCheckDrift(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		b.create(partition.CreateRequest{})
		table := b.table(0)
		for change, c := range map[string]struct {
			severity partition.Severity
			what     string
			mends    bool
		}{
			"ENGINE=MyISAM": {partition.Fail, "its engine is MyISAM", true},
			"MODIFY order_id VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL":                     {partition.Fail, "column order_id is varchar(128), not varbinary(128)", true},
			"MODIFY expire_at DATETIME NOT NULL":                                                                  {partition.Fail, "column expire_at is datetime, not datetime(3)", true},
			"MODIFY expire_at DATETIME(3) NULL":                                                                   {partition.Fail, "column expire_at is NULL, not NOT NULL", true},
			"MODIFY src_offset BIGINT NOT NULL":                                                                   {partition.Fail, "column src_offset is NOT NULL, not NULL", true},
			"MODIFY create_time DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3)": {partition.Fail, "column create_time changes with every update", true},
			"MODIFY src_partition INT UNSIGNED NULL":                                                              {partition.Fail, "column src_partition is int unsigned, not int", true},
			"DROP COLUMN claim_id":                                                                                {partition.Fail, "column claim_id is missing", true},
			"ADD COLUMN note VARCHAR(10) NOT NULL":                                                                {partition.Fail, "another column note that must have a value", false},
			"ADD COLUMN note VARCHAR(10) NOT NULL DEFAULT ''":                                                     {partition.Warn, "another column note", false},
			"ADD COLUMN note VARCHAR(40) AS (CONCAT('x', src_offset)) VIRTUAL":                                    {partition.Warn, "another column note", false},
			"DROP INDEX idx_expire_at":                                                                            {partition.Fail, "no index (expire_at, create_time)", true},
			"DROP INDEX idx_expire_at, ADD KEY idx_expire_at (expire_at)":                                         {partition.Fail, "no index (expire_at, create_time)", false},
			"ADD KEY other (src_topic(8))":                                                                        {partition.Warn, "another index other (src_topic(8))", false},
			"ADD UNIQUE KEY other (create_time)":                                                                  {partition.Fail, "another unique key other (create_time)", true},
			"DROP PRIMARY KEY":                                                                                    {partition.Fail, "its primary key is (), not (order_id, biz_type)", true},
			"DROP PRIMARY KEY, ADD PRIMARY KEY (order_id(8), biz_type)":                                           {partition.Fail, "its primary key is (order_id(8), biz_type)", true},
		} {
			b.sql("ALTER TABLE " + table + " " + change)
			r := b.check(partition.CheckRequest{})
			var found *partition.Finding
			for i, f := range r.Findings {
				if f.Kind == partition.KindDrift && f.Table == table && f.Severity == c.severity && strings.Contains(f.What, c.what) {
					found = &r.Findings[i]
				}
			}
			switch {
			case found == nil:
				b.Errorf("%s: %+v; want %s, %q", change, r.Findings, c.severity, c.what)
			case c.mends:
				b.sql(found.Mend)
				b.wantFindings(b.check(partition.CheckRequest{}))
			}
			b.sql("DROP TABLE " + table)
			b.create(partition.CreateRequest{Ahead: 0})
		}
		b.sql("CREATE TRIGGER watch BEFORE INSERT ON " + table + " FOR EACH ROW SET NEW.src_offset = 1")
		b.wantFindings(b.check(partition.CheckRequest{}), "fail drift "+table)
	})
}

// hazard P18: rows dated in the future are counted where they are.
func TestConformanceCheckFuture(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		b.create(partition.CreateRequest{})
		at := b.month.Start(b.zone).Add(time.Hour)
		b.entry(b.table(0), "now", at, at.AddDate(0, 1, 0))
		b.entry(b.table(0), "later", at.Add(time.Millisecond), at.AddDate(0, 1, 0))
		for asOf, want := range map[time.Time]string{at.Add(-time.Millisecond): "2 rows ", at: "1 rows ", at.Add(time.Millisecond): ""} {
			r := b.check(partition.CheckRequest{AsOf: asOf})
			switch {
			case !r.Rehearsal || !r.Now.Equal(asOf) || r.Failed():
				b.Errorf("%s: %+v", asOf, r)
			case want == "" && len(r.Findings) != 0, want != "" && (len(r.Findings) != 1 || !strings.HasPrefix(r.Findings[0].What, want)):
				b.Errorf("%s: %+v, want %q", asOf, r.Findings, want)
			}
		}
	})
}

// What a user's privileges hide is said; it is neither well nor a finding.
func TestConformanceCheckHidden(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		b.create(partition.CreateRequest{})
		server, err := mysqlx.Inspect(b.Context(), b.DB)
		b.must(err)
		all := b.as("SELECT ON " + b.schema + ".*")
		r, err := partition.NewManager(all, b.scheme, b.zone).Check(b.Context(), partition.CheckRequest{})
		b.must(err)
		b.wantFindings(r)
		if hidden := len(r.NotChecked) == 1 && strings.Contains(r.NotChecked[0], "TRIGGER"); hidden == server.MariaDB {
			b.Errorf("not checked: %q", r.NotChecked)
		}
	})
	onEach(t, func(b *bench) {
		b.create(partition.CreateRequest{})
		db := b.as("SELECT ON " + b.schema + ".t_idempotent_control")
		r, err := partition.NewManager(db, b.scheme, b.zone).Check(b.Context(), partition.CheckRequest{})
		b.must(err)
		b.wantFindings(r)
		if len(r.NotChecked) == 0 || !strings.Contains(r.NotChecked[0], b.table(0)) {
			b.Errorf("not checked: %q", r.NotChecked)
		}
	})
}
