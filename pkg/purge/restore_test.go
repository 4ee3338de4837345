package purge_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/partition"
	"github.com/idemctl/idemctl/pkg/purge"
)

// oddKeys are bytes that have broken formats.
func oddKeys() []string {
	return []string{
		"A", "a", "A ", "'", `"`, `\`, "\x00", "\x1b[2J", "\n", "\xff", strings.Repeat("\xff", 128), strings.Repeat("x", 128), "é", "e\u0301", "null", "{}", "%s", "\u2028", "\xed\xa0\x80",
	}
}

// Archived, deleted, restored: every row is as it was, but for its expiry; restored once more, all is present.
func TestConformanceRestore(t *testing.T) {
	t.Parallel()
	onShelves(t, func(s *shelf) {
		for i, k := range oddKeys() {
			e := entry{order: k, expired: time.Duration(i%5) * time.Minute, created: time.Duration(i) * time.Millisecond}
			switch i % 3 {
			case 1:
				e.claim, e.print, e.topic, e.part, e.offset = []byte(strings.Repeat("\xff", 16)), []byte(strings.Repeat("\x00", 16)), []byte("order-paid"), 0, 0
			case 2:
				e.topic, e.biz = []byte{}, "SHIPMENT"
			}
			s.put(s.table, e)
		}
		before := s.rows(s.table)
		a := s.archive()
		s.sql("DELETE FROM " + s.table)
		p := s.plan(a, "")
		if p.Target != s.table || !p.Protects || p.Create || p.Month != s.month || p.Rows != int64(len(before)) || !p.Expiry.Equal(p.Now.Add(retention)) {
			s.Errorf("plan %+v", p)
		}
		if n := s.count("SELECT COUNT(*) FROM " + s.table); n != 0 {
			s.Fatalf("the plan has written %d rows", n)
		}
		rep := s.restore(p)
		if rep.Restored != p.Rows || rep.Created {
			s.Errorf("report %+v", rep)
		}
		if got := s.rows(s.table); !slices.Equal(got, before) {
			s.Errorf("rows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(before, "\n"))
		}
		if n := s.count("SELECT COUNT(*) FROM "+s.table+" WHERE expire_at = ?", p.Expiry); n != p.Rows {
			s.Errorf("%d of %d rows expire at %s", n, p.Rows, p.Expiry)
		}
		rep = s.restore(s.plan(a, ""))
		if rep.Present != p.Rows || rep.PresentExpired != 0 {
			s.Errorf("the second report %+v", rep)
		}

		// hazard P19: the next purge selects none of them, on this night or any other before the retention has passed.
		for _, days := range []int{0, 1, 29} {
			sel := s.selection()
			sel.To = p.Now.AddDate(0, 0, days)
			sel.Cutoff = sel.To
			if n := s.count("SELECT COUNT(*) FROM " + s.table + " WHERE " + sel.Where()); n != 0 {
				s.Errorf("after %d days %d restored rows go again", days, n)
			}
		}
	})
}

// Rows that a broken-off purge had archived and not yet deleted are present, and the report says that they go again.
func TestConformanceRestorePresent(t *testing.T) {
	t.Parallel()
	onShelves(t, func(s *shelf) {
		s.fill(s.table, 1000)
		a := s.archive()
		s.sql("DELETE FROM " + s.table + " WHERE src_partition < 4")
		left := s.count("SELECT COUNT(*) FROM " + s.table)
		rep := s.restore(s.plan(a, ""))
		if rep.Present != left || rep.PresentExpired != left || rep.Restored != 1000-left {
			s.Errorf("%d were left: report %+v", left, rep)
		}
	})
}

// The same key with anything else is a conflict: untouched, counted, shown.
func TestConformanceRestoreConflict(t *testing.T) {
	t.Parallel()
	onShelves(t, func(s *shelf) {
		claim, fingerprint := []byte(strings.Repeat("c", 16)), []byte(strings.Repeat("f", 16))
		changes := []string{
			"create_time = create_time + INTERVAL 1000 MICROSECOND", "claim_id = NULL", "fingerprint = REPEAT('g', 16)", "src_topic = 'order-pai'", "src_topic = NULL",
			"src_partition = 4", "src_offset = 10234", "claim_id = REPEAT('d', 16)",
		}
		for i := range changes {
			s.put(s.table, entry{order: fmt.Sprintf("k%d", i), claim: claim, print: fingerprint, topic: []byte("order-paid"), part: 3, offset: 10233})
		}
		s.put(s.table, entry{order: "same", claim: claim})
		s.put(s.table, entry{order: "\xff", biz: "OTHER"})
		a := s.archive()
		s.sql("DELETE FROM " + s.table + " WHERE biz_type = 'OTHER'")
		s.sql("UPDATE " + s.table + " SET expire_at = expire_at + INTERVAL 1 DAY WHERE order_id = 'same'")
		for i, c := range changes {
			s.sql("UPDATE "+s.table+" SET "+c+" WHERE order_id = ?", fmt.Appendf(nil, "k%d", i))
		}
		s.put(s.table, entry{order: "\xff", biz: "COUPON"}) // another biz_type is another key
		before := s.rows(s.table)
		rep := s.restore(s.plan(a, ""))
		if rep.Conflicts != int64(len(changes)) || rep.Present != 1 || rep.Restored != 1 || len(rep.Examples) != len(changes) {
			s.Errorf("report %+v", rep)
		}
		for _, e := range rep.Examples {
			if e.Reason != purge.ConflictContent || e.Table != s.table || !strings.HasPrefix(e.Key.OrderID, "k") {
				s.Errorf("example %+v", e)
			}
		}
		s.sql("DELETE FROM " + s.table + " WHERE biz_type = 'OTHER'")
		if got := s.rows(s.table); !slices.Equal(got, before) {
			s.Errorf("a conflict was touched:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(before, "\n"))
		}
	})
}

// The key ran again in another month after it was purged: restored, it would stand twice (invariant 8).
func TestConformanceRestoreElsewhere(t *testing.T) {
	t.Parallel()
	onShelves(t, func(s *shelf) {
		s.fill(s.table, 700)
		a := s.archive()
		s.sql("DELETE FROM " + s.table)
		current := s.scheme.Table(partition.MonthOf(s.now, time.UTC))
		s.put(current, entry{order: "ORD-0000005", expired: -retention})
		s.put(current, entry{order: "ORD-0000006", biz: "SHIPMENT"}) // another key
		// A month that is held counts as well, under whichever name it has.
		held := s.scheme.Table(s.month+1) + "_held_0a0b0c0d"
		s.put(s.scheme.Table(s.month+1), entry{order: "ORD-0000690"})
		s.sql("RENAME TABLE " + s.scheme.Table(s.month+1) + " TO " + held)
		_, err := partition.UpdateCatalog(s.Context(), s.DB, s.scheme, func(c *partition.Catalog) (bool, error) {
			c.Tables[1].State, c.Tables[1].Also = partition.Moving, held
			c.Tables = append(c.Tables, partition.Table{Month: s.month - 1, Name: "t_flow_gone_held_00000000", State: partition.Held})
			return true, nil
		})
		s.must(err)
		rep := s.restore(s.plan(a, ""))
		if rep.Conflicts != 2 || rep.Restored != 698 {
			s.Errorf("report %+v", rep)
		}
		want := map[string]string{"ORD-0000005": current, "ORD-0000690": held}
		for _, e := range rep.Examples {
			if e.Reason != purge.ConflictElsewhere || want[e.Key.OrderID] != e.Table {
				s.Errorf("example %+v", e)
			}
		}
		if n := s.count("SELECT COUNT(*) FROM " + s.table + " WHERE order_id IN ('ORD-0000005', 'ORD-0000690')"); n != 0 {
			s.Errorf("%d keys stand twice", n)
		}
	})
}

// A claim of the same key in another month that has not ended yet: the restore waits for it, and then it is a conflict.
func TestConformanceRestoreRace(t *testing.T) {
	t.Parallel()
	onShelves(t, func(s *shelf) {
		s.fill(s.table, 50)
		a := s.archive()
		s.sql("DELETE FROM " + s.table)
		p := s.plan(a, "")
		current := s.scheme.Table(partition.MonthOf(s.now, time.UTC))
		tx, err := s.DB.BeginTx(s.Context(), nil)
		s.must(err)
		_, err = tx.ExecContext(s.Context(), "INSERT INTO "+current+" (order_id, biz_type, create_time, expire_at) VALUES ('ORD-0000007', 'COUPON', UTC_TIMESTAMP(3), UTC_TIMESTAMP(3))")
		s.must(err)
		type result struct {
			rep purge.RestoreReport
			err error
		}
		done := make(chan result, 1)
		go func() {
			rep, err := purge.Restore(s.Context(), s.DB, p, nil)
			done <- result{rep, err}
		}()
		s.until("the restore waits for the claim", func(ctx context.Context) bool {
			var n int
			err := s.DB.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.processlist WHERE db = ? AND info LIKE '%LOCK IN SHARE MODE%' AND info LIKE 'SELECT order_id, biz_type FROM%'", s.schema.Name).Scan(&n)
			return err == nil && n > 0
		})
		// Meanwhile the catalog changes: there is one more table to look into.
		late := s.scheme.Table(s.month - 1)
		s.sql("CREATE TABLE " + late + " LIKE " + s.table)
		s.put(late, entry{order: "ORD-0000009"})
		_, err = partition.UpdateCatalog(s.Context(), s.DB, s.scheme, func(c *partition.Catalog) (bool, error) {
			c.Tables = append(c.Tables, partition.Table{Month: s.month - 1, Name: late, State: partition.Live})
			return true, nil
		})
		s.must(err)
		s.must(tx.Commit())
		r := <-done
		s.must(r.err)
		if r.rep.Conflicts != 2 || r.rep.Restored != 48 || r.rep.Examples[0].Reason != purge.ConflictElsewhere {
			s.Errorf("report %+v", r.rep)
		}
		if n := s.count("SELECT COUNT(*) FROM " + s.table + " WHERE order_id IN ('ORD-0000007', 'ORD-0000009')"); n != 0 {
			s.Errorf("%d keys stand twice", n)
		}
	})
}

// Two restores at once: one of them is busy. create and purge hold the same lock.
func TestConformanceRestoreBusy(t *testing.T) {
	t.Parallel()
	onShelves(t, func(s *shelf) {
		s.fill(s.table, 10)
		a := s.archive()
		s.sql("DELETE FROM " + s.table)
		p := s.plan(a, "")
		lock, err := partition.LockMonths(s.Context(), s.DB, s.scheme)
		s.must(err)
		rep, err := purge.Restore(s.Context(), s.DB, p, nil)
		if !errors.Is(err, mysqlx.ErrLockHeld) || rep.Rows != 0 {
			s.Errorf("error %v, report %+v", err, rep)
		}
		s.must(lock.Release(s.Context()))
		s.restore(p)
		lock, err = partition.LockMonths(s.Context(), s.DB, s.scheme)
		s.must(err) // it was given back
		s.must(lock.Release(s.Context()))
	})
}

// Interrupted: what was done is reported, and the next run does the rest.
func TestConformanceRestoreInterrupted(t *testing.T) {
	t.Parallel()
	onShelves(t, func(s *shelf) {
		s.fill(s.table, 1000)
		before := s.rows(s.table)
		a := s.archive()
		s.sql("DELETE FROM " + s.table)
		ctx, cancel := context.WithCancel(s.Context())
		defer cancel()
		rep, err := purge.Restore(ctx, s.DB, s.plan(a, ""), func(r purge.RestoreReport) {
			if r.Rows >= 300 {
				cancel()
			}
		})
		if !errors.Is(err, context.Canceled) || rep.Complete || rep.Rows != rep.Restored || rep.Rows == 0 || rep.Rows == 1000 {
			s.Errorf("error %v, report %+v", err, rep)
		}
		if n := s.count("SELECT COUNT(*) FROM " + s.table); n != rep.Restored {
			s.Errorf("%d rows, reported %d", n, rep.Restored)
		}
		again := s.restore(s.plan(a, ""))
		if again.Present != rep.Restored || again.Restored != 1000-rep.Restored {
			s.Errorf("report %+v", again)
		}
		if !slices.Equal(s.rows(s.table), before) {
			s.Error("the rows are not those of before")
		}
	})
}

// Where an archive may go, and where not.
func TestConformanceRestoreTarget(t *testing.T) {
	t.Parallel()
	onShelves(t, func(s *shelf) {
		s.fill(s.table, 10)
		a := s.archive()
		s.sql("DELETE FROM " + s.table)
		s.sql("CREATE TABLE wrong (order_id VARCHAR(10) PRIMARY KEY)")
		s.sql("CREATE TABLE has_rows LIKE " + s.table)
		held := s.scheme.Table(s.month+1) + "_held_0a0b0c0d"
		_, err := partition.UpdateCatalog(s.Context(), s.DB, s.scheme, func(c *partition.Catalog) (bool, error) {
			c.Tables[1].State, c.Tables[1].Name = partition.Held, held
			return true, nil
		})
		s.must(err)
		opts := func(into string) purge.RestoreOptions {
			return purge.RestoreOptions{Into: into, Retention: retention}
		}
		for into, want := range map[string]error{
			"wrong": purge.ErrInto, s.table + "_bak": purge.ErrInto, "t_flow": purge.ErrInto, "T_FLOW_x": purge.ErrInto, strings.ToUpper(s.table): purge.ErrInto,
			"t_idempotent_control": purge.ErrInto, "T_Idempotent_Run": purge.ErrInto, "a`b": purge.ErrInto, "a b": purge.ErrInto, strings.Repeat("x", 65): purge.ErrInto,
			held: purge.ErrNoMonth, s.scheme.Table(s.month + 1): purge.ErrInto, s.scheme.Table(s.month - 5): purge.ErrInto,
		} {
			_, err := purge.PlanRestore(s.Context(), s.DB, s.scheme, time.UTC, a, opts(into))
			if !errors.Is(err, want) || strings.Contains(err.Error(), "\n") {
				s.Errorf("into %q: %v, want %v", into, err, want)
			}
		}
		if _, err := purge.PlanRestore(s.Context(), s.DB, s.scheme, time.FixedZone("Asia/Shanghai", 8*3600), a, opts("")); !errors.Is(err, partition.ErrTimeZone) {
			s.Errorf("another zone: %v", err)
		}
		if _, err := purge.PlanRestore(s.Context(), s.DB, s.scheme, time.UTC, a, purge.RestoreOptions{}); err == nil {
			s.Error("no retention is accepted")
		}
		other, err := partition.NewScheme("t_other")
		s.must(err)
		if _, err := purge.PlanRestore(s.Context(), s.DB, other, time.UTC, a, opts("")); !errors.Is(err, partition.ErrNoCatalog) {
			s.Errorf("a ledger that is not there: %v", err)
		}
		if _, err := purge.Restore(s.Context(), s.DB, purge.RestorePlan{}, nil); !errors.Is(err, purge.ErrNoRestorePlan) {
			s.Errorf("no plan: %v", err)
		}

		// A table that is no month: made, and protects nothing; a second time it is there.
		for i, into := range []string{"restored_1", "restored_1", "has_rows"} {
			p := s.plan(a, into)
			if p.Protects || p.Month != 0 || p.Create != (i == 0) {
				s.Errorf("plan %+v", p)
			}
			if rep := s.restore(p); rep.Created != (i == 0) || rep.Restored+rep.Present != 10 || (rep.Present == 10) != (i == 1) {
				s.Errorf("into %s: report %+v", into, rep)
			}
		}
		// Another month by name is that month, and its rows are looked for in all the others.
		into := s.scheme.Table(s.month + 2)
		p := s.plan(a, into)
		if !p.Protects || p.Month != s.month+2 {
			s.Errorf("plan %+v", p)
		}
		stale := s.plan(a, "")
		s.restore(p)
		if rep := s.restore(stale); rep.Conflicts != 10 {
			s.Errorf("report %+v", rep)
		}

		// The month's table is lost, then the month is dropped: the plan of before is refused, and so is a new one.
		s.sql("DROP TABLE " + s.table)
		_, lost := purge.PlanRestore(s.Context(), s.DB, s.scheme, time.UTC, a, opts(""))
		_, lostSince := purge.Restore(s.Context(), s.DB, stale, nil)
		if !errors.Is(lost, purge.ErrNoMonth) || !errors.Is(lostSince, purge.ErrNoMonth) {
			s.Errorf("a lost table: %v; %v", lost, lostSince)
		}
		_, err = partition.UpdateCatalog(s.Context(), s.DB, s.scheme, func(c *partition.Catalog) (bool, error) {
			c.Tables = slices.DeleteFunc(c.Tables, func(t partition.Table) bool { return t.Name == s.table })
			return true, nil
		})
		s.must(err)
		if _, err := purge.Restore(s.Context(), s.DB, stale, nil); !errors.Is(err, purge.ErrPlanStale) {
			s.Errorf("a stale plan: %v", err)
		}
		_, err = purge.PlanRestore(s.Context(), s.DB, s.scheme, time.UTC, a, opts(""))
		if !errors.Is(err, purge.ErrNoMonth) || !strings.Contains(err.Error(), "partition create --from "+s.month.String()+" --execute") {
			s.Errorf("no month: %v", err)
		}
	})
}

