package doctor

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/partition"
)

// hazard G18
func TestMonths(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *testenv.Schema) {
		c := setup(t)
		c.DB = s.DB
		expect(t, check(t, c, "ledger.months"), Fail, "no catalog for t_idempotent_flow")
		c = on(t, s)
		expect(t, check(t, c, "ledger.months"), OK, "3 months, the last ")
		exec(t, s, "CREATE TABLE t_idempotent_flow_202001 LIKE "+month(c, 0), "CREATE TABLE t_idempotent_flow_202001_bak LIKE "+month(c, 0))
		expect(t, check(t, c, "ledger.months"), Warn, "t_idempotent_flow_202001 is there and the catalog does not list it")
		exec(t, s, "DROP TABLE "+month(c, 2))
		expect(t, check(t, c, "ledger.months"), Fail, month(c, 2)+" is listed and gone")
		exec(t, s, "DROP TABLE "+month(c, 1))
		expect(t, check(t, c, "ledger.months"), Fail, month(c, 1)+" is missing")
		change(t, c, func(cat *partition.Catalog) { cat.Tables = nil })
		expect(t, check(t, c, "ledger.months"), Fail, month(c, 0)+" is missing")
	})
}

// A ledger made by someone else has its months by name, or one table.
func TestForeignMonths(t *testing.T) {
	t.Parallel()
	s := testenv.MySQL(t)
	c := foreign(t, s, partition.Columns{OrderID: "msg"})
	expect(t, check(t, c, "ledger.months"), Fail, "no table dedup_YYYYMM")
	const shape = " (msg VARBINARY(128) PRIMARY KEY, create_time DATETIME NOT NULL)"
	exec(t, s, "CREATE TABLE "+month(c, 0)+shape)
	expect(t, check(t, c, "ledger.months"), Fail, month(c, 1)+" is missing")
	exec(t, s, "CREATE TABLE "+month(c, 1)+shape)
	expect(t, check(t, c, "ledger.months"), OK, "2 months")
	exec(t, s, "CREATE TABLE dedup"+shape)
	expect(t, check(t, c, "ledger.months"), OK, "one table, dedup")
	for _, name := range []string{"ledger.horizon", "ledger.writers", "ledger.leftover"} {
		expect(t, check(t, c, name), Skipped, "made by someone else")
	}
}

func TestHorizon(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *testenv.Schema) {
		c := setup(t)
		c.DB = s.DB
		expect(t, check(t, c, "ledger.horizon"), Skipped, "no catalog")
		c = on(t, s)
		expect(t, check(t, c, "ledger.horizon"), OK, "no biz_type has claimed yet")
		at := func(ago time.Duration) time.Time { return time.Now().Add(-ago).UTC().Truncate(time.Millisecond) }
		set := func(since, purged, lost time.Time) {
			change(t, c, func(cat *partition.Catalog) {
				cat.Biz["COUPON"] = partition.Memory{Since: since, Purged: purged}
				cat.LostUntil = lost
			})
		}
		set(at(40*day), time.Time{}, time.Time{})
		expect(t, check(t, c, "ledger.horizon"), OK, "40d ago; retention 30d")
		set(at(10*day), time.Time{}, time.Time{})
		expect(t, check(t, c, "ledger.horizon"), OK, "10d ago") // young, and nothing to ask it about
		k := testenv.Kafka(t)
		own := c.Handlers
		for age, want := range map[time.Duration]Status{9 * day: OK, 11 * day: Warn} {
			topic := k.Topic(t, 1, nil)
			produce(t, k, topic, at(age))
			kc := onTopic(t, k, topic)
			c.Kafka, c.Handlers = kc.Kafka, kc.Handlers
			if r := check(t, c, "ledger.horizon"); r.Status != want {
				t.Errorf("a record %s old: %+v", Short(age), r)
			}
		}
		c.Kafka, c.Handlers = nil, own
		set(at(90*day), at(20*day), time.Time{})
		expect(t, check(t, c, "ledger.horizon"), Warn, "only 20d ago; retention is 30d") // hazard P16
		set(at(90*day), time.Time{}, at(-3*day))
		expect(t, check(t, c, "ledger.horizon"), Fail, "in the future") // hazard P18
	})
}

