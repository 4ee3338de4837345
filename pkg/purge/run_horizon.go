package purge

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/idemctl/idemctl/pkg/partition"
)

// horizon is what the catalog is known to say of rows that are gone.
type horizon struct {
	mu     sync.Mutex
	known  bool // there is a catalog
	before partition.Catalog
	now    partition.Catalog
}

func (h *horizon) begin(cat *partition.Catalog) {
	h.known, h.before, h.now = true, *cat, *cat
}

// raiseHorizon commits, before the first of them is deleted, how late rows that go were created (invariant 9). What the
// catalog says already costs nothing.
func (w *worker) raiseHorizon(ctx context.Context, m *month, purged map[string]time.Time) error {
	raised, err := w.horizon.raise(purged, func() (partition.Catalog, error) {
		return partition.RaiseHorizon(w.detached(ctx), w.conn, w.plan.scheme, purged)
	})
	if err != nil {
		if lost := w.lost(ctx, err); lost != nil {
			return lost
		}
		return err
	}
	if raised {
		w.step(StepHorizon, m.name, 0)
	}
	return nil
}

// raise calls commit unless the horizon is there already.
func (h *horizon) raise(purged map[string]time.Time, commit func() (partition.Catalog, error)) (raised bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.known {
		return false, nil
	}
	for biz, t := range purged {
		raised = raised || t.After(h.now.Biz[biz].Purged)
	}
	if !raised {
		return false, nil
	}
	cat, err := commit()
	if err != nil {
		return false, err
	}
	h.now = cat
	return true, nil
}

// reread notes what the drop of a month has done to the catalog.
func (h *horizon) reread(cat *partition.Catalog) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = *cat
}

// changes lists the biz_types whose horizon has risen.
func (h *horizon) changes() []HorizonChange {
	h.mu.Lock()
	defer h.mu.Unlock()
	changes := []HorizonChange{}
	for _, biz := range slices.Sorted(maps.Keys(h.now.Biz)) {
		before, after := effective(&h.before, biz), effective(&h.now, biz)
		if after.After(before) {
			changes = append(changes, HorizonChange{BizType: biz, Before: before, After: after})
		}
	}
	return changes
}

// effective is a biz_type's horizon, or what it will be at least once the biz_type has claimed.
func effective(cat *partition.Catalog, biz string) time.Time {
	if h, ok := cat.Horizon(biz); ok {
		return h
	}
	return later(cat.Biz[biz].Purged, cat.LostUntil)
}

// ledgerID names the ledger; empty where there is no catalog.
func (h *horizon) ledgerID() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now.LedgerID
}
