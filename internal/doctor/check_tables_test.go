package doctor

import (
	"strconv"
	"strings"
	"testing"

	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/partition"
)

// The tables that we make are well, and each way in which one can drift is found.
func TestOwnTables(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *testenv.Schema) {
		c := setup(t)
		c.DB = s.DB
		expect(t, check(t, c, "ledger.tables"), Fail, "no table t_idempotent_flow_YYYYMM")
		c = on(t, s)
		expect(t, check(t, c, "ledger.tables"), OK, "3 tables")
		exec(t, s, "ALTER TABLE "+month(c, 0)+" DROP KEY idx_expire_at")
		expect(t, check(t, c, "ledger.tables"), Warn, month(c, 0)+": no index on expire_at") // hazard P13
		exec(t, s, "ALTER TABLE "+month(c, 1)+" MODIFY order_id VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL")
		r := check(t, c, "ledger.tables")
		expect(t, r, Fail, month(c, 1)+": order_id compares by utf8mb4_general_ci") // hazard G6
		expect(t, r, Fail, "column order_id is varchar(128), not varbinary(128)")
		exec(t, s, "CREATE TRIGGER tr BEFORE INSERT ON "+month(c, 2)+" FOR EACH ROW SET NEW.src_offset = 1")
		expect(t, check(t, c, "ledger.tables"), Fail, "it has a trigger tr")
	})
}

// A ledger made by someone else is judged by what it is, whatever its columns are called.
func TestForeignTables(t *testing.T) {
	t.Parallel()
	const key, times = "msg VARBINARY(128) NOT NULL, biz VARBINARY(32) NOT NULL", "made DATETIME NOT NULL, gone DATETIME NOT NULL"
	for i, c := range []struct {
		ddl  string
		want Status
		read string
	}{
		{key + ", " + times + ", PRIMARY KEY (biz, msg), KEY (gone)", OK, "1 table,"},
		{key + ", " + times + ", PRIMARY KEY (msg, biz)", Warn, "no index on gone"},
		{key + ", " + times + ", PRIMARY KEY (msg), KEY (gone)", Fail, "unique key (msg) is narrower than (msg, biz)"},
		{key + ", " + times + ", UNIQUE KEY (msg, biz, made), KEY (gone)", Fail, "no unique key over exactly (msg, biz), but (msg, biz, made)"},
		{key + ", " + times + ", KEY (msg, biz), KEY (gone)", Fail, "no unique key over (msg, biz)"},
		{key + ", " + times + ", UNIQUE KEY (msg(10), biz), KEY (gone)", Fail, "of a prefix is narrower"},
		{key + ", " + times + ", PRIMARY KEY (msg, biz), UNIQUE KEY (msg), KEY (gone)", Fail, "unique key (msg) is narrower"},
		{key + ", " + times + ", id BIGINT AUTO_INCREMENT PRIMARY KEY, UNIQUE KEY (msg, biz), KEY (gone)", OK, "1 table,"},
		{"msg VARCHAR(64) COLLATE utf8mb4_general_ci NOT NULL, biz VARBINARY(32) NOT NULL, " + times + ", PRIMARY KEY (msg, biz), KEY (gone)", Fail, "msg compares by utf8mb4_general_ci"},
		{"msg VARCHAR(64) COLLATE utf8mb4_bin NOT NULL, biz VARBINARY(32) NOT NULL, " + times + ", PRIMARY KEY (msg, biz), KEY (gone)", Warn, "msg compares by utf8mb4_bin"},
		{"msg VARBINARY(20) NOT NULL, biz VARBINARY(32) NOT NULL, " + times + ", PRIMARY KEY (msg, biz), KEY (gone)", Warn, "msg holds 20 bytes"}, // hazard G5
		{"msg BIGINT NOT NULL, biz VARBINARY(32) NOT NULL, " + times + ", PRIMARY KEY (msg, biz), KEY (gone)", Warn, "msg is bigint"},
		{key + ", " + times + ", PRIMARY KEY (msg, biz), KEY (gone)) ENGINE=MyISAM", Fail, "engine MyISAM"}, // hazard G18
		{"other VARBINARY(128) NOT NULL, biz VARBINARY(32) NOT NULL, " + times + ", PRIMARY KEY (other, biz)", Fail, "has no column msg"},
	} {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, s *testenv.Schema) {
				ddl := "CREATE TABLE dedup (" + c.ddl
				if !strings.Contains(ddl, "ENGINE") {
					ddl += ")"
				}
				exec(t, s, ddl)
				expect(t, check(t, foreign(t, s, partition.Columns{OrderID: "msg", BizType: "biz", CreateTime: "made", ExpireAt: "gone"}), "ledger.tables"), c.want, c.read)
			})
		})
	}
}

// foreign is setup on a ledger made by someone else, whose table is called dedup.
func foreign(t *testing.T, s *testenv.Schema, columns partition.Columns) Setup {
	t.Helper()
	c := setup(t)
	c.DB = s.DB
	scheme, err := partition.NewScheme("dedup")
	if err == nil {
		c.Scheme, err = scheme.WithColumns(columns)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestExactCollation(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"binary": true, "utf8mb4_0900_bin": true, "utf8mb4_nopad_bin": true,
		"utf8mb4_bin": false, "latin1_bin": false, "utf8mb4_0900_ai_ci": false, "utf8mb4_0900_as_cs": false, "utf8mb4_general_ci": false, "utf8mb4_general_nopad_ci": false,
	} {
		if got := exact(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
