package partition_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/partition"
)

const moveRun = "0badcafe"

// mover is a mover over a lock of its own, given back when the test ends.
func (b *bench) mover() (*partition.Mover, *sql.Conn) {
	b.Helper()
	lock, err := partition.LockMonths(b.Context(), b.DB, b.scheme)
	b.must(err)
	b.Cleanup(func() { _ = lock.Release(b.Context()) })
	return partition.NewMover(lock.Conn(), b.scheme, b.zone), lock.Conn()
}

// past makes a ledger of three months, vouched for, with one row in the oldest, and returns the oldest.
func (b *bench) past() partition.Table {
	b.Helper()
	b.create(partition.CreateRequest{From: b.month - 2, MemorySince: b.now.AddDate(-1, 0, 0)})
	_, err := partition.Register(b.Context(), b.DB, b.scheme, "COUPON", time.Time{})
	b.must(err)
	b.entry(b.table(-2), "A-1", (b.month - 2).Start(b.zone), b.now)
	return partition.Table{Month: b.month - 2, Name: b.table(-2), State: partition.Live}
}

func (b *bench) held() string { return b.table(-2) + "_held_" + moveRun }

// wantEntry wants the oldest month's listing to be this, and returns the catalog.
func (b *bench) wantEntry(want partition.Table) partition.Catalog {
	b.Helper()
	cat := b.catalog()
	if len(cat.Tables) != 3 || cat.Tables[0] != want {
		b.Errorf("listed %+v, want %+v first of 3", cat.Tables, want)
	}
	return cat
}

func TestConformanceHoldAndPutBack(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		live := b.past()
		before := b.catalog()
		m, _ := b.mover()
		held, err := m.Hold(b.Context(), live, moveRun)
		b.must(err)
		want := partition.Table{Month: live.Month, Name: b.held(), State: partition.Held}
		cat := b.wantEntry(want)
		if held != want || cat.Generation != before.Generation+2 {
			b.Errorf("held %+v, generation %d after %d; want one more for the listing of both names, one for the end", held, cat.Generation, before.Generation)
		}
		if b.exists(live.Name) || b.count("SELECT COUNT(*) FROM "+b.held()) != 1 {
			b.Error("the table is not where the catalog says")
		}
		if _, home := cat.Home(live.Month); home {
			b.Error("a held month is a home")
		}
		if p := b.plan(partition.CreateRequest{}); !p.Empty() || p.Present != 3 {
			b.Errorf("a held month is made again: %+v", p)
		}
		back, err := m.PutBack(b.Context(), held)
		b.must(err)
		cat = b.wantEntry(live)
		if back != live || cat.Generation != before.Generation+4 || !cat.LostUntil.Equal(before.LostUntil) {
			b.Errorf("put back %+v: %+v", back, cat)
		}
		if b.count("SELECT COUNT(*) FROM "+live.Name) != 1 {
			b.Error("the row is gone")
		}
	})
}

// The horizon rises before the table goes: to the rows' times by biz_type, and to the month's end for all.
func TestConformanceDrop(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		live := b.past()
		m, conn := b.mover()
		held, err := m.Hold(b.Context(), live, moveRun)
		b.must(err)
		end, rows := live.Month.End(b.zone), live.Month.Start(b.zone).Add(time.Hour)
		purged := map[string]time.Time{"COUPON": rows, "SHIPMENT": end.Add(time.Hour)}
		b.must(m.Drop(b.Context(), held, purged))
		cat := b.catalog()
		if len(cat.Tables) != 2 || !cat.LostUntil.Equal(end) || !cat.Biz["COUPON"].Purged.Equal(rows) || !cat.Biz["SHIPMENT"].Purged.Equal(end.Add(time.Hour)) {
			b.Errorf("after the drop: %+v", cat)
		}
		if b.exists(b.held()) || b.exists(live.Name) {
			b.Error("the table is still there")
		}
		if h, _ := cat.Horizon("COUPON"); h.Before(end) {
			b.Errorf("horizon %s, want the month's end %s at least", h, end)
		}
		// A month that was dropped is no hole: nothing that belongs there can be executed. Asked for by name it is made.
		if p := b.plan(partition.CreateRequest{}); !p.Empty() {
			b.Errorf("the dropped month is made again: %+v", p)
		}
		b.sql("CREATE TABLE " + b.table(-4) + " LIKE " + b.table(0)) // an older month than the one dropped
		release(b, conn)
		b.create(partition.CreateRequest{})
		b.wantSteps(b.plan(partition.CreateRequest{From: live.Month}), "create "+live.Name)
		if p := b.plan(partition.CreateRequest{}); len(p.Steps) != 0 {
			b.Errorf("the dropped month is made again: %+v", p.Steps)
		}

		// Lower times change nothing.
		after, err := partition.RaiseHorizon(b.Context(), conn, b.scheme, map[string]time.Time{"COUPON": rows.Add(-time.Hour)})
		b.must(err)
		if !after.Biz["COUPON"].Purged.Equal(rows) || after.Generation != b.catalog().Generation {
			b.Errorf("lowered: %+v", after)
		}
	})
}