// insert writes an entry as a service would; claim is SQL.
func insert(t *testing.T, s *testenv.Schema, table, order, create, claim string) {
	t.Helper()
	exec(t, s, fmt.Sprintf("INSERT INTO %s (order_id, biz_type, create_time, expire_at, claim_id) VALUES ('%s', 'COUPON', %s, %s + INTERVAL 30 DAY, %s)",
		table, order, create, create, claim))
}

const guarded = "UNHEX(REPLACE(UUID(), '-', ''))"

func TestTimesAndWriters(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *testenv.Schema) {
		c := on(t, s)
		expect(t, check(t, c, "ledger.times"), OK, "no rows yet")
		insert(t, s, month(c, 0), "A-1", "UTC_TIMESTAMP(3)", guarded)
		expect(t, check(t, c, "ledger.times"), OK, "newest create_time 20")
		expect(t, check(t, c, "ledger.writers"), OK, "1 newest row, all by a guard")
		insert(t, s, month(c, 0), "A-2", "UTC_TIMESTAMP(3) + INTERVAL 8 HOUR", guarded)
		expect(t, check(t, c, "ledger.times"), Fail, "1 of 2 newest rows lie up to ") // hazards P3, P18
		expect(t, check(t, c, "ledger.times"), Fail, "in the future, all by a guard")
		insert(t, s, month(c, 0), "A-3", "UTC_TIMESTAMP(3) + INTERVAL 9 HOUR", "NULL")
		expect(t, check(t, c, "ledger.times"), Fail, "by other writers")
		expect(t, check(t, c, "ledger.writers"), Fail, "COUPON: 1 of the 3 newest rows were not written by a guard") // hazard G26
		c.Handlers[0].BizType = "SHIPMENT"
		expect(t, check(t, c, "ledger.writers"), OK, "others write biz_types that no handler here executes: COUPON 1")
	})
}

// hazard G5
func TestTruncated(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *testenv.Schema) {
		c := foreign(t, s, partition.Columns{OrderID: "msg"})
		exec(t, s, "CREATE TABLE dedup (msg VARCHAR(8) COLLATE utf8mb4_bin NOT NULL PRIMARY KEY, create_time DATETIME NOT NULL)",
			"INSERT INTO dedup VALUES ('ÄÖÜ-1', UTC_TIMESTAMP())")
		expect(t, check(t, c, "ledger.truncated"), OK, "1 newest row:")
		// What a service with INSERT IGNORE does to two orders.
		exec(t, s, "INSERT IGNORE INTO dedup VALUES ('ORDER-0001', UTC_TIMESTAMP())", "INSERT IGNORE INTO dedup VALUES ('ORDER-0002', UTC_TIMESTAMP())")
		expect(t, check(t, c, "ledger.truncated"), Warn, `1 of 2 newest keys are exactly as long as their column (8), such as "ORDER-00"`)
		exec(t, s, "INSERT IGNORE INTO dedup VALUES ('', 'no date')")
		expect(t, check(t, c, "ledger.truncated"), Fail, "1 empty keys and 1 rows without a date among the 3 newest")
	})
}

// hazard G25
func TestLeftover(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *testenv.Schema) {
		c := on(t, s)
		expect(t, check(t, c, "ledger.leftover"), OK, "no table is held")
		change(t, c, func(cat *partition.Catalog) {
			i := slices.IndexFunc(cat.Tables, func(table partition.Table) bool { return table.Name == month(c, 2) })
			cat.Tables[i].State, cat.Tables[i].Also = partition.Moving, "held_1"
		})
		expect(t, check(t, c, "ledger.leftover"), Warn, month(c, 2)+" or held_1 is moving, and no run is at it")
		lock, err := partition.LockMonths(t.Context(), s.DB, c.Scheme)
		if err != nil {
			t.Fatal(err)
		}
		expect(t, check(t, c, "ledger.leftover"), OK, "a run is at it")
		if err := lock.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		expect(t, check(t, c, "ledger.leftover"), Warn, "no run is at it")
	})
}
