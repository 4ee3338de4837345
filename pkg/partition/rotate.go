package partition

import (
	"context"
	"fmt"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// RotatePlan is what Rotate does: it gives the ledger a new id, so that COMPLETED markers of before, of which some may have
// lost their rows in a failover or a restore, no longer absorb alone (hazard G27). Each of them then costs a look into the
// ledger. Nothing else changes.
type RotatePlan struct {
	Now        time.Time `json:"now"`
	LedgerID   string    `json:"ledger_id"` // the one that goes
	Generation int64     `json:"generation"`
}

// RotateReport says what a rotation did.
type RotateReport struct {
	OldLedgerID string `json:"old_ledger_id"`
	LedgerID    string `json:"ledger_id"`
	Generation  int64  `json:"generation"`
}

// PlanRotate reads the ledger's present id.
func (m *Manager) PlanRotate(ctx context.Context) (RotatePlan, error) {
	if m.scheme.Legacy() {
		return RotatePlan{}, fmt.Errorf("rotate the id of %s: %w", m.scheme.prefix, ErrLegacy)
	}
	now, err := mysqlx.Now(ctx, m.db)
	if err != nil {
		return RotatePlan{}, err
	}
	cat, err := m.catalog(ctx)
	if err != nil {
		return RotatePlan{}, err
	}
	return RotatePlan{Now: now, LedgerID: cat.LedgerID, Generation: cat.Generation}, nil
}

// Rotate acts on a plan, in one statement. ErrPlanStale says that the id is another one already.
func (m *Manager) Rotate(ctx context.Context, p RotatePlan) (RotateReport, error) {
	id, err := newLedgerID()
	if err != nil {
		return RotateReport{}, err
	}
	cat, err := UpdateCatalog(ctx, m.db, m.scheme, func(c *Catalog) (bool, error) {
		if c.LedgerID != p.LedgerID {
			return false, fmt.Errorf("ledger id %s is now %s: %w", p.LedgerID, c.LedgerID, ErrPlanStale)
		}
		c.LedgerID = id
		return true, nil
	})
	if err != nil {
		return RotateReport{}, err
	}
	return RotateReport{OldLedgerID: p.LedgerID, LedgerID: id, Generation: cat.Generation}, nil
}