// hazard P18: a horizon in the future would refuse every message until then, and nothing is dropped for it either.
func TestConformanceHorizonOnlyUp(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		live := b.past()
		m, conn := b.mover()
		future := map[string]time.Time{"COUPON": b.now.AddDate(70, 0, 0)}
		if _, err := partition.RaiseHorizon(b.Context(), conn, b.scheme, future); !errors.Is(err, partition.ErrHorizonFuture) {
			b.Errorf("error %v, want ErrHorizonFuture", err)
		}
		held, err := m.Hold(b.Context(), live, moveRun)
		b.must(err)
		if err := m.Drop(b.Context(), held, future); !errors.Is(err, partition.ErrHorizonFuture) || !b.exists(b.held()) {
			b.Errorf("error %v, want ErrHorizonFuture and the table still there", err)
		}
		// A part of a millisecond rounds up: the row at 12:00:00.001 is forgotten by a horizon of .0005 rounded down.
		at := b.now.Add(-time.Hour).Truncate(time.Second)
		cat, err := partition.RaiseHorizon(b.Context(), conn, b.scheme, map[string]time.Time{"COUPON": at.Add(500 * time.Microsecond)})
		b.must(err)
		if got := cat.Biz["COUPON"].Purged; !got.Equal(at.Add(time.Millisecond)) {
			b.Errorf("raised to %s", got)
		}
	})
}

// hazard P17: the current month and later ones are neither held nor dropped. Nor is anything that the catalog does not list
// as the caller has it.
func TestConformanceMoveRefused(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		live := b.past()
		m, _ := b.mover()
		before := b.catalog()
		month := func(n int, name string, state partition.State) partition.Table {
			return partition.Table{Month: b.month + partition.Month(n), Name: name, State: state}
		}
		for what, c := range map[string]struct {
			err  error
			want error
		}{
			"current":                 {second(m.Hold(b.Context(), month(0, b.table(0), partition.Live), moveRun)), partition.ErrMonthNotOver},
			"future":                  {second(m.Hold(b.Context(), month(1, b.table(1), partition.Live), moveRun)), partition.ErrMonthNotOver},
			"unlisted":                {second(m.Hold(b.Context(), month(-5, b.table(-5), partition.Live), moveRun)), partition.ErrTableChanged},
			"other name":              {second(m.Hold(b.Context(), month(-2, b.table(-1), partition.Live), moveRun)), partition.ErrTableChanged},
			"not held":                {second(m.PutBack(b.Context(), live)), partition.ErrTableChanged},
			"held by no one":          {second(m.PutBack(b.Context(), month(-2, b.held(), partition.Held))), partition.ErrTableChanged},
			"drop live":               {m.Drop(b.Context(), live, nil), partition.ErrTableChanged},
			"drop what is not listed": {m.Drop(b.Context(), month(-2, live.Name, partition.Held), nil), partition.ErrTableChanged},
			"drop current":            {m.Drop(b.Context(), month(0, b.table(0), partition.Held), nil), partition.ErrMonthNotOver},
		} {
			if !errors.Is(c.err, c.want) {
				b.Errorf("%s: %v, want %v", what, c.err, c.want)
			}
		}
		for _, run := range []string{"", "0badcaf", "0BADCAFE", "0badcafe0", "x; DROP T"} {
			if _, err := m.Hold(b.Context(), live, run); err == nil {
				b.Errorf("run %q is taken", run)
			}
		}
		if after := b.catalog(); after.Generation != before.Generation || !b.exists(live.Name) || !b.exists(b.table(0)) {
			b.Errorf("a refused move has changed something: %+v", after)
		}
	})
}

