package reconcile

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/ledger/ledgertest"
	"github.com/idemctl/idemctl/pkg/partition"
)

// planted is a ledger with markers and rows that a test has put there.
type planted struct {
	*ledgertest.Workbench

	t      *testing.T
	client redis.UniversalClient
	id     string // of the ledger
	rows   map[string][]string
	pipe   redis.Pipeliner
	want   map[Kind]int64
}

const completedTTL = time.Hour

// plant makes a ledger on one database, and markers on one Redis.
func plant(t *testing.T, schema *testenv.Schema, space *testenv.RedisSpace, client redis.UniversalClient) *planted {
	t.Helper()
	p := &planted{Workbench: ledgertest.New(t, schema, space), t: t, rows: map[string][]string{}, want: map[Kind]int64{}}
	if p.client = client; client == nil {
		p.client = p.Redis
	}
	p.pipe = p.client.Pipeline()
	cat, err := partition.LoadCatalog(t.Context(), schema.DB, p.Scheme)
	if err != nil {
		t.Fatal(err)
	}
	p.id = cat.LedgerID
	return p
}

func (p *planted) name(orderID string) string {
	return p.Template.Name(ledger.Key{BizType: ledgertest.Biz, OrderID: orderID})
}

// row plants a row of this age in the current month, or in another table.
func (p *planted) row(orderID string, age, lasts time.Duration, fingerprint, table string) {
	fp := "NULL"
	if fingerprint != "" {
		fp = "x'" + fingerprint + "'"
	}
	if table == "" {
		table = p.Scheme.Table(p.Month)
	}
	created := p.Now.Add(-age)
	p.rows[table] = append(p.rows[table], fmt.Sprintf("(x'%s','%s','%s','%s',%s)", hex.EncodeToString([]byte(orderID)), ledgertest.Biz,
		created.Format("2006-01-02 15:04:05.000"), p.Now.Add(lasts).Format("2006-01-02 15:04:05.000"), fp))
}

// marker plants a marker; ttl 0 is none.
func (p *planted) marker(orderID, value string, ttl time.Duration) {
	p.pipe.Set(p.t.Context(), p.name(orderID), value, ttl)
}

// old makes the key one that nobody has touched for a while.
func (p *planted) old(orderID string, idle time.Duration) {
	p.t.Helper()
	dump, err := p.client.Dump(p.t.Context(), p.name(orderID)).Result()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.client.Do(p.t.Context(), "RESTORE", p.name(orderID), 0, dump, "REPLACE", "IDLETIME", int(idle.Seconds())).Err(); err != nil {
		p.t.Fatal(err)
	}
}

func (p *planted) flush() {
	p.t.Helper()
	for table, rows := range p.rows {
		for len(rows) > 0 {
			n := min(len(rows), 2000)
			p.SQL("INSERT INTO " + table + " (order_id, biz_type, create_time, expire_at, fingerprint) VALUES " + strings.Join(rows[:n], ","))
			rows = rows[n:]
		}
	}
	clear(p.rows)
	if p.pipe.Len() > 0 {
		if _, err := p.pipe.Exec(p.t.Context()); err != nil {
			p.t.Fatal(err)
		}
	}
}

const month = 30 * 24 * time.Hour

// clean plants keys that are as they should be.
func (p *planted) clean(n int) {
	for i := range n {
		id := fmt.Sprintf("CLEAN-%06d", i)
		p.row(id, 10*time.Minute, month, "", "")
		p.marker(id, "COMPLETED:"+p.id, 50*time.Minute)
	}
	p.flush()
}

