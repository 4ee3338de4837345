package replay

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// Checker is what an effect is checked on: a *sql.DB, *sql.Conn or *sql.Tx.
type Checker interface {
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Check has the server prepare every statement, so that a syntax error, a missing table or a missing column is known before
// the first message, and looks up each table that is written: it must be a table of InnoDB, else a rollback would not undo
// what was written to it (hazard G18). A fault of the effect is an *EffectError; any other error is the server's.
func (e *Effect) Check(ctx context.Context, db Checker) error {
	if err := e.checkMode(ctx, db); err != nil {
		return err
	}
	for i := range e.statements {
		s := &e.statements[i]
		if err := s.prepare(ctx, db); err != nil {
			if !isStatementFault(err) {
				return fmt.Errorf("check effect %s:%d: %w", e.name, s.line, err)
			}
			return &EffectError{File: e.name, Line: s.line, Reason: "the server refuses the statement", Err: err}
		}
		if s.target.table == "" {
			continue
		}
		fault, err := checkTarget(ctx, db, s.target)
		if err != nil {
			return fmt.Errorf("check effect %s:%d: look up table %s: %w", e.name, s.line, s.target, err)
		}
		if fault != "" {
			return &EffectError{File: e.name, Line: s.line, Reason: fmt.Sprintf("table %s %s", s.target, fault)}
		}
	}
	return nil
}

// checkMode refuses an effect whose quoted texts the server would cut at other places than the parser did.
func (e *Effect) checkMode(ctx context.Context, db Checker) error {
	for i := range e.statements {
		s := &e.statements[i]
		if !s.backslash {
			continue
		}
		rows, err := readStrings(ctx, db, "SELECT @@SESSION.sql_mode")
		if err != nil {
			return fmt.Errorf("check effect %s: read sql_mode: %w", e.name, err)
		}
		if len(rows) > 0 && strings.Contains(rows[0][0], "NO_BACKSLASH_ESCAPES") {
			return &EffectError{
				File: e.name, Line: s.line,
				Reason: "a quoted text with a backslash, which means something else under the server's NO_BACKSLASH_ESCAPES",
			}
		}
		return nil
	}
	return nil
}

func (s *statement) prepare(ctx context.Context, db Checker) (err error) {
	stmt, err := db.PrepareContext(ctx, s.sql)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stmt.Close()) }()
	return nil
}

// checkTarget says in words what is wrong with a table; empty when nothing is.
func checkTarget(ctx context.Context, db Checker, t tableName) (fault string, err error) {
	rows, err := readStrings(ctx, db, `SELECT TABLE_NAME, TABLE_TYPE, COALESCE(ENGINE, '')
FROM information_schema.TABLES WHERE TABLE_SCHEMA = COALESCE(NULLIF(?, ''), DATABASE()) AND TABLE_NAME = ?`, t.schema, t.table)
	if err != nil {
		return "", err
	}
	if len(rows) == 0 {
		return "is not in information_schema: it cannot be checked", nil
	}
	row := rows[0]
	for _, r := range rows {
		if r[0] == t.table { // names that differ in case are different tables on most servers
			row = r
		}
	}
	kind, engine := row[1], row[2]
	switch {
	case kind != "BASE TABLE" && kind != "SYSTEM VERSIONED":
		return fmt.Sprintf("is a %s; an effect writes to tables by their own name", strings.ToLower(kind)), nil
	case !strings.EqualFold(engine, "InnoDB"):
		return fmt.Sprintf("is of engine %s, which a rollback does not undo; it must be InnoDB", engine), nil
	}
	return "", nil
}

// readStrings reads all rows of a query whose columns are texts.
func readStrings(ctx context.Context, db Checker, query string, args ...any) (out [][]string, err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		row := make([]string, len(columns))
		into := make([]any, len(columns))
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		out = append(out, row)
	}
	return out, rows.Err()
}

// isStatementFault reports whether a server's error is about the statement itself. The class of the SQLSTATE says so for
// most: 42 syntax or name, 21 number of columns, 0A not supported; but class 42 also holds what an account may not do, and
// some faults have the state for "anything", HY000.
func isStatementFault(err error) bool {
	var me *mysql.MySQLError
	if !errors.As(err, &me) {
		return false
	}
	switch me.Number {
	case 1044, 1045, 1142, 1143, 1203, 1226, 1227, 1370: // access denied, limits of an account
		return false
	case 1093, // the table written is also read in a subselect
		1288, 1348, 1471, // a view or column that cannot be written
		1221, 1235, 1295, // wrong use, not supported, not supported when prepared
		3105, 1906: // a value for a generated column (MySQL, MariaDB)
		return true
	}
	switch string(me.SQLState[:2]) {
	case "42", "21", "0A":
		return true
	}
	return false
}
