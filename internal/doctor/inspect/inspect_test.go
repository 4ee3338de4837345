package inspect

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/idemctl/idemctl/internal/runlog"
	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/partition"
)

// bench is a ledger of three months and a Redis, as options of a Looker.
type bench struct {
	Options

	t      *testing.T
	schema *testenv.Schema
	redis  *testenv.RedisSpace
}

func newBench(t *testing.T, schema *testenv.Schema) *bench {
	t.Helper()
	b := &bench{t: t, schema: schema, redis: testenv.Redis(t)}
	scheme, err := partition.NewScheme("t_idempotent_flow")
	if err != nil {
		t.Fatal(err)
	}
	template, err := ledger.ParseKeyTemplate(b.redis.Prefix + "{biz_type}:{order_id}")
	if err != nil {
		t.Fatal(err)
	}
	m := partition.NewManager(schema.DB, scheme, time.UTC)
	plan, err := m.PlanCreate(t.Context(), partition.CreateRequest{Ahead: 2})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Create(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	b.Options = Options{
		DB: schema.DB, Scheme: scheme, Redis: b.redis.Client, Template: template, Lease: 2 * time.Minute, Slack: 5 * time.Minute, BizTypes: []string{"COUPON"},
	}
	return b
}

func (b *bench) exec(query string, args ...any) {
	b.t.Helper()
	if _, err := b.schema.DB.ExecContext(b.t.Context(), query, args...); err != nil {
		b.t.Fatalf("%s: %v", query, err)
	}
}

// table is a month's, counted from the current one.
func (b *bench) table(ahead int) string {
	return b.Scheme.Table(partition.MonthOf(time.Now(), time.UTC) + partition.Month(ahead))
}

// row writes an entry of the biz_type COUPON; claim is SQL.
func (b *bench) row(table, order, claim, source string) {
	b.t.Helper()
	b.exec(fmt.Sprintf("INSERT INTO %s VALUES (?, 'COUPON', UTC_TIMESTAMP(3), UTC_TIMESTAMP(3) + INTERVAL 30 DAY, %s, NULL, %s)", table, claim, source), []byte(order))
}

const (
	guarded  = "UNHEX('000102030405060708090a0b0c0d0e0f')"
	source   = "'order-paid', 3, 10233"
	noSource = "NULL, NULL, NULL"
)

func (b *bench) marker(order, value string, ttl time.Duration) {
	b.t.Helper()
	name := b.Template.Name(ledger.Key{BizType: "COUPON", OrderID: order})
	if err := b.redis.Client.Set(b.t.Context(), name, value, ttl).Err(); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) look(order string) Order {
	b.t.Helper()
	l, err := New(b.t.Context(), b.Options)
	if err != nil {
		b.t.Fatal(err)
	}
	o, err := l.Look(b.t.Context(), order)
	if err != nil {
		b.t.Fatal(err)
	}
	return o
}

// key is the one key of an order that is known.
func (b *bench) key(order string) Key {
	b.t.Helper()
	o := b.look(order)
	if len(o.Keys) != 1 || o.Keys[0].BizType != "COUPON" {
		b.t.Fatalf("keys %+v", o.Keys)
	}
	return o.Keys[0]
}

func (b *bench) expect(order string, want Finding, verdict string) Key {
	b.t.Helper()
	k := b.key(order)
	if k.Finding != want || !strings.Contains(k.Verdict, verdict) {
		b.t.Errorf("%s: %s: %s\nwant %s: …%s…", order, k.Finding, k.Verdict, want, verdict)
	}
	return k
}

func each(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Helper()
	for _, d := range testenv.Databases(t) {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			test(t, newBench(t, d.Schema(t)))
		})
	}
}

