package reconcile

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/partition"
)

// A walk meets each key once, in order, whichever tables it is in and whatever bytes it is made of.
func TestWalkMerges(t *testing.T) {
	t.Parallel()
	for _, db := range testenv.Databases(t) {
		t.Run(db.Name, func(t *testing.T) {
			t.Parallel()
			p := plant(t, db.Schema(t), testenv.Redis(t), nil)
			odd := []string{"\x00", "\x00\x00", "'", `\`, "\xff", "a", "a ", "A", "á", "\xff\xff"}
			want := map[string]int{}
			for i, table := range []string{p.Scheme.Table(p.Month - 1), p.Scheme.Table(p.Month), p.Scheme.Table(p.Month + 1)} {
				for n, id := range odd {
					if n%(i+1) == 0 {
						p.row(id, time.Minute, month, "", table)
						want[id]++
					}
				}
				for n := range 2*walkMost + 3 { // several pages of each
					if n%(i+2) == 0 {
						id := fmt.Sprintf("K%06d", n)
						p.row(id, time.Minute, month, "", table)
						want[id]++
					}
				}
			}
			p.flush()
			// One key with two effects is two keys.
			p.SQL("INSERT INTO " + p.Scheme.Table(p.Month) + " (order_id, biz_type, create_time, expire_at) VALUES ('a', 'A', '2026-11-01', '2026-12-01')")
			opts := p.reconciler().opts
			b, err := openBooks(t.Context(), &opts)
			if err != nil {
				t.Fatal(err)
			}
			var keys []ledger.Key
			got := map[string]int{}
			var rows int
			err = b.walk(t.Context(), func(_ context.Context, n int) error { rows += n; return nil }, func(w walked) error {
				keys = append(keys, w.key)
				if w.key.BizType == "A" {
					return nil
				}
				got[w.key.OrderID] += w.tables
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.IsSortedFunc(keys, func(a, b ledger.Key) int {
				if before(a, b) {
					return -1
				}
				return 1
			}) {
				t.Error("not in order, or a key twice")
			}
			total := 1
			for id, n := range want {
				total += n
				if got[id] != n {
					t.Errorf("%q: %d rows, want %d", id, got[id], n)
				}
			}
			if len(keys) != len(want)+1 || rows != total {
				t.Errorf("%d keys and %d rows, want %d and %d", len(keys), rows, len(want)+1, total)
			}
		})
	}
}

// A table that is held for dropping in mid-walk is found under its new name: its keys are neither missing nor there twice.
func TestTableMovesInMidScan(t *testing.T) {
	t.Parallel()
	p := plant(t, testenv.MySQL(t), testenv.Redis(t), nil)
	old := p.Scheme.Table(p.Month - 1)
	for i := range 3000 {
		id := fmt.Sprintf("OLD-%05d", i)
		p.row(id, 10*time.Minute, month, "", old)
		p.marker(id, "COMPLETED:"+p.id, 50*time.Minute)
	}
	p.flush()
	from := old
	for _, phase := range []string{"redis", "ledger"} {
		to := from + "_held"
		var once sync.Once
		f, err := p.reconciler().Scan(t.Context(), func(s Progress) {
			if s.Phase == phase {
				once.Do(func() { p.rename(from, to) })
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		p.check(f, nil)
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		from = to
	}
}

// rename moves a table as a purge does: listed with both names first, then done, then settled.
func (p *planted) rename(from, to string) {
	p.t.Helper()
	list := func(change func(*partition.Table)) {
		p.Catalog(func(c *partition.Catalog) {
			for i := range c.Tables {
				if slices.Contains(c.Tables[i].Names(), from) {
					change(&c.Tables[i])
				}
			}
		})
	}
	list(func(t *partition.Table) { t.Also, t.State = to, partition.Moving })
	p.SQL("RENAME TABLE " + from + " TO " + to)
	list(func(t *partition.Table) { t.Name, t.Also, t.State = to, "", partition.Held })
}
