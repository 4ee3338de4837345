package replay

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/idemctl/idemctl/internal/testenv"
)

func mustExec(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

func mustEffect(t *testing.T, text string) *Effect {
	t.Helper()
	e, err := ParseEffect("grant.sql", text)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// hazard G18
func TestConformanceEffectIsCheckedByTheServer(t *testing.T) {
	t.Parallel()
	for _, database := range testenv.Databases(t) {
		t.Run(database.Name, func(t *testing.T) {
			t.Parallel()
			schema := database.Schema(t)
			mustExec(t, schema.DB,
				"CREATE TABLE coupon (order_id VARBINARY(128) NOT NULL, amount DECIMAL(10,2), PRIMARY KEY (order_id)) ENGINE=InnoDB",
				"CREATE TABLE logbook (order_id VARBINARY(128)) ENGINE=MyISAM",
				"CREATE TABLE cache (order_id VARBINARY(128)) ENGINE=MEMORY",
				"CREATE TABLE sliced (n INT NOT NULL) ENGINE=InnoDB PARTITION BY HASH (n) PARTITIONS 2",
				"CREATE TABLE made (n INT, twice INT AS (n * 2)) ENGINE=InnoDB",
				"CREATE VIEW coupons AS SELECT order_id FROM coupon",
			)
			for _, tt := range []struct {
				name, text, mentions string
				line                 int // 0: accepted
			}{
				{name: "insert", text: "INSERT INTO coupon VALUES (:a, :b)"},
				{name: "all kinds", text: "UPDATE coupon SET amount = :b WHERE order_id = :a; DELETE FROM coupon WHERE order_id = :a;" +
					"REPLACE INTO coupon VALUES (:a, :b); SELECT 1 FROM coupon WHERE order_id = :a FOR UPDATE"},
				{name: "partitioned", text: "INSERT INTO sliced VALUES (:n)"},
				{name: "schema named", text: "INSERT INTO `" + schema.Name + "`.coupon VALUES (:a, :b)"},
				{name: "a MyISAM table is only read", text: "INSERT INTO coupon (order_id) SELECT order_id FROM logbook WHERE order_id = :a"},
				{"syntax", "INSERT INTO coupon VALUES (:a, :b);\nINSERT INTO coupon VALUES (:a,, :b)", "refuses", 2},
				{"missing table", "\nINSERT INTO cupon VALUES (:a)", "refuses", 2},
				{"missing column", "UPDATE coupon SET amuont = :b", "refuses", 1},
				{"number of values", "INSERT INTO coupon VALUES (:a)", "refuses", 1},
				{"two colons", "SELECT order_id::text FROM coupon", "refuses", 1},
				{"MyISAM", "INSERT INTO logbook VALUES (:a)", "MyISAM", 1},
				{"MEMORY", "DELETE FROM cache", "MEMORY", 1},
				{"view", "INSERT INTO coupons VALUES (:a)", "view", 1},
				{"no such schema", "INSERT INTO nowhere_at_all.t VALUES (:a)", "refuses", 1},
				{"no such function", "SELECT no_such_function_here(:a)", "refuses", 1},
			} {
				t.Run(tt.name, func(t *testing.T) {
					t.Parallel()
					err := mustEffect(t, tt.text).Check(t.Context(), schema.DB)
					var effect *EffectError
					switch {
					case tt.line == 0 && err != nil:
						t.Fatal(err)
					case tt.line > 0 && !errors.As(err, &effect):
						t.Fatalf("got %v, want an *EffectError", err)
					case tt.line > 0 && (effect.Line != tt.line || !strings.Contains(effect.Reason, tt.mentions)):
						t.Errorf("got line %d, %q; want line %d, %q", effect.Line, effect.Reason, tt.line, tt.mentions)
					}
				})
			}
		})
	}
}

func TestConformanceEffectRunsInTheTransaction(t *testing.T) {
	t.Parallel()
	for _, database := range testenv.Databases(t) {
		t.Run(database.Name, func(t *testing.T) {
			t.Parallel()
			schema := database.Schema(t)
			mustExec(t, schema.DB, "CREATE TABLE coupon (order_id VARBINARY(128) PRIMARY KEY, amount DECIMAL(20,2), note TEXT, vip BOOL) ENGINE=InnoDB")
			e := mustEffect(t, "SELECT 1 FROM coupon WHERE order_id = :id FOR UPDATE;\n"+
				"INSERT INTO coupon VALUES (:id, :amount, CONCAT(:note, '?'), :vip); -- one row\n")
			values := map[string]any{
				"id": "x' OR '1'='1\\", "amount": "123456789012345678.90", "note": nil, "vip": true,
			}
			tx, err := schema.DB.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := e.Run(t.Context(), tx, NewArgs(values)); err != nil {
				t.Fatal(err)
			}
			err = e.Run(t.Context(), tx, NewArgs(values))
			var me *mysql.MySQLError
			if !errors.As(err, &me) || me.Number != 1062 || !strings.Contains(err.Error(), "grant.sql:2") {
				t.Errorf("the same row again: got %v, want the server's 1062 at grant.sql:2", err)
			}
			var id, amount string
			var note *string
			var vip bool
			row := tx.QueryRowContext(t.Context(), "SELECT order_id, amount, note, vip FROM coupon")
			if err := row.Scan(&id, &amount, &note, &vip); err != nil {
				t.Fatal(err)
			}
			if id != values["id"] || amount != values["amount"] || note != nil || !vip {
				t.Errorf("got %q %q %v %v, want %v", id, amount, note, vip, values)
			}
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
			var n int
			if err := schema.DB.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM coupon").Scan(&n); err != nil || n != 0 {
				t.Errorf("after the rollback: %d rows, %v; want none", n, err)
			}
		})
	}
}

func TestEffectNamesTheMissingValue(t *testing.T) {
	t.Parallel()
	err := mustEffect(t, "SELECT :a, :b").Run(t.Context(), nil, NewArgs(map[string]any{"a": 1}))
	if err == nil || !strings.Contains(err.Error(), ":b") {
		t.Errorf("got %v, want an error that names :b", err)
	}
}

func TestEffectCheckKeepsServerErrorsApart(t *testing.T) {
	t.Parallel()
	schema := testenv.MySQL(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := mustEffect(t, "SELECT 1").Check(ctx, schema.DB)
	var effect *EffectError
	if err == nil || errors.As(err, &effect) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error and no *EffectError", err)
	}
	denied := &mysql.MySQLError{Number: 1142, SQLState: [5]byte{'4', '2', '0', '0', '0'}}
	busy := &mysql.MySQLError{Number: 1040, SQLState: [5]byte{'0', '8', '0', '0', '4'}}
	syntax := &mysql.MySQLError{Number: 1064, SQLState: [5]byte{'4', '2', '0', '0', '0'}}
	if isStatementFault(denied) || isStatementFault(busy) || isStatementFault(errors.New("eof")) || !isStatementFault(syntax) {
		t.Error("a server's refusal and a fault of the statement are not told apart")
	}
}

func TestEffectWithBackslashIsRefusedWhereItMeansSomethingElse(t *testing.T) {
	t.Parallel()
	schema := testenv.MySQL(t)
	conn, err := schema.DB.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	e := mustEffect(t, `SELECT 'a\'b'`)
	if err := e.Check(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), "SET sql_mode = 'NO_BACKSLASH_ESCAPES'"); err != nil {
		t.Fatal(err)
	}
	err = e.Check(t.Context(), conn)
	var effect *EffectError
	if !errors.As(err, &effect) || !strings.Contains(effect.Reason, "NO_BACKSLASH_ESCAPES") {
		t.Errorf("got %v, want an *EffectError that names the mode", err)
	}
}