// What lies in Redis and in the months is told, and what a redelivery would meet follows from it.
func TestLook(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.expect("A-1", Unclaimed, "has not claimed anything here yet")
		if _, err := partition.Register(t.Context(), b.DB, b.Scheme, "COUPON", time.Time{}); err != nil {
			t.Fatal(err)
		}
		cat, err := partition.LoadCatalog(t.Context(), b.DB, b.Scheme)
		if err != nil {
			t.Fatal(err)
		}
		k := b.expect("A-1", NotDone, "Not done through this ledger since ")
		if k.MemorySince.IsZero() || k.Marker == nil || k.Marker.State != "none" {
			t.Errorf("%+v", k)
		}

		b.marker("A-1", "PROCESSING:owner", time.Minute)
		k = b.expect("A-1", InFlight, "a redelivery waits 1m at most")
		if m := k.Marker; m.TTLMillis <= 0 || m.TTLMillis > 60_000 || m.Value != "PROCESSING:owner" || !strings.HasPrefix(m.Meaning, "a claim's lease") {
			t.Errorf("%+v", m)
		}
		b.marker("A-1", "PROCESSING", 0)
		if k := b.expect("A-1", Stuck, "A lease without an end"); k.Marker.TTLMillis != -1 { // hazard G1
			t.Errorf("%+v", k.Marker)
		}
		b.marker("A-1", "COMPLETED:"+cat.LedgerID, time.Hour)
		if k := b.expect("A-1", Phantom, "Marked done in Redis, and not in the ledger"); k.Marker.Meaning != "by this ledger, after a commit: absorbs alone" { // hazard G27
			t.Errorf("%+v", k.Marker)
		}
		b.marker("A-1", "COMPLETED:another", time.Hour)
		if k := b.key("A-1"); k.Marker.Meaning != "of another ledger (id another): the ledger is asked" {
			t.Errorf("%+v", k.Marker)
		}
		b.marker("A-1", "done", time.Hour)
		b.expect("A-1", Malformed, "Something else lies under its name")

		b.row(b.table(0), "A-1", guarded, source)
		k = b.expect("A-1", Done, "Executed by order-paid[3]@10233; a redelivery is absorbed.")
		if r := k.Rows[0]; len(k.Rows) != 1 || r.Table != b.table(0) || r.State != partition.Live || r.ClaimID != "000102030405060708090a0b0c0d0e0f" || r.StoredAs != "" {
			t.Errorf("%+v", k.Rows)
		}
		b.marker("A-1", "PROCESSING:owner", time.Minute)
		b.expect("A-1", Done, "still says PROCESSING")
		b.exec("UPDATE " + b.table(0) + " SET expire_at = UTC_TIMESTAMP(3) - INTERVAL 1 DAY, fingerprint = claim_id")
		b.expect("A-1", Done, "unless its content has changed (conflict). The row has expired")

		b.row(b.table(0), "A-2", "NULL", noSource)
		b.expect("A-2", Done, "Done by another service (no claim id)")
		b.row(b.table(1), "A-2", guarded, source)
		b.expect("A-2", Twice, "In 2 tables") // hazard G26
	})
}

// hazard G25: a held table is looked into too, under whichever of its names it has.
func TestHeldTable(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.row(b.table(2), "A-1", guarded, source)
		b.exec("RENAME TABLE " + b.table(2) + " TO held_1")
		if _, err := partition.UpdateCatalog(t.Context(), b.DB, b.Scheme, func(c *partition.Catalog) (bool, error) {
			for i := range c.Tables {
				if c.Tables[i].Name == b.table(2) {
					c.Tables[i].State, c.Tables[i].Also = partition.Moving, "held_1"
				}
			}
			return true, nil
		}); err != nil {
			t.Fatal(err)
		}
		if r := b.expect("A-1", Done, "Executed by").Rows[0]; r.Table != "held_1" || r.State != partition.Moving {
			t.Errorf("%+v", r)
		}
	})
}

// Keys are compared byte by byte, whatever bytes they have (hazard G6).
func TestBytes(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		const odd = "a\x00\xff'\\ "
		b.row(b.table(0), odd, guarded, source)
		o := b.look(odd)
		if string(o.OrderIDB64) != odd || o.Keys[0].Finding != Done || o.Keys[0].Rows[0].StoredAs != "" {
			t.Errorf("%+v", o)
		}
		for _, other := range []string{"A\x00\xff'\\ ", "a\x00\xff'\\", "a"} {
			if k := b.key(other); k.Finding == Done {
				t.Errorf("%q: %+v", other, k)
			}
		}
	})
}

// Without --biz-type whatever the months hold is told, also of an effect that no handler here has.
func TestBizTypes(t *testing.T) {
	t.Parallel()
	b := newBench(t, testenv.MySQL(t))
	b.exec("INSERT INTO " + b.table(0) + " (order_id, biz_type, create_time, expire_at) VALUES ('A-1', 'SHIPMENT', UTC_TIMESTAMP(3), UTC_TIMESTAMP(3))")
	o := b.look("A-1")
	if len(o.Keys) != 2 || o.Keys[0].BizType != "COUPON" || o.Keys[0].Finding == Done || o.Keys[1].BizType != "SHIPMENT" || o.Keys[1].Finding != Done {
		t.Errorf("%+v", o.Keys)
	}
	b.Only = "SHIPMENT"
	if o := b.look("A-1"); len(o.Keys) != 1 || o.Keys[0].BizType != "SHIPMENT" {
		t.Errorf("%+v", o.Keys)
	}
	b.Only, b.BizTypes = "", nil
	if o := b.look("A-9"); len(o.Keys) != 0 {
		t.Errorf("%+v", o.Keys)
	}
}