func second[T any](_ T, err error) error { return err }

// Whatever a crash left, Settle lists what is true.
func TestConformanceSettle(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		live := b.past()
		held := partition.Table{Month: live.Month, Name: b.held(), State: partition.Held}
		out := partition.Table{Month: live.Month, Name: live.Name, State: partition.Moving, Also: b.held()}
		back := partition.Table{Month: live.Month, Name: b.held(), State: partition.Moving, Also: live.Name}
		m, _ := b.mover()
		for _, c := range []struct {
			between partition.Table
			there   string
			want    partition.Table
		}{{out, live.Name, live}, {out, b.held(), held}, {back, b.held(), held}, {back, live.Name, live}} {
			if !b.exists(c.there) {
				other := live.Name
				if c.there == live.Name {
					other = b.held()
				}
				b.sql("RENAME TABLE " + other + " TO " + c.there)
			}
			b.change(func(cat *partition.Catalog) { cat.Tables[0] = c.between })
			got, there, err := m.Settle(b.Context(), c.between)
			if err != nil || !there || got != c.want {
				b.Errorf("%+v, the table is %s: settled to %+v, %v, %v; want %+v", c.between, c.there, got, there, err, c.want)
			}
			b.wantEntry(c.want)
		}
		if got, there, err := m.Settle(b.Context(), live); err != nil || !there || got != live {
			b.Errorf("a table at rest: %+v, %v, %v", got, there, err)
		}

		// Under both: nobody can say which is the month.
		b.sql("CREATE TABLE " + b.held() + " LIKE " + live.Name)
		b.change(func(cat *partition.Catalog) { cat.Tables[0] = out })
		_, _, err := m.Settle(b.Context(), out)
		if !errors.Is(err, partition.ErrTwoTables) || !strings.Contains(err.Error(), live.Name) || !strings.Contains(err.Error(), b.held()) {
			b.Errorf("error %v, want ErrTwoTables and both names", err)
		}
		b.wantEntry(out)

		// Under neither: it is lost, and the horizon says so.
		b.sql("DROP TABLE " + b.held() + ", " + live.Name)
		if _, there, err := m.Settle(b.Context(), out); err != nil || there {
			b.Errorf("a table that is gone: %v, %v", there, err)
		}
		if cat := b.catalog(); len(cat.Tables) != 2 || !cat.LostUntil.Equal(live.Month.End(b.zone)) {
			b.Errorf("after the loss: %+v", cat)
		}
	})
}

// A table that this user may not see is not lost: Settle leaves everything as it is.
func TestConformanceSettleHidden(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		live := b.past()
		out := partition.Table{Month: live.Month, Name: live.Name, State: partition.Moving, Also: b.held()}
		b.change(func(cat *partition.Catalog) { cat.Tables[0] = out })
		db := b.as("SELECT, UPDATE ON " + b.schema + ".t_idempotent_control")
		conn, err := db.Conn(b.Context())
		b.must(err)
		defer conn.Close()
		if _, _, err := partition.NewMover(conn, b.scheme, b.zone).Settle(b.Context(), out); err == nil || !strings.Contains(err.Error(), live.Name) {
			b.Errorf("error %v, want one that names %s", err, live.Name)
		}
		b.wantEntry(out)
	})
}

