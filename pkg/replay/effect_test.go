package replay

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestEffectIsCompiledToBoundParameters(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, text string
		want       []string
		names      []string
		targets    []string
	}{
		{
			name: "insert", text: "INSERT INTO coupon (order_id, amount) VALUES (:_order_id, :data.amount);\n",
			want:  []string{"INSERT INTO coupon (order_id, amount) VALUES (?, ?)"},
			names: []string{"_order_id", "data.amount"}, targets: []string{"coupon"},
		},
		{
			name: "several, a value twice", text: "UPDATE a SET x = :x WHERE y = :y; DELETE FROM s.b WHERE x=:x;; SELECT 1 FROM a FOR UPDATE",
			want: []string{
				"UPDATE a SET x = ? WHERE y = ?", "DELETE FROM s.b WHERE x=?", "SELECT 1 FROM a FOR UPDATE",
			},
			names: []string{"x", "y"}, targets: []string{"a", "s.b"},
		},
		{
			name: "quotes and comments stay", text: "-- a :comment; here\nINSERT INTO t /* :not; one ? */ VALUES (':a b', \":c'd\", 'it''s \\' :e', `:f`, :g) # ? :h",
			want:  []string{"INSERT INTO t /* :not; one ? */ VALUES (':a b', \":c'd\", 'it''s \\' :e', `:f`, ?)"},
			names: []string{"g"}, targets: []string{"t"},
		},
		{
			name: "escapes and dots", text: `INSERT INTO t VALUES (:data.order\.id, :order\-id, :orders.1.id, :a\\b, :x.)`,
			want:  []string{`INSERT INTO t VALUES (?, ?, ?, ?, ?.)`},
			names: []string{`data.order\.id`, `order-id`, `orders.1.id`, `a\\b`, `x`}, targets: []string{"t"},
		},
		{
			name: "dashes that are no comment", text: "UPDATE t SET n = 5--:n",
			want: []string{"UPDATE t SET n = 5--?"}, names: []string{"n"}, targets: []string{"t"},
		},
		{
			name: "two colons are the server's to refuse", text: "SELECT a::b",
			want: []string{"SELECT a::b"}, names: []string{}, targets: []string{},
		},
		{
			name: "names in backquotes", text: "insert into `my``shop` . `or;der` values (1)",
			want: []string{"insert into `my``shop` . `or;der` values (1)"}, names: []string{}, targets: []string{"my`shop.or;der"},
		},
		{
			name: "modifiers, alias, hints", text: "UPDATE LOW_PRIORITY t PARTITION (p0, p1) AS x IGNORE INDEX (a, b) SET x.n = @@sql_select_limit;" +
				"REPLACE INTO r SET a = 1; DELETE QUICK FROM d AS x WHERE x.a IN (SELECT a FROM b JOIN c USING (a))",
			want: []string{
				"UPDATE LOW_PRIORITY t PARTITION (p0, p1) AS x IGNORE INDEX (a, b) SET x.n = @@sql_select_limit",
				"REPLACE INTO r SET a = 1", "DELETE QUICK FROM d AS x WHERE x.a IN (SELECT a FROM b JOIN c USING (a))",
			},
			names: []string{}, targets: []string{"t", "r", "d"},
		},
		{
			name: "upsert", text: "\ufeffINSERT INTO t (a,n) VALUES (:a,1) ON DUPLICATE KEY UPDATE n = n + VALUES(n)",
			want:  []string{"INSERT INTO t (a,n) VALUES (?,1) ON DUPLICATE KEY UPDATE n = n + VALUES(n)"},
			names: []string{"a"}, targets: []string{"t"},
		},
		{
			name: "insert select", text: "INSERT INTO t (a, b) SELECT :a, p.b FROM price p, x WHERE p.id = :id",
			want:  []string{"INSERT INTO t (a, b) SELECT ?, p.b FROM price p, x WHERE p.id = ?"},
			names: []string{"a", "id"}, targets: []string{"t"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e, err := ParseEffect("grant.sql", tt.text)
			if err != nil {
				t.Fatal(err)
			}
			if got := e.Statements(); !slices.Equal(got, tt.want) {
				t.Errorf("statements\n got %q\nwant %q", got, tt.want)
			}
			if got := e.Names(); !slices.Equal(got, tt.names) {
				t.Errorf("names: got %q, want %q", got, tt.names)
			}
			if got := e.Targets(); !slices.Equal(got, tt.targets) {
				t.Errorf("targets: got %q, want %q", got, tt.targets)
			}
		})
	}
}

