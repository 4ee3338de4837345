package ledger_test

import (
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/idemctl/idemctl/internal/lab"
	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/ledger/ledgertest"
	"github.com/idemctl/idemctl/pkg/partition"
)

func TestConformanceStore(t *testing.T) {
	t.Parallel()
	for _, db := range testenv.Databases(t) {
		t.Run(db.Name, func(t *testing.T) {
			t.Parallel()
			ledgertest.Store(t, db)
		})
	}
}

// open opens a store on a server of the test's own; its ledger need not exist.
func open(t *testing.T, dsn string) *ledger.Store {
	t.Helper()
	tx, read, err := ledger.OpenConnections(dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = tx.Close(), read.Close() })
	scheme, err := partition.NewScheme(ledgertest.Prefix)
	if err != nil {
		t.Fatal(err)
	}
	return ledger.NewStore(tx, read, scheme)
}

// A replica, or a primary that was demoted: nothing may be claimed on it.
func TestStoreRefusesReadOnlyServer(t *testing.T) {
	t.Parallel()
	server := testenv.OwnMySQL(t)
	store := open(t, server.DSN("mysql"))
	if err := store.Verify(t.Context()); err != nil {
		t.Fatalf("a writable server: %v", err)
	}
	admin, err := mysqlx.Open(mysqlx.Options{DSN: server.DSN("mysql")})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	set := func(value string) {
		t.Helper()
		if _, err := admin.ExecContext(t.Context(), "SET GLOBAL read_only = "+value); err != nil {
			t.Fatal(err)
		}
	}
	set("ON")
	if err := store.Verify(t.Context()); !errors.Is(err, mysqlx.ErrNotPrimary) {
		t.Errorf("error %v, want ErrNotPrimary", err)
	}
	set("OFF")
	if err := store.Verify(t.Context()); err != nil {
		t.Errorf("writable again: %v", err)
	}
}

// galeraLibrary is where Debian's package galera-4 puts it.
const galeraLibrary = "/usr/lib/galera/libgalera_smm.so"

// Invariant 8: a lock on one node of a Galera cluster is not seen on another. One node is enough to be known by.
func TestStoreRefusesGalera(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(galeraLibrary); err != nil {
		t.Skipf("Galera is not on this machine: %v", err)
	}
	server, err := lab.MariaDB(t.Context(), lab.LaunchOptions{
		Host: lab.NewHost(os.Getenv), Logger: slog.New(slog.DiscardHandler),
		Args: []string{
			"--wsrep-on=ON", "--wsrep-provider=" + galeraLibrary, "--wsrep-cluster-address=gcomm://", "--wsrep-node-address=127.0.0.1",
			"--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:0;ist.recv_addr=127.0.0.1:0;gcache.size=8M",
			"--binlog-format=ROW", "--innodb-autoinc-lock-mode=2",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := open(t, server.DSN("mysql")).Verify(t.Context()); !errors.Is(err, mysqlx.ErrMultiPrimary) {
		t.Errorf("error %v, want ErrMultiPrimary", err)
	}
}

// A DSN that cannot be used is refused at once, and no error shows its password.
func TestOpenConnectionsRefuses(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{"", "s3cret", "idem:s3cret@tcp(127.0.0.1:1)", "idem:s3cret@tcp(127.0.0.1:1)/", "idem:s3cret@tcp(127.0.0.1:1)/shop?parseTime=maybe"} {
		tx, read, err := ledger.OpenConnections(dsn)
		if err == nil || tx != nil || read != nil {
			t.Errorf("%q: %v, %v, %v", dsn, tx, read, err)
			continue
		}
		if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: the error shows the password: %v", dsn, err)
		}
	}
	// It opens nothing by itself: who is away is found out by the first question, which shows no password either.
	store := open(t, "idem:s3cret@tcp(127.0.0.1:1)/shop?timeout=1s")
	if err := store.Verify(t.Context()); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("error %v", err)
	}
}