// faults plants n of each kind, and says so in want. The ledger has forgotten what is older than 30 minutes.
func (p *planted) faults(n int) {
	p.t.Helper()
	t := p.t.Context()
	p.Catalog(func(c *partition.Catalog) {
		c.Biz[ledgertest.Biz] = partition.Memory{Since: p.Now.AddDate(-1, 0, 0), Purged: p.Now.Add(-30 * time.Minute)}
	})
	held := "t_idempotent_flow_held_x"
	p.SQL("CREATE TABLE " + held + " LIKE " + p.Scheme.Table(p.Month))
	p.Catalog(func(c *partition.Catalog) {
		c.Tables = append([]partition.Table{{Month: p.Month - 2, Name: held, State: partition.Held}}, c.Tables...)
	})
	const a, b = "00112233445566778899aabbccddeeff", "ffeeddccbbaa99887766554433221100"
	own := "COMPLETED:" + p.id
	for i := range n {
		id := func(kind Kind) string { return fmt.Sprintf("%s-\x00\xff'%d", kind, i) }
		p.marker(id(Phantom), own, 59*time.Minute)
		p.marker(id(Unremembered), own, 10*time.Minute)
		p.marker(id(Stuck), "PROCESSING:"+strconv.Itoa(i), map[bool]time.Duration{true: 0, false: 2 * time.Hour}[i%2 == 0])
		p.marker(id(Abandoned), "PROCESSING:dead", 0)
		p.row(id(StaleProcessing), 10*time.Minute, month, "", "")
		p.marker(id(StaleProcessing), "PROCESSING:owner", 30*time.Second)
		p.row(id(Immortal), 10*time.Minute, month, "", "")
		p.marker(id(Immortal), own, 0)
		p.row(id(OutlivesEntry), 10*time.Minute, 20*time.Minute, a, "")
		p.marker(id(OutlivesEntry), own+":"+a, 50*time.Minute)
		p.row(id(FingerprintMismatch), 10*time.Minute, month, a, "")
		p.marker(id(FingerprintMismatch), own+":"+b, 50*time.Minute)
		p.row(id(Cold), 10*time.Minute, month, "", "")
		p.marker(id(Malformed), "DONE", 0)
		p.pipe.Set(t, p.Space.Prefix+"idempotent:@"+id(AlienKey), "x", 0)
		for _, table := range []string{"", []string{held, p.Scheme.Table(p.Month - 1)}[i%2]} {
			p.row(id(Twice), 10*time.Minute, month, "", table)
		}
		p.marker(id(Twice), own, 50*time.Minute)
		p.row("with"+id(ForeignLedger), 10*time.Minute, month, b, "")
		p.marker("with"+id(ForeignLedger), []string{"COMPLETED:0123456789abcdef", "COMPLETED"}[i%2], 50*time.Minute)
		p.marker("without"+id(ForeignLedger), "COMPLETED:0123456789abcdef", 50*time.Minute)

		// What is as it should be, though it looks odd: a live lease, a row older than markers are, one that has expired.
		p.marker(id("live"), "PROCESSING:live", 30*time.Second)
		p.row(id("old"), 2*time.Hour, month, "", "")
		p.row(id("expired"), 10*time.Minute, -time.Minute, "", "")
		p.row(id("printed"), 10*time.Minute, month, a, "")
		p.marker(id("printed"), own+":"+a, 50*time.Minute)
		for _, k := range Kinds() {
			p.want[k]++
		}
		p.want[ForeignLedger]++
	}
	p.pipe.RPush(t, p.name("a list"), "x")
	p.want[Malformed]++
	p.flush()
	for i := range n {
		p.old(fmt.Sprintf("%s-\x00\xff'%d", Abandoned, i), time.Hour)
	}
}

// reconciler is one over what was planted. It settles at once.
func (p *planted) reconciler(change ...func(*Options)) *Reconciler {
	p.t.Helper()
	opts := Options{
		DB: p.Open(false), Scheme: p.Scheme, Redis: p.client, Template: p.Template, Lease: p.Lease, CompletedTTL: completedTTL,
		Settle: 10 * time.Millisecond,
	}
	for _, c := range change {
		c(&opts)
	}
	r, err := New(opts)
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

// scan runs one that must not fail.
func (p *planted) scan(r *Reconciler) *Findings {
	p.t.Helper()
	f, err := r.Scan(p.t.Context(), nil)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = f.Close() })
	return f
}

// in is the same for a test within this one.
func (p *planted) in(t *testing.T) *planted {
	t.Helper()
	q := *p
	q.t = t
	return &q
}

// check compares the counts of a report with those wanted.
func (p *planted) check(f *Findings, want map[Kind]int64) {
	p.t.Helper()
	if !f.Complete {
		p.t.Errorf("incomplete: %+v", f.Gaps)
	}
	for _, k := range Kinds() {
		if got := f.Count(k); got != want[k] {
			p.t.Errorf("%s: %d, want %d", k, got, want[k])
		}
	}
}
