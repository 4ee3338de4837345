package purge

import (
	"maps"
	"slices"
	"time"
)

// dropsTable reports a month that goes as a whole.
func (m *MonthPlan) dropsTable() bool {
	return m.Action == ActionDrop || (m.Action == ActionFinish && !m.PutBack)
}

// horizon lists the biz_types that lose rows, and those whose horizon rises with a month that is dropped.
func (pl *planner) horizon() []HorizonChange {
	lose := map[string]bool{}
	for _, m := range pl.plan.Months {
		for _, b := range mergeBiz(m.Windows) {
			lose[b.BizType] = true
		}
	}
	return slices.DeleteFunc(pl.horizonAfter(), func(h HorizonChange) bool {
		return !lose[h.BizType] && !h.After.After(h.Before)
	})
}

// horizonAfter is every known biz_type's horizon when the plan has been run.
func (pl *planner) horizonAfter() []HorizonChange {
	purged, lost := map[string]time.Time{}, time.Time{}
	for biz := range pl.cat.Biz {
		purged[biz] = time.Time{}
	}
	for i := range pl.plan.Months {
		m := &pl.plan.Months[i]
		for _, b := range mergeBiz(m.Windows) {
			purged[b.BizType] = later(purged[b.BizType], b.MaxCreate)
		}
		if m.dropsTable() {
			lost = later(lost, m.Table.Month.End(pl.plan.zone))
		}
	}
	changes := make([]HorizonChange, 0, len(purged))
	for _, biz := range slices.Sorted(maps.Keys(purged)) {
		before := effective(&pl.cat, biz)
		changes = append(changes, HorizonChange{BizType: biz, Before: before, After: later(before, later(purged[biz], lost))})
	}
	return changes
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
