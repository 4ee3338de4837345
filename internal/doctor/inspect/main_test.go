package inspect

import (
	"os"
	"testing"

	"github.com/idemctl/idemctl/internal/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }
