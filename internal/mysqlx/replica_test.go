package mysqlx_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/idemctl/idemctl/internal/lab"
	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/internal/testenv"
)

func TestConformanceReplicaLagOfAPrimary(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, s *testenv.Schema) {
		if lag, known, err := mysqlx.ReplicaLag(t.Context(), s.DB); !errors.Is(err, mysqlx.ErrNotReplica) || known || lag != 0 {
			t.Errorf("lag %v, known %v, %v; want ErrNotReplica", lag, known, err)
		}
	})
}

// replicaWords are the statements of one product.
type replicaWords struct {
	start  func(context.Context, lab.LaunchOptions) (*lab.Server, error)
	args   []string
	source string // host, port; an optional channel follows
	second string
	delay  string
	run    []string
	stop   string
}

// hazard P12: a lag that the replica itself does not know is told apart from none at all.
func TestConformanceReplicaLag(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]replicaWords{
		"MariaDB": {
			start:  lab.MariaDB,
			source: "CHANGE MASTER TO MASTER_HOST='%s', MASTER_PORT=%s, MASTER_USER='root', MASTER_USE_GTID=slave_pos",
			second: "CHANGE MASTER 'second' TO MASTER_HOST='127.0.0.1', MASTER_PORT=1, MASTER_USER='root'",
			delay:  "CHANGE MASTER TO MASTER_DELAY=3600", run: []string{"START SLAVE"}, stop: "STOP SLAVE",
		},
		"MySQL": {
			start: lab.MySQL, args: []string{"--replica-preserve-commit-order=OFF"},
			source: "CHANGE REPLICATION SOURCE TO SOURCE_HOST='%s', SOURCE_PORT=%s, SOURCE_USER='root', GET_SOURCE_PUBLIC_KEY=1",
			second: "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=1, SOURCE_USER='root' FOR CHANNEL 'second'",
			delay:  "CHANGE REPLICATION SOURCE TO SOURCE_DELAY=3600", run: []string{"START REPLICA FOR CHANNEL ''"}, stop: "STOP REPLICA FOR CHANNEL ''",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := startReplicated(t, w, "1")
			replica := startReplicated(t, w, "2")
			from := pool(t, source)
			db := pool(t, replica)
			host, port, err := net.SplitHostPort(source.Addr)
			if err != nil {
				t.Fatal(err)
			}
			run(t, db, fmt.Sprintf(w.source, host, port))
			if lag, known, err := mysqlx.ReplicaLag(t.Context(), db); err != nil || known || lag != 0 {
				t.Errorf("before it starts: lag %v, known %v, %v; want unknown", lag, known, err)
			}
			run(t, db, w.run...)
			run(t, from, "CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY) ENGINE=InnoDB")
			waitLag(t, db, "caught up", func(_ time.Duration, known bool) bool {
				var n int
				err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'shop'").Scan(&n)
				return err == nil && n == 1 && known
			})
			run(t, db, w.stop)
			waitLag(t, db, "unknown when stopped", func(_ time.Duration, known bool) bool { return !known })
			run(t, db, w.delay)
			run(t, db, w.run...)
			run(t, from, "INSERT INTO shop.t VALUES (1)")
			waitLag(t, db, "behind", func(lag time.Duration, known bool) bool { return known && lag >= time.Second })
			// A second channel that has never run makes the whole unknown, however well the first does.
			run(t, db, w.second)
			waitLag(t, db, "unknown by its second channel", func(lag time.Duration, known bool) bool { return !known && lag == 0 })
		})
	}
}

func startReplicated(t *testing.T, w replicaWords, id string) *lab.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s, err := w.start(ctx, lab.LaunchOptions{Host: lab.NewHost(os.Getenv), Args: append([]string{"--log-bin=b", "--server-id=" + id}, w.args...)})
	if errors.Is(err, lab.ErrNotFound) && os.Getenv(testenv.EnvRequireAll) != "1" {
		t.Skipf("this machine does not have it: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func pool(t *testing.T, s *lab.Server) *sql.DB {
	t.Helper()
	return open(t, mysqlx.Options{DSN: s.DSN("mysql"), MaxOpen: 2})
}

func run(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// waitLag polls the replica's status until it is as wanted.
func waitLag(t *testing.T, db *sql.DB, what string, ok func(time.Duration, bool) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		lag, known, err := mysqlx.ReplicaLag(ctx, db)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if ok(lag, known) {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: still lag %v, known %v", what, lag, known)
		case <-tick.C:
		}
	}
}