// hazard G18
func TestEffectRefusesWhatARollbackDoesNotUndo(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text, mentions string
		line           int
	}{
		{"", "no statement", 0},
		{" -- nothing\n;;", "no statement", 0},
		{"\n\nCREATE TABLE x (a INT)", "CREATE", 3},
		{"INSERT INTO t VALUES (1);\nTRUNCATE t", "TRUNCATE", 2},
		{"COMMIT", "COMMIT", 1},
		{"CALL grant_coupon(:id)", "CALL", 1},
		{"SET autocommit = 1", "SET", 1},
		{"LOAD DATA INFILE 'x' INTO TABLE t", "LOAD", 1},
		{"START TRANSACTION", "START", 1},
		{"BEGIN", "BEGIN", 1},
		{"XA COMMIT 'a'", "XA", 1},
		{"DO SLEEP(1)", "DO", 1},
		{"WITH x AS (SELECT 1) UPDATE t SET a = 1", "WITH", 1},
		{"(SELECT 1)", "must begin", 1},
		{":a", "must begin", 1},
		{"INSERT IGNORE INTO t VALUES (1)", "IGNORE", 1},
		{"UPDATE IGNORE t SET a = 1", "IGNORE", 1},
		{"DELETE IGNORE FROM t", "IGNORE", 1},
		{"INSERT DELAYED INTO t VALUES (1)", "DELAYED", 1},
		{"SELECT * FROM t INTO OUTFILE '/tmp/x'", "OUTFILE", 1},
		{"SELECT * INTO DUMPFILE '/tmp/x' FROM t", "DUMPFILE", 1},
		{"SELECT a INTO @a FROM t", "user variable @a", 1},
		{"INSERT INTO t VALUES (@a := 1)", "user variable", 1},
		{"SELECT a := 1", ":=", 1},
		{"SELECT GET_LOCK('a', 1)", "GET_LOCK", 1},
		{"UPDATE a, b SET a.x = 1", "one table", 1},
		{"UPDATE a JOIN b USING (x) SET a.x = 1", "one table", 1},
		{"UPDATE a AS x LEFT JOIN b ON x.a = b.a SET x.x = 1", "one table", 1},
		{"UPDATE (SELECT 1) x SET a = 1", "name is missing", 1},
		{"UPDATE t", "without SET", 1},
		{"DELETE a FROM a JOIN b", "one table", 1},
		{"DELETE FROM a USING a JOIN b", "one table", 1},
		{"DELETE FROM a, b USING a JOIN b", "one table", 1},
		{"DELETE FROM a.* USING a", "name is missing", 1},
		{"INSERT INTO :t VALUES (1)", "in place of a table", 1},
		{"INSERT INTO \"t\" VALUES (1)", "in place of a table", 1},
		{"INSERT INTO", "name is missing", 1},
		{"INSERT INTO `` VALUES (1)", "empty table name", 1},
		{"INSERT INTO t VALUES (\n':orderId')", "without quotes", 2},
		{"INSERT INTO t VALUES (?)", "bare ?", 1},
		{"INSERT INTO t VALUES (: a)", "no name follows", 1},
		{"INSERT INTO t VALUES (:1a)", "no name follows", 1},
		{"INSERT INTO t VALUES ('a)", "not closed", 1},
		{"INSERT INTO t VALUES (1)\n/* open", "not closed", 2},
		{"INSERT INTO t VALUES ('a\\", "not closed", 1},
		{"INSERT /*! IGNORE */ INTO t VALUES (1)", "executed by some", 1},
		{"INSERT /*M! IGNORE */ INTO t VALUES (1)", "executed by some", 1},
		{"INSERT /*+ SET_VAR(sql_mode='') */ INTO t VALUES (1)", "optimizer hint", 1},
		{"INSERT INTO t VALUES (1)\x00", "0x00", 1},
		{"INSERT INTO t VALUES ('\xff')", "UTF-8", 0},
	} {
		t.Run(tt.text, func(t *testing.T) {
			t.Parallel()
			_, err := ParseEffect("grant.sql", tt.text)
			var effect *EffectError
			if !errors.As(err, &effect) {
				t.Fatalf("%q: got %v, want an *EffectError", tt.text, err)
			}
			if !strings.Contains(effect.Reason, tt.mentions) {
				t.Errorf("reason %q does not mention %q", effect.Reason, tt.mentions)
			}
			if effect.File != "grant.sql" || effect.Line != tt.line {
				t.Errorf("got %s:%d, want grant.sql:%d", effect.File, effect.Line, tt.line)
			}
		})
	}
}

