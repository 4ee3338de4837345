package ledger_test

import (
	"os"
	"testing"

	"github.com/idemctl/idemctl/internal/testenv"
)

func TestMain(m *testing.M) {
	if dieAt := os.Getenv(envDieAt); dieAt != "" {
		dieInTheMiddle(dieAt) // never returns
	}
	os.Exit(testenv.Main(m))
}
