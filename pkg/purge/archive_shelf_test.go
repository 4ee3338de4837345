package purge_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/partition"
	"github.com/idemctl/idemctl/pkg/purge"
)

const retention = 30 * 24 * time.Hour

// shelf is a ledger of one test's own, with a past month to archive from and a folder for archives.
type shelf struct {
	*testing.T

	DB     *sql.DB
	schema *testenv.Schema
	scheme partition.Scheme
	now    time.Time // the database's
	month  partition.Month
	table  string // of month
	dir    string
	runs   int
}

// onShelves runs a test on every database.
func onShelves(t *testing.T, test func(s *shelf)) {
	t.Helper()
	for _, db := range testenv.Databases(t) {
		t.Run(db.Name, func(t *testing.T) {
			t.Parallel()
			test(newShelf(t, db.Schema(t)))
		})
	}
}

func newShelf(t *testing.T, schema *testenv.Schema) *shelf {
	t.Helper()
	s := &shelf{T: t, DB: schema.DB, schema: schema, dir: t.TempDir()}
	var err error
	s.scheme, err = partition.NewScheme("t_flow")
	s.must(err)
	s.now, err = mysqlx.Now(t.Context(), schema.DB)
	s.must(err)
	current := partition.MonthOf(s.now, time.UTC)
	s.month = current - 3
	s.table = s.scheme.Table(s.month)
	m := partition.NewManager(s.DB, s.scheme, time.UTC)
	p, err := m.PlanCreate(t.Context(), partition.CreateRequest{From: s.month})
	s.must(err)
	_, err = m.Create(t.Context(), p)
	s.must(err)
	return s
}

func (s *shelf) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *shelf) sql(query string, args ...any) {
	s.Helper()
	if _, err := s.DB.ExecContext(s.Context(), query, args...); err != nil {
		s.Fatalf("%s: %v", query, err)
	}
}

func (s *shelf) count(query string, args ...any) int64 {
	s.Helper()
	var n int64
	if err := s.DB.QueryRowContext(s.Context(), query, args...).Scan(&n); err != nil {
		s.Fatalf("%s: %v", query, err)
	}
	return n
}

// rows are all rows of a table as text, without the expiry, in order of their key.
func (s *shelf) rows(table string) []string {
	s.Helper()
	rows, err := s.DB.QueryContext(s.Context(), `SELECT CONCAT_WS('|', HEX(order_id), HEX(biz_type), create_time, IFNULL(HEX(claim_id), 'N'), IFNULL(HEX(fingerprint), 'N'),
		IFNULL(HEX(src_topic), 'N'), IFNULL(src_partition, 'N'), IFNULL(src_offset, 'N')) FROM `+table+` ORDER BY order_id, biz_type`)
	s.must(err)
	defer rows.Close()
	var all []string
	for rows.Next() {
		var r string
		s.must(rows.Scan(&r))
		all = append(all, r)
	}
	s.must(rows.Err())
	return all
}

// entry is a row that expired so long before now.
type entry struct {
	biz, order           string
	created              time.Duration // before now
	expired              time.Duration // before now
	claim, print         []byte
	topic                []byte
	part, offset         any
	createdAt, expiresAt time.Time
}

func (s *shelf) put(table string, e entry) {
	s.Helper()
	if e.biz == "" {
		e.biz = "COUPON"
	}
	var topic any
	if e.topic != nil {
		topic = e.topic
	}
	var claim, fingerprint any
	if e.claim != nil {
		claim = e.claim
	}
	if e.print != nil {
		fingerprint = e.print
	}
	created, expires := e.createdAt, e.expiresAt
	if created.IsZero() {
		created = s.now.Add(-e.created - 40*24*time.Hour)
	}
	if expires.IsZero() {
		expires = s.now.Add(-e.expired - time.Hour)
	}
	s.sql("INSERT INTO "+table+" (order_id, biz_type, create_time, expire_at, claim_id, fingerprint, src_topic, src_partition, src_offset) VALUES (?,?,?,?,?,?,?,?,?)",
		[]byte(e.order), []byte(e.biz), created, expires, claim, fingerprint, topic, e.part, e.offset)
}

