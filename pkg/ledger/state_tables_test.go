package ledger_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/ledger"
)

// Invariant 5, hazards G5, G6, G18: tables on which a transition could be half or double are refused, and none is made
// unasked.
func TestStateTables(t *testing.T) {
	t.Parallel()
	for _, db := range testenv.Databases(t) {
		t.Run(db.Name, func(t *testing.T) {
			t.Parallel()
			schema := db.Schema(t)
			b := &stateBench{T: t, schema: schema, spec: couponSpec(t)}
			b.store = b.open(nil, "")
			if _, err := ledger.NewStateMachine(t.Context(), ledger.StateOptions{Store: b.store, Spec: b.spec, Who: "test"}); !errors.Is(err, ledger.ErrNoStateTables) {
				t.Errorf("without tables: %v", err)
			}
			if _, err := b.store.Find(t.Context(), "1"); !errors.Is(err, ledger.ErrNoStateTables) {
				t.Errorf("without tables: %v", err)
			}
			plan, err := b.store.PlanTables(t.Context())
			if err != nil || len(plan.Create) != 2 || len(plan.Present) != 0 {
				t.Fatalf("%+v, %v", plan, err)
			}
			for range 2 { // twice is harmless
				b.must(b.store.CreateTables(t.Context(), plan))
			}
			b.must(b.store.VerifyTables(t.Context()))
			for _, c := range []struct{ spoil, mend, want string }{
				{"ALTER TABLE t_idempotent_state MODIFY state VARCHAR(64) NOT NULL", "ALTER TABLE t_idempotent_state MODIFY state VARBINARY(64) NOT NULL", "no column state varbinary(64)"},
				{"ALTER TABLE t_idempotent_state ENGINE=MyISAM", "ALTER TABLE t_idempotent_state ENGINE=InnoDB", "engine MyISAM"},
				{"ALTER TABLE t_idempotent_state ADD UNIQUE KEY u (state)", "ALTER TABLE t_idempotent_state DROP KEY u", "unique keys"},
				{"ALTER TABLE t_idempotent_state DROP PRIMARY KEY, ADD PRIMARY KEY (order_id)", "ALTER TABLE t_idempotent_state DROP PRIMARY KEY, ADD PRIMARY KEY (order_id, biz_type)", "PRIMARY (order_id)"},
				{"CREATE TRIGGER tr BEFORE UPDATE ON t_idempotent_state FOR EACH ROW SET NEW.version = 1", "DROP TRIGGER tr", "trigger tr"},
				{"ALTER TABLE t_idempotent_state_history DROP COLUMN why", "ALTER TABLE t_idempotent_state_history ADD COLUMN why VARBINARY(512) NOT NULL", "no column why"},
			} {
				b.sql(c.spoil)
				if err := b.store.VerifyTables(t.Context()); !errors.Is(err, ledger.ErrUnsafeStateTable) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%s: %v", c.spoil, err)
				}
				b.sql(c.mend)
				b.must(b.store.VerifyTables(t.Context()))
			}
			for name, change := range map[string]func(*ledger.StateOptions){
				"no store":        func(o *ledger.StateOptions) { o.Store = nil },
				"a store to read": func(o *ledger.StateOptions) { o.Store = ledger.NewStateStore(nil, schema.DB) },
				"autocommit":      func(o *ledger.StateOptions) { o.Store = ledger.NewStateStore(schema.DB, schema.DB) },
				"nobody":          func(o *ledger.StateOptions) { o.Who = "" },
				"no machine":      func(o *ledger.StateOptions) { o.Spec = ledger.MachineSpec{} },
				"timeout":         func(o *ledger.StateOptions) { o.StepTimeout = -1 },
			} {
				opts := ledger.StateOptions{Store: b.store, Spec: b.spec, Who: "test"}
				change(&opts)
				if _, err := ledger.NewStateMachine(t.Context(), opts); err == nil {
					t.Errorf("%s: accepted", name)
				}
			}
		})
	}
}