// A Redis that is away, or not configured, does not hide what the ledger knows.
func TestWithoutRedis(t *testing.T) {
	t.Parallel()
	b := newBench(t, testenv.MySQL(t))
	b.row(b.table(0), "A-1", guarded, source)
	b.RedisErr = errors.New("no answer within 5s")
	if k := b.expect("A-1", Done, "Executed by"); k.MarkerError != "no answer within 5s" || k.Marker != nil {
		t.Errorf("%+v", k)
	}
	b.expect("A-2", RedisAway, "Redis does not answer")
	b.Redis, b.RedisErr = nil, nil
	if k := b.expect("A-1", Done, "Executed by"); k.Marker != nil || k.MarkerError != "" {
		t.Errorf("%+v", k)
	}
	b.exec("DROP TABLE " + partition.ControlTable)
	if _, err := New(t.Context(), b.Options); !errors.Is(err, partition.ErrNoCatalog) {
		t.Errorf("no catalog: %v", err)
	}
}

// A ledger made by someone else: its columns by the map, and what its collation merges is told.
func TestForeignLedger(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.exec("CREATE TABLE dedup (msg VARCHAR(64) COLLATE utf8mb4_general_ci PRIMARY KEY, made DATETIME NOT NULL) ENGINE=InnoDB")
		b.exec("INSERT INTO dedup VALUES ('ord-1', UTC_TIMESTAMP())")
		scheme, err := partition.NewScheme("dedup")
		if err == nil {
			b.Scheme, err = scheme.WithColumns(partition.Columns{OrderID: "msg", CreateTime: "made"})
		}
		if err != nil {
			t.Fatal(err)
		}
		if r := b.expect("ord-1", Done, "Done by another service").Rows[0]; r.Table != "dedup" || r.CreateTime.IsZero() || !r.ExpireAt.IsZero() {
			t.Errorf("%+v", r)
		}
		if r := b.expect("ORD-1", OtherKey, "of another key").Rows[0]; r.StoredAs != "ord-1" { // hazard G6
			t.Errorf("%+v", r)
		}
		b.expect("ord-2", NotFound, "this ledger cannot say")
	})
}

// Runs that name the order, and those that were at work when its row was written.
func TestRuns(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		log := runlog.New(b.DB)
		if err := log.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		begin := func(args string) int64 {
			id, err := log.Begin(t.Context(), runlog.Run{Prefix: b.Scheme.Prefix(), Command: "replay", Args: args, Who: "me", Host: "here"})
			if err != nil {
				t.Fatal(err)
			}
			return id
		}
		end := func(id int64) {
			if err := log.Finish(t.Context(), id, "done", nil); err != nil {
				t.Fatal(err)
			}
		}
		before := begin("replay order-paid --mode execute")
		end(before)
		b.exec("UPDATE "+runlog.Table+" SET started_at = started_at - INTERVAL 1 HOUR, finished_at = finished_at - INTERVAL 1 HOUR WHERE id = ?", before)
		during := begin("replay order-paid --mode execute")
		b.row(b.table(0), "A-1", guarded, source)
		end(during)
		named := begin("replay order-paid --key=A-1")
		b.exec("UPDATE "+runlog.Table+" SET started_at = started_at + INTERVAL 1 HOUR WHERE id = ?", named)
		begin("replay order-paid --key A-11 --mode verify")
		b.exec("UPDATE "+runlog.Table+" SET started_at = started_at + INTERVAL 1 HOUR WHERE id > ?", named)
		var got []string
		for _, r := range b.look("A-1").Runs {
			got = append(got, fmt.Sprintf("%d %s", r.ID, r.Why))
		}
		want := fmt.Sprintf("%d names the order|%d at work when the row was written", named, during)
		if strings.Join(got, "|") != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// Where the order stands in a state machine is told where there are such tables.
func TestState(t *testing.T) {
	t.Parallel()
	b := newBench(t, testenv.MySQL(t))
	b.exec("CREATE TABLE " + ledger.StateTable + " (order_id VARBINARY(128), biz_type VARBINARY(32), state VARBINARY(64), version BIGINT, updated_at DATETIME(3), PRIMARY KEY (order_id, biz_type))")
	b.exec("CREATE TABLE " + ledger.StateHistoryTable + " (order_id VARBINARY(128), biz_type VARBINARY(32), version BIGINT, from_state VARBINARY(64), to_state VARBINARY(64), at DATETIME(3), claim_id BINARY(16), who VARBINARY(128), why VARBINARY(512))")
	b.exec("INSERT INTO " + ledger.StateTable + " VALUES ('A-1', 'COUPON', 'PAID', 2, UTC_TIMESTAMP(3))")
	b.exec("INSERT INTO " + ledger.StateHistoryTable + " VALUES ('A-1', 'COUPON', 1, '', 'NEW', UTC_TIMESTAMP(3), " + guarded + ", 'svc', ''), ('A-1', 'COUPON', 2, 'NEW', 'PAID', UTC_TIMESTAMP(3), " + guarded + ", 'svc', 'webhook')")
	s := b.key("A-1").State
	if s == nil || s.State != "PAID" || len(s.History) != 2 || s.History[1].From != "NEW" || s.History[1].Why != "webhook" {
		t.Errorf("%+v", s)
	}
	if s := b.key("A-2").State; s != nil {
		t.Errorf("%+v", s)
	}
}
