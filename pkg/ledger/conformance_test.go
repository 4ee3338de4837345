package ledger_test

import (
	"context"
	"testing"

	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/ledger/ledgertest"
)

func oneByOne(ctx context.Context, g *ledger.Guard, m ledger.Message, e ledger.Effect) (ledger.Result, error) {
	return g.Do(ctx, m, e)
}

func TestConformanceGuard(t *testing.T) {
	t.Parallel()
	server := testenv.Redises(t)[0]
	for _, db := range testenv.Databases(t) {
		t.Run(db.Name, func(t *testing.T) {
			t.Parallel()
			t.Run("one message", func(t *testing.T) { t.Parallel(); ledgertest.Guard(t, db, server, oneByOne) })
			t.Run("in a batch", func(t *testing.T) { t.Parallel(); ledgertest.Guard(t, db, server, ledgertest.AmongOthers) })
			t.Run("batches", func(t *testing.T) { t.Parallel(); ledgertest.Batch(t, db, server) })
		})
	}
}