// A rename that is refused leaves the catalog saying what is true.
func TestConformanceMoveWithoutPrivilege(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		live := b.past()
		db := b.as("SELECT, INSERT, UPDATE ON " + b.schema + ".*")
		lock, err := partition.LockMonths(b.Context(), db, b.scheme)
		b.must(err)
		m := partition.NewMover(lock.Conn(), b.scheme, b.zone)
		_, err = m.Hold(b.Context(), live, moveRun)
		if mysqlx.Number(err) != mysqlx.ErrTableAccessDenied {
			b.Errorf("error %v, want 1142", err)
		}
		b.wantEntry(live)
		b.must(lock.Release(b.Context()))

		rooted, _ := b.mover()
		held, err := rooted.Hold(b.Context(), live, moveRun)
		b.must(err)
		conn, err := db.Conn(b.Context())
		b.must(err)
		defer conn.Close()
		m = partition.NewMover(conn, b.scheme, b.zone)
		if _, err := m.PutBack(b.Context(), held); mysqlx.Number(err) != mysqlx.ErrTableAccessDenied {
			b.Errorf("error %v, want 1142", err)
		}
		b.wantEntry(held)
		// The horizon is raised before the drop that fails: higher than need be is safe.
		if err := m.Drop(b.Context(), held, nil); mysqlx.Number(err) != mysqlx.ErrTableAccessDenied {
			b.Errorf("error %v, want 1142", err)
		}
		if cat := b.wantEntry(held); !cat.LostUntil.Equal(live.Month.End(b.zone)) {
			b.Errorf("lost until %s", cat.LostUntil)
		}
		// The name that it would get back is taken.
		b.sql("CREATE TABLE " + live.Name + " LIKE " + held.Name)
		if _, err := rooted.PutBack(b.Context(), held); mysqlx.Number(err) != mysqlx.ErrTableExists {
			b.Errorf("error %v, want 1050", err)
		}
		b.wantEntry(held)
	})
}

// hazard P9: a long transaction on the month: the rename gives up, names it, and the month is as before.
func TestConformanceMoveBlocked(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		live := b.past()
		release := b.block(live.Name)
		m, _ := b.mover()
		_, err := m.Hold(b.Context(), live, moveRun)
		blocked, ok := errors.AsType[*mysqlx.BlockedError](err)
		if !ok || !errors.Is(err, mysqlx.ErrBlocked) || !strings.Contains(blocked.Statement, live.Name) || blocked.Attempts < 2 {
			b.Fatalf("error %v, want a BlockedError of several attempts", err)
		}
		b.wantEntry(live)
		release()
		_, err = m.Hold(b.Context(), live, moveRun)
		b.must(err)
	})
}

// as opens the schema as a user with these privileges alone.
func (b *bench) as(grant string) *sql.DB {
	b.Helper()
	user := "t_" + b.schema[len(b.schema)-12:]
	b.sql("CREATE USER '" + user + "'@'%' IDENTIFIED BY 'secret'")
	b.Cleanup(func() { _, _ = b.DB.ExecContext(context.WithoutCancel(b.Context()), "DROP USER '"+user+"'@'%'") })
	b.sql("GRANT " + grant + " TO '" + user + "'@'%'")
	dsn, err := mysql.ParseDSN(b.dsn)
	b.must(err)
	dsn.User, dsn.Passwd = user, "secret"
	db, err := mysqlx.Open(mysqlx.Options{DSN: dsn.FormatDSN()})
	b.must(err)
	b.Cleanup(func() { _ = db.Close() })
	return db
}

// block opens a transaction that holds the table's metadata lock until release is called.
func (b *bench) block(table string) (release func()) {
	b.Helper()
	tx, err := b.DB.BeginTx(b.Context(), nil)
	b.must(err)
	b.Cleanup(func() { _ = tx.Rollback() })
	var n int
	b.must(tx.QueryRowContext(b.Context(), "SELECT COUNT(*) FROM "+table).Scan(&n))
	return func() { b.must(tx.Rollback()) }
}

// until polls a condition.
func (b *bench) until(what string, cond func() bool) {
	b.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-b.Context().Done():
			b.Fatalf("waiting for %s: %v", what, b.Context().Err())
		case <-tick.C:
		}
	}
}

func states(c partition.Catalog) []partition.State {
	var s []partition.State
	for _, t := range c.Tables {
		s = append(s, t.State)
	}
	return s
}

func hasState(c partition.Catalog, s partition.State) bool { return slices.Contains(states(c), s) }