// A key that stands twice in one archive, since its expiry moved while that was written, is restored once.
func TestConformanceRestoreTwiceInArchive(t *testing.T) {
	t.Parallel()
	onShelves(t, func(s *shelf) {
		s.fill(s.table, 5001) // the second page has one row
		moved := &movingQueryer{DB: s.DB, move: func() {
			for _, at := range []string{"0", "4990"} { // far from where it comes again, and in the same batch
				var id string
				s.must(s.DB.QueryRowContext(s.Context(), "SELECT order_id FROM "+s.table+" ORDER BY expire_at, create_time, order_id, biz_type LIMIT 1 OFFSET "+at).Scan(&id))
				s.sql("UPDATE "+s.table+" SET expire_at = expire_at + INTERVAL 1 SECOND WHERE order_id = ?", id)
			}
		}}
		a, err := purge.WriteArchive(s.Context(), moved, s.selection(), s.options(), 0)
		s.must(err)
		if a.Manifest().Rows != 5003 {
			s.Fatalf("%d rows: those that moved are not there twice", a.Manifest().Rows)
		}
		s.sql("DELETE FROM " + s.table)
		if rep := s.restore(s.plan(a, "")); rep.Restored != 5001 || rep.Present != 2 {
			s.Errorf("report %+v", rep)
		}
	})
}