// fill puts n rows with one and the same expiry.
func (s *shelf) fill(table string, n int) {
	s.Helper()
	s.must(mysqlx.WithTx(s.Context(), s.DB, func(tx *sql.Tx) error {
		for from := 0; from < n; from += 1000 {
			var b strings.Builder
			for i := from; i < min(n, from+1000); i++ {
				if i > from {
					b.WriteByte(',')
				}
				fmt.Fprintf(&b, "('ORD-%07d','COUPON','%s','%s',x'%032x',NULL,'order-paid',%d,%d)", (i*7919)%n,
					s.now.Add(-40*24*time.Hour-time.Duration(i%3)*time.Second).Format("2006-01-02 15:04:05.000"),
					s.now.Add(-time.Hour).Format("2006-01-02 15:04:05.000"), i, i%8, i)
			}
			if _, err := tx.ExecContext(s.Context(), "INSERT INTO "+table+" (order_id, biz_type, create_time, expire_at, claim_id, fingerprint, src_topic, src_partition, src_offset) VALUES "+b.String()); err != nil {
				return err
			}
		}
		return nil
	}))
}

func (s *shelf) selection() purge.Selection {
	return purge.Selection{Table: s.table, Columns: partition.OwnColumns(), To: s.now, Cutoff: s.now}
}

func (s *shelf) options() purge.ArchiveOptions {
	s.runs++
	return purge.ArchiveOptions{
		Dir: s.dir, Run: fmt.Sprintf("%08x", s.runs), Tool: "test", Prefix: s.scheme.Prefix(), Month: s.month, LedgerID: "0123456789abcdef", Server: "test",
		FreeSpace: func(string) (uint64, error) { return math.MaxUint64, nil },
	}
}

func (s *shelf) archive() *purge.Archive {
	s.Helper()
	a, err := purge.WriteArchive(s.Context(), s.DB, s.selection(), s.options(), 0)
	s.must(err)
	return a
}

// lines are those of the compressed file, read with nothing of this package.
func (s *shelf) lines(a *purge.Archive) []string {
	s.Helper()
	f, err := os.Open(a.Path())
	s.must(err)
	defer f.Close()
	z, err := zstd.NewReader(f)
	s.must(err)
	defer z.Close()
	b, err := io.ReadAll(z)
	s.must(err)
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

// victims reads all rows.
func (s *shelf) victims(a *purge.Archive, page int) []purge.Victim {
	s.Helper()
	r, err := a.Rows(s.Context())
	s.must(err)
	defer r.Close()
	var all []purge.Victim
	for {
		v, err := r.Next(page)
		if errors.Is(err, io.EOF) {
			return all
		}
		s.must(err)
		all = append(all, v...)
	}
}

// files are what is in the archive folder.
func (s *shelf) files() []string {
	s.Helper()
	entries, err := os.ReadDir(s.dir)
	s.must(err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func (s *shelf) plan(a *purge.Archive, into string) purge.RestorePlan {
	s.Helper()
	p, err := purge.PlanRestore(s.Context(), s.DB, s.scheme, time.UTC, a, purge.RestoreOptions{Into: into, Retention: retention})
	s.must(err)
	return p
}

func (s *shelf) restore(p purge.RestorePlan) purge.RestoreReport {
	s.Helper()
	rep, err := purge.Restore(s.Context(), s.DB, p, nil)
	s.must(err)
	if !rep.Complete || rep.Rows != p.Rows || rep.Rows != rep.Restored+rep.Present+rep.Conflicts {
		s.Errorf("the report does not add up: %+v", rep)
	}
	return rep
}

func (s *shelf) path(name string) string { return filepath.Join(s.dir, name) }

// fault insists that err is an archive's error with this fault, told on one line.
func fault(t *testing.T, err error, want purge.Fault) {
	t.Helper()
	got, ok := errors.AsType[*purge.ArchiveError](err)
	if !ok || got.Fault != want {
		t.Errorf("error %v, want the fault %q", err, want)
		return
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("more than one line: %q", err)
	}
}

// until polls a condition of the server.
func (s *shelf) until(what string, met func(ctx context.Context) bool) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !met(ctx) {
		select {
		case <-ctx.Done():
			s.Fatalf("waited in vain until %s", what)
		case <-tick.C:
		}
	}
}

// truncate cuts the last byte off a file.
func truncate(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err == nil {
		err = os.Truncate(path, info.Size()-1)
	}
	if err != nil {
		t.Fatal(err)
	}
}
