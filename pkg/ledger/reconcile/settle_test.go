package reconcile

import (
	"testing"
	"time"

	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/ledger/ledgertest"
	"github.com/idemctl/idemctl/pkg/partition"
)

// What has become something else by the second look is no finding. hazard C3
func TestPassingIsNoFinding(t *testing.T) {
	t.Parallel()
	for _, db := range testenv.Databases(t) {
		t.Run(db.Name, func(t *testing.T) {
			t.Parallel()
			p := plant(t, db.Schema(t), testenv.Redis(t), nil)
			own, last := "COMPLETED:"+p.id, p.Scheme.Table(p.Month-1)
			p.marker("committed late", own, 50*time.Minute) // by a service that marks first
			p.marker("purged", own, 10*time.Minute)
			p.marker("another owner", "PROCESSING:a", 0)
			p.marker("taken over", "PROCESSING:a", 0)
			p.row("marked late", time.Minute, month, "", "")
			p.marker("marked late", "PROCESSING:a", 30*time.Second)
			p.row("a new lease", time.Minute, month, "", "")
			p.marker("a new lease", "PROCESSING", 30*time.Second)
			p.row("warmed", time.Minute, month, "", "")
			p.row("settled", time.Minute, month, "", "")
			p.row("settled", time.Minute, month, "", last)
			p.marker("settled", own, 50*time.Minute)
			p.row("expired", time.Minute, month, "", "")
			p.marker("expired", own, 0)
			p.marker("mended", "DONE", 0)
			p.flush()
			p.client.Set(t.Context(), p.Space.Prefix+"idempotent:alien", "x", 0)

			f := p.scan(p.reconciler(func(o *Options) {
				o.betweenLooks = func() {
					set := func(id, value string, ttl time.Duration) { p.client.Set(t.Context(), p.name(id), value, ttl) }
					p.row("committed late", 0, month, "", "")
					p.flush()
					p.Catalog(func(c *partition.Catalog) {
						c.Biz[ledgertest.Biz] = partition.Memory{Since: p.Now.AddDate(-1, 0, 0), Purged: p.Now.Add(-30 * time.Minute)}
					})
					set("another owner", "PROCESSING:b", 0)
					set("taken over", "PROCESSING:a", time.Minute)
					set("marked late", own, 50*time.Minute)
					set("a new lease", "PROCESSING", time.Minute)
					set("warmed", own, 50*time.Minute)
					p.SQL("DELETE FROM "+last+" WHERE order_id = ?", []byte("settled"))
					p.client.Del(t.Context(), p.name("expired"), p.Space.Prefix+"idempotent:alien")
					set("mended", own, 50*time.Minute)
					p.row("mended", 0, month, "", "")
					p.flush()
				}
			}))
			// Of a row purged meanwhile nobody can say any more what its marker means.
			p.check(f, map[Kind]int64{Unremembered: 1})
			if f.Suspects != 11 || f.Passing != 10 {
				t.Errorf("%d suspects, %d passing", f.Suspects, f.Passing)
			}
		})
	}
}