// movingQueryer changes the table between the first page of rows and the second.
type movingQueryer struct {
	*sql.DB

	pages int
	move  func()
}

func (q *movingQueryer) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if strings.Contains(query, "ORDER BY `expire_at`") {
		q.pages++
		if q.pages == 2 {
			q.move()
		}
	}
	return q.DB.QueryContext(ctx, query, args...)
}

// Any rows at all come back as they were.
func TestConformanceRestoreProperty(t *testing.T) {
	t.Parallel()
	const rounds = 25 // each takes a dozen statements
	onShelves(t, func(s *shelf) {
		for seed := range rounds {
			entries := entriesGenerator().Example(seed)
			s.sql("DELETE FROM " + s.table)
			for _, e := range entries {
				s.put(s.table, e)
			}
			before := s.rows(s.table)
			a := s.archive()
			again, err := purge.OpenArchive(a.Path())
			s.must(err)
			s.sql("DELETE FROM " + s.table)
			s.restore(s.plan(again, ""))
			if got := s.rows(s.table); !slices.Equal(got, before) {
				s.Fatalf("seed %d: rows\n%s\nwant\n%s", seed, strings.Join(got, "\n"), strings.Join(before, "\n"))
			}
		}
	})
}

// entriesGenerator makes rows of different keys.
func entriesGenerator() *rapid.Generator[[]entry] {
	return rapid.Custom(func(t *rapid.T) []entry {
		bytesOrNil := func(label string, least, most int) []byte {
			if rapid.Bool().Draw(t, label+" null") {
				return nil
			}
			return rapid.SliceOfN(rapid.Byte(), least, most).Draw(t, label)
		}
		moment := func(label string) time.Duration {
			return time.Duration(rapid.IntRange(0, 3).Draw(t, label)) * time.Millisecond
		}
		keys := rapid.SliceOfNDistinct(rapid.SliceOfN(rapid.Byte(), 1, 128), 0, 12, func(b []byte) string { return string(b) }).Draw(t, "keys")
		var entries []entry
		for _, k := range keys {
			e := entry{
				order: string(k), biz: rapid.StringMatching(`[A-Za-z0-9_.-]{1,32}`).Draw(t, "biz"), claim: bytesOrNil("claim", 16, 16), print: bytesOrNil("print", 16, 16),
				topic: bytesOrNil("topic", 0, 249), expired: moment("expired"), created: moment("created"),
			}
			if rapid.Bool().Draw(t, "sourced") {
				e.part, e.offset = rapid.Int32().Draw(t, "partition"), rapid.Int64().Draw(t, "offset")
			}
			entries = append(entries, e)
		}
		return entries
	})
}

// A damaged archive restores nothing.
func TestRestoreDamaged(t *testing.T) {
	t.Parallel()
	s := newShelf(t, testenv.MySQL(t))
	s.fill(s.table, 5000) // the damage lies far behind the first batch
	a := s.archive()
	s.sql("DELETE FROM " + s.table)
	p := s.plan(a, "")
	truncate(t, a.Path())
	_, err := purge.PlanRestore(t.Context(), s.DB, s.scheme, time.UTC, a, purge.RestoreOptions{Retention: retention})
	fault(t, err, purge.FaultTruncated)
	_, err = purge.Restore(t.Context(), s.DB, p, nil)
	fault(t, err, purge.FaultTruncated)
	if n := s.count("SELECT COUNT(*) FROM " + s.table); n != 0 {
		t.Errorf("%d rows", n)
	}
}