func TestEffectOfOneInsertGivesItsRow(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text, prefix, row, suffix string
		ok                        bool
	}{
		{"INSERT INTO t (a, b) VALUES (:a, ABS(:b))", "INSERT INTO t (a, b) VALUES ", "(?, ABS(?))", "", true},
		{
			"insert t value (:a, '?', :a) /* x */ on duplicate key update n = n + values(n);", "insert t value ", "(?, '?', ?)",
			" /* x */ on duplicate key update n = n + values(n)", true,
		},
		{"INSERT INTO t (`values`, x) VALUES (1, :x)", "INSERT INTO t (`values`, x) VALUES ", "(1, ?)", "", true},
		{"INSERT INTO t VALUES (:a), (:b)", "", "", "", false},
		{"INSERT INTO t VALUES (:a) ON DUPLICATE KEY UPDATE n = :n", "", "", "", false},
		{"INSERT INTO t SET a = :a", "", "", "", false},
		{"INSERT INTO t SELECT :a", "", "", "", false},
		{"INSERT INTO t VALUES ((SELECT MAX(a) FROM u))", "", "", "", false},
		{"INSERT INTO t VALUES (LAST_INSERT_ID(), :a)", "", "", "", false},
		{"REPLACE INTO t VALUES (:a)", "", "", "", false},
		{"INSERT INTO t VALUES (:a); INSERT INTO u VALUES (:a)", "", "", "", false},
		{"UPDATE t SET a = VALUES (:a)", "", "", "", false},
	} {
		t.Run(tt.text, func(t *testing.T) {
			t.Parallel()
			e, err := ParseEffect("grant.sql", tt.text)
			if err != nil {
				t.Fatal(err)
			}
			prefix, row, suffix, ok := e.MultiRow()
			if prefix != tt.prefix || row != tt.row || suffix != tt.suffix || ok != tt.ok {
				t.Errorf("got %q %q %q %v, want %q %q %q %v", prefix, row, suffix, ok, tt.prefix, tt.row, tt.suffix, tt.ok)
			}
		})
	}
}

// FuzzParseEffect: whatever the text, nothing outside of the placeholders changes, and the statements lie in the file as
// they are sent.
func FuzzParseEffect(f *testing.F) {
	for _, s := range []string{
		"INSERT INTO t VALUES (:a, ':b', `c`) -- d\n;UPDATE x SET y = :z.1\\.2", "SELECT '\\", "DELETE FROM t /* ; */ WHERE a = :a",
		"SELECT a::b :c;;;SELECT \"\"\"\"", "\ufeffREPLACE t VALUES (1)", "INSERT INTO t VALUES (:a\\-b) ON DUPLICATE KEY UPDATE a = VALUES(a)",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := ParseEffect("f", text)
		if err != nil {
			if _, ok := errors.AsType[*EffectError](err); !ok {
				t.Fatalf("not an *EffectError: %v", err)
			}
			return
		}
		body := strings.TrimPrefix(text, "\ufeff")
		at := 0
		for i := range e.statements {
			s := &e.statements[i]
			if s.start < at || !strings.HasPrefix(body[s.start:], s.source()) {
				t.Fatalf("statement %q does not stand at %d", s.source(), s.start)
			}
			at = s.start + len(s.source())
			if len(s.text) != len(s.args)+1 || s.sql != strings.Join(s.text, "?") {
				t.Fatalf("%d pieces and %d values: %q", len(s.text), len(s.args), s.sql)
			}
		}
		if prefix, row, suffix, ok := e.MultiRow(); ok && prefix+row+suffix != e.statements[0].sql {
			t.Fatalf("%q + %q + %q is not %q", prefix, row, suffix, e.statements[0].sql)
		}
	})
}
