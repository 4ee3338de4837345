package purge_test

import (
	"testing"
	"time"

	"github.com/idemctl/idemctl/pkg/purge"
)

// A month whose rows all came early is expired before its end is: a late message of it, which has no row, could still be
// proved new. Dropped, the month would make it unprovable, so its rows go and it stays.
func TestConformanceDropOnlyWhenTheMonthIsOutlived(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		b.insert(b.table(-3), expired("a", 10)...)
		end := (b.month - 3).End(time.UTC)
		outlived := b.now.Sub(end)
		for _, tt := range []struct {
			retention time.Duration
			want      purge.Action
		}{
			{outlived - day, purge.ActionDrop},
			{outlived + day, purge.ActionRows},
		} {
			if got := planOf(b.plan(purge.PlanOptions{Retention: tt.retention}), b.table(-3)).Action; got != tt.want {
				b.Errorf("retention %s, %s after the month's end: %s, want %s", tt.retention, outlived, got, tt.want)
			}
		}
		rep := b.run(b.plan(purge.PlanOptions{Retention: outlived + day}), quick())
		if rep.Deleted != 10 || rep.DroppedRows != 0 {
			b.Errorf("report: %+v", rep)
		}
		b.same("what is left of the month", b.ids(b.table(-3)), []string{})
		cat := b.catalog()
		if _, there := cat.Home(b.month - 3); !there {
			b.Error("the month is gone from the catalog")
		}
	})
}
