package partition

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// monthDDL is a month's table. The keys are VARBINARY, since every collation of MySQL and MariaDB merges something
// (hazard G6). The expiry index ends in the primary key, so purge's cursor and its MAX(create_time) are index-only.
const monthDDL = `CREATE TABLE %s (
  order_id      VARBINARY(128) NOT NULL,
  biz_type      VARBINARY(32)  NOT NULL,
  create_time   DATETIME(3)    NOT NULL,
  expire_at     DATETIME(3)    NOT NULL,
  claim_id      BINARY(16)     NULL,
  fingerprint   BINARY(16)     NULL,
  src_topic     VARBINARY(249) NULL,
  src_partition INT            NULL,
  src_offset    BIGINT         NULL,
  PRIMARY KEY (order_id, biz_type),
  KEY idx_expire_at (expire_at, create_time)
) ENGINE=InnoDB`

// MonthDDL is the statement that makes a table of a month's form under any name. It is listed nowhere: see Manager.Create.
func MonthDDL(table string) string { return fmt.Sprintf(monthDDL, mysqlx.Quote(table)) }

const controlDDL = `CREATE TABLE IF NOT EXISTS %s (
  name       VARBINARY(64) NOT NULL PRIMARY KEY,
  generation BIGINT        NOT NULL,
  body       BLOB          NOT NULL,
  updated_at DATETIME(3)   NOT NULL
) ENGINE=InnoDB`

// UnsafeTableError says why a table cannot decide about duplicates (invariant 5).
type UnsafeTableError struct {
	Table   string
	Reasons []string
}

func (e *UnsafeTableError) Error() string {
	return fmt.Sprintf("table %s cannot serve as a ledger: %s", e.Table, strings.Join(e.Reasons, "; "))
}

// column types of a month's table, as information_schema spells them in every server supported.
func monthColumns() map[string]string {
	return map[string]string{
		"order_id": "varbinary(128)", "biz_type": "varbinary(32)", "create_time": "datetime(3)", "expire_at": "datetime(3)",
		"claim_id": "binary(16)", "fingerprint": "binary(16)", "src_topic": "varbinary(249)", "src_partition": "int", "src_offset": "bigint",
	}
}

// monthColumnNames are their names, in the table's order.
func monthColumnNames() []string {
	return []string{"order_id", "biz_type", "create_time", "expire_at", "claim_id", "fingerprint", "src_topic", "src_partition", "src_offset"}
}

// VerifyTables refuses tables on which the unique key would not mean what the guard takes it to mean: each must be InnoDB,
// with exactly the primary key (order_id, biz_type) over the full length of VARBINARY columns, no other unique key and no
// trigger. The error is an *UnsafeTableError; a table that is not there is skipped and not in the map returned.
func VerifyTables(ctx context.Context, q mysqlx.Queryer, tables []string) (map[string]bool, error) {
	found := make(map[string]bool, len(tables))
	if len(tables) == 0 {
		return found, nil
	}
	facts, err := readFacts(ctx, q, tables)
	if err != nil {
		return nil, err
	}
	for _, t := range tables {
		f, ok := facts[t]
		if !ok {
			continue
		}
		found[t] = true
		if reasons := f.unsafe(); len(reasons) > 0 {
			return nil, &UnsafeTableError{Table: t, Reasons: reasons}
		}
	}
	return found, nil
}

// facts is what information_schema says of one table.
type facts struct {
	kind     string              // BASE TABLE, VIEW
	engine   string              // InnoDB
	columns  map[string]column   // by name in lower case
	keys     map[string][]string // unique index to its columns, a prefix written as name(n)
	indexes  map[string][]string // the others
	triggers []string
}

// column is what information_schema says of one column.
type column struct {
	kind      string // its type
	null      bool   // it may be NULL
	needed    bool   // an INSERT must give it: NOT NULL, no default, not generated
	refreshed bool   // ON UPDATE CURRENT_TIMESTAMP
}

