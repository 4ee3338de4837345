package partition

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// checkTables looks at the shape of each table that is there and belongs to the ledger, and for rows dated in the future.
func (c *checker) checkTables(ctx context.Context) error {
	var tables []string
	for _, t := range c.cat.Tables {
		tables = append(tables, t.Names()...)
	}
	for _, name := range sortedKeys(c.names) {
		_, month := c.m.scheme.Month(name)
		if (month || c.m.scheme.Legacy() && name == c.m.scheme.prefix) && !slices.Contains(tables, name) {
			tables = append(tables, name)
		}
	}
	if len(tables) == 0 {
		return nil
	}
	facts, err := readFacts(ctx, c.m.db, tables)
	if err != nil {
		return err
	}
	for _, name := range tables {
		f, ok := facts[name]
		if !ok {
			continue
		}
		c.rep.Tables++
		readable := c.checkShape(name, f)
		if !readable {
			c.skipf("%s: rows dated in the future: its columns are not as they should be", name)
			continue
		}
		if err := c.checkFuture(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// checkShape reports what of a table is not as it should be, and whether its times can be read.
func (c *checker) checkShape(name string, f facts) (readable bool) {
	cols := c.m.scheme.Columns()
	readable = true
	for _, col := range cols.Names() {
		if _, ok := f.columns[foldName(col)]; ok {
			continue
		}
		if col == cols.CreateTime || col == cols.ExpireAt {
			readable = false
		}
		if c.m.scheme.Legacy() {
			c.add(Fail, KindDrift, name, "column "+col+" is missing", "# mend ledger.columns in the configuration")
		}
	}
	if c.m.scheme.Legacy() {
		return readable
	}
	for _, d := range f.drift(name) {
		d.Kind, d.Table = KindDrift, name
		c.rep.Findings = append(c.rep.Findings, d)
	}
	return readable
}

// checkFuture counts rows created after now. A purge never touches them, and they are no part of the horizon (hazard P18).
// An entry expires after it was created, so rows that have expired need not be looked at: the expiry index answers alone.
func (c *checker) checkFuture(ctx context.Context, name string) error {
	cols := c.m.scheme.Columns()
	where, args := mysqlx.Quote(cols.CreateTime)+" > ?", []any{c.now}
	if cols.ExpireAt != "" {
		where, args = mysqlx.Quote(cols.ExpireAt)+" > ? AND "+where, append(args, c.now)
	}
	var n int64
	err := c.m.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+mysqlx.Quote(name)+" WHERE "+where, args...).Scan(&n)
	switch {
	case isDenied(err):
		c.skipf("%s: rows dated in the future: this user may not read it", name)
	case mysqlx.Number(err) == mysqlx.ErrNoSuchTable: // moved meanwhile
	case err != nil:
		return fmt.Errorf("look into %s: %w", name, err)
	case n > 0:
		c.add(Warn, KindFutureRows, name, fmt.Sprintf("%d rows have a %s after now: a wrong business time, or a clock; no purge touches them", n, cols.CreateTime),
			fmt.Sprintf("SELECT * FROM %s WHERE %s > '%s'   # then mend what wrote them", name, cols.CreateTime, c.now.Format("2006-01-02 15:04:05.000")))
	}
	return nil
}

// checkSight says what this user's privileges hide.
func (c *checker) checkSight(ctx context.Context) error {
	server, err := mysqlx.Inspect(ctx, c.m.db)
	if err != nil || server.MariaDB || c.m.scheme.Legacy() {
		return err
	}
	may, err := mysqlx.MayTrigger(ctx, c.m.db)
	if err == nil && !may {
		c.skipf("triggers: MySQL hides them from a user without the TRIGGER privilege on the schema")
	}
	return err
}

// drift compares a table with what Manager makes, column by column. Kind and Table of the findings are left to the caller.
func (f facts) drift(table string) []Finding {
	var found []Finding
	add := func(s Severity, what, mend string) {
		found = append(found, Finding{Severity: s, What: what, Mend: mend})
	}
	if f.kind != "BASE TABLE" {
		add(Fail, "it is a "+strings.ToLower(f.kind)+", not a table", "DROP "+strings.ToUpper(f.kind)+" "+table)
		return found
	}
	alter := "ALTER TABLE " + table + " "
	if !strings.EqualFold(f.engine, "InnoDB") {
		add(Fail, "its engine is "+f.engine+", not InnoDB: it cannot roll back", alter+"ENGINE=InnoDB")
	}
	f.driftColumns(alter, add)
	f.driftIndexes(table, alter, add)
	for _, t := range f.triggers {
		add(Fail, "it has a trigger "+t, "DROP TRIGGER "+t)
	}
	return found
}

func (f facts) driftColumns(alter string, add func(Severity, string, string)) {
	kinds := monthColumns()
	for i, name := range monthColumnNames() {
		null := i >= len(OwnColumns().Names()) // what an entry must have comes first
		want := column{kind: kinds[name], null: null}
		definition := name + " " + strings.ToUpper(want.kind) + nullWords(null)
		got, ok := f.columns[name]
		switch {
		case !ok:
			add(Fail, "column "+name+" is missing", alter+"ADD COLUMN "+definition)
		case got.kind != want.kind:
			add(Fail, fmt.Sprintf("column %s is %s, not %s", name, got.kind, want.kind), alter+"MODIFY "+definition)
		case got.null != want.null:
			add(Fail, "column "+name+" is"+nullWords(got.null)+", not"+nullWords(want.null), alter+"MODIFY "+definition)
		case got.refreshed:
			add(Fail, "column "+name+" changes with every update (ON UPDATE)", alter+"MODIFY "+definition)
		}
	}
	for _, name := range sortedKeys(f.columns) {
		if _, ours := kinds[name]; ours {
			continue
		}
		if f.columns[name].needed {
			add(Fail, "another column "+name+" that must have a value: no guard can insert", alter+"MODIFY "+name+" "+strings.ToUpper(f.columns[name].kind)+" NULL")
			continue
		}
		add(Warn, "another column "+name, "# no guard fills it; "+alter+"DROP COLUMN "+name)
	}
}

func (f facts) driftIndexes(table, alter string, add func(Severity, string, string)) {
	const primary = "PRIMARY"
	if got := f.keys[primary]; !slices.Equal(got, []string{"order_id", "biz_type"}) {
		drop := "DROP PRIMARY KEY, "
		if len(got) == 0 {
			drop = ""
		}
		add(Fail, fmt.Sprintf("its primary key is (%s), not (order_id, biz_type)", strings.Join(got, ", ")), alter+drop+"ADD PRIMARY KEY (order_id, biz_type)")
	}
	for _, name := range sortedKeys(f.keys) {
		if name != primary {
			add(Fail, fmt.Sprintf("it has another unique key %s (%s)", name, strings.Join(f.keys[name], ", ")), "DROP INDEX "+name+" ON "+table)
		}
	}
	expiry := false
	for _, name := range sortedKeys(f.indexes) {
		cols := f.indexes[name]
		if slices.Equal(cols, []string{"expire_at", "create_time"}) {
			expiry = true
			continue
		}
		add(Warn, fmt.Sprintf("another index %s (%s)", name, strings.Join(cols, ", ")), "# it costs every insert; DROP INDEX "+name+" ON "+table)
	}
	if !expiry {
		add(Fail, "no index (expire_at, create_time): a purge would read the whole table", alter+"ADD KEY idx_expire_at (expire_at, create_time)")
	}
}

func nullWords(null bool) string {
	if null {
		return " NULL"
	}
	return " NOT NULL"
}

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
