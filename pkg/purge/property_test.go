package purge_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/idemctl/idemctl/pkg/purge"
)

// Whatever a month holds and however a run is shaped: what is left is what the condition keeps, and what went is accounted
// for, window by window.
func TestConformanceLeavesTheRest(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		b.keep(-3, -2)
		rapid.Check(b.T, func(rt *rapid.T) {
			b.sql("DELETE FROM " + b.table(-1))
			// Few distinct times, so that many rows share them and the edges are met.
			times := []time.Duration{-400 * day, -61 * day, -60 * day, -60*day - 1e6, -30 * day, -2 * day, -1e6, 0, 1e6, day}
			n := rapid.IntRange(0, 120).Draw(rt, "rows")
			rows := make([]row, n)
			var keep []string
			for i := range rows {
				rows[i] = row{
					id:      fmt.Sprintf("k%c%03d", rapid.SampledFrom([]rune("Aaz-")).Draw(rt, "c"), i),
					biz:     rapid.SampledFrom([]string{"COUPON", "SHIPMENT", "x.y"}).Draw(rt, "biz"),
					created: rapid.SampledFrom(times).Draw(rt, "created"),
					expire:  rapid.SampledFrom(times).Draw(rt, "expire"),
				}
				if rows[i].expire >= 0 || rows[i].created > 0 {
					keep = append(keep, rows[i].id)
				}
			}
			b.insert(b.table(-1), rows...)
			p := b.plan(purge.PlanOptions{Before: b.now, RowsOnly: true, Window: time.Duration(rapid.IntRange(1, 90).Draw(rt, "window")) * day})
			opts := quick()
			opts.Batch = rapid.IntRange(1, 50).Draw(rt, "batch")
			opts.MaxRows = int64(rapid.IntRange(1, 200).Draw(rt, "limit"))
			limit := min(opts.MaxRows, int64(n-len(keep)))
			rep := b.run(p, opts)
			if p.Rows != int64(n-len(keep)) || rep.Deleted != limit || rep.Skipped != 0 {
				rt.Errorf("planned %d, deleted %d, skipped %d; want %d", p.Rows, rep.Deleted, rep.Skipped, limit)
			}
			var byWindow int64
			for _, w := range monthOf(rep, b.table(-1)).Windows {
				byWindow += w.Deleted
			}
			if byWindow != rep.Deleted {
				rt.Errorf("%d in windows, %d in all", byWindow, rep.Deleted)
			}
			if left := b.ids(b.table(-1)); limit == int64(n-len(keep)) {
				slices.Sort(keep)
				if !slices.Equal(left, append([]string{}, keep...)) {
					rt.Errorf("left %q, want %q", left, keep)
				}
			} else if len(left) != n-int(limit) {
				rt.Errorf("%d left of %d", len(left), n)
			}
		})
	})
}