func (f facts) unsafe() []string {
	var why []string
	if f.kind != "BASE TABLE" {
		why = append(why, "it is a "+strings.ToLower(f.kind)+", not a table")
	}
	if !strings.EqualFold(f.engine, "InnoDB") {
		why = append(why, "its engine is "+f.engine+", not InnoDB: it cannot roll back")
	}
	want := monthColumns()
	for _, name := range monthColumnNames() {
		switch got := f.columns[name].kind; {
		case got == "":
			why = append(why, "column "+name+" is missing")
		case got != want[name]:
			why = append(why, fmt.Sprintf("column %s is %s, not %s", name, got, want[name]))
		}
	}
	if got := f.keys["PRIMARY"]; !slices.Equal(got, []string{"order_id", "biz_type"}) {
		why = append(why, fmt.Sprintf("its primary key is (%s), not (order_id, biz_type)", strings.Join(got, ", ")))
	}
	for name, cols := range f.keys {
		if name != "PRIMARY" {
			why = append(why, fmt.Sprintf("it has another unique key %s (%s)", name, strings.Join(cols, ", ")))
		}
	}
	for _, t := range f.triggers {
		why = append(why, "it has a trigger "+t)
	}
	return why
}

func readFacts(ctx context.Context, q mysqlx.Queryer, tables []string) (map[string]facts, error) {
	all := map[string]facts{}
	in, args := inList(tables)
	err := each(ctx, q, `SELECT table_name, table_type, COALESCE(engine, '?') FROM information_schema.tables
		WHERE table_schema = DATABASE() AND table_name IN `+in, args, func(row []string) {
		all[row[0]] = facts{kind: row[1], engine: row[2], columns: map[string]column{}, keys: map[string][]string{}, indexes: map[string][]string{}}
	})
	if err != nil {
		return nil, err
	}
	err = each(ctx, q, `SELECT table_name, column_name, column_type, is_nullable, column_default IS NULL, extra FROM information_schema.columns
		WHERE table_schema = DATABASE() AND table_name IN `+in, args, func(row []string) {
		if f, ok := all[row[0]]; ok {
			extra := strings.ToLower(row[5])
			null := strings.EqualFold(row[3], "YES")
			f.columns[foldName(row[1])] = column{
				kind: plainType(row[2]), null: null, refreshed: strings.Contains(extra, "on update"),
				needed: !null && row[4] == "1" && !strings.Contains(extra, "generated") && !strings.Contains(extra, "auto_increment"),
			}
		}
	})
	if err != nil {
		return nil, err
	}
	err = each(ctx, q, `SELECT table_name, index_name, COALESCE(column_name, '(expression)'), COALESCE(sub_part, ''), non_unique FROM information_schema.statistics
		WHERE table_schema = DATABASE() AND table_name IN `+in+` ORDER BY table_name, index_name, seq_in_index`, args, func(row []string) {
		f, ok := all[row[0]]
		if !ok {
			return
		}
		col := strings.ToLower(row[2])
		if row[3] != "" {
			col += "(" + row[3] + ")"
		}
		index := f.keys
		if row[4] != "0" {
			index = f.indexes
		}
		index[row[1]] = append(index[row[1]], col)
	})
	if err != nil {
		return nil, err
	}
	err = each(ctx, q, `SELECT event_object_table, trigger_name FROM information_schema.triggers
		WHERE event_object_schema = DATABASE() AND event_object_table IN `+in, args, func(row []string) {
		if f, ok := all[row[0]]; ok {
			f.triggers = append(f.triggers, row[1])
			all[row[0]] = f
		}
	})
	return all, err
}

// plainType drops the display width that MariaDB still shows: int(11) is int.
func plainType(t string) string {
	t = strings.ToLower(t)
	for _, name := range []string{"bigint", "int"} {
		if rest, ok := strings.CutPrefix(t, name+"("); ok {
			if _, after, ok := strings.Cut(rest, ")"); ok {
				return name + after
			}
		}
	}
	return t
}

func inList(names []string) (string, []any) {
	args := make([]any, len(names))
	for i, n := range names {
		args[i] = n
	}
	return "(?" + strings.Repeat(", ?", len(names)-1) + ")", args
}

// each runs a query of text columns and calls fn for each row.
func each(ctx context.Context, q mysqlx.Queryer, query string, args []any, fn func(row []string)) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return fmt.Errorf("read information_schema: %w", err)
	}
	defer rows.Close()
	cols, err := rows.Columns()
	if err != nil {
		return fmt.Errorf("read information_schema: %w", err)
	}
	row := make([]string, len(cols))
	into := make([]any, len(cols))
	for i := range row {
		into[i] = &row[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return fmt.Errorf("read information_schema: %w", err)
		}
		fn(row)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read information_schema: %w", err)
	}
	return nil
}
