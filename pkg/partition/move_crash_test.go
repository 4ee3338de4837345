package partition_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/idemctl/idemctl/pkg/partition"
)

// crash is a mover whose connection is killed at a step that the test holds it at.
type crash struct {
	*bench

	mover *partition.Mover
	id    int64
	done  chan error
}

func (b *bench) crash() *crash {
	b.Helper()
	lock, err := partition.LockMonths(b.Context(), b.DB, b.scheme)
	b.must(err)
	b.Cleanup(func() { _ = lock.Release(b.Context()) })
	c := &crash{bench: b, mover: partition.NewMover(lock.Conn(), b.scheme, b.zone), done: make(chan error, 1)}
	b.must(lock.Conn().QueryRowContext(b.Context(), "SELECT CONNECTION_ID()").Scan(&c.id))
	return c
}

// kill ends the connection, waits for the mover to notice, and for its lock to be free.
func (c *crash) kill() {
	c.Helper()
	c.sql("KILL ?", c.id)
	if err := <-c.done; err == nil {
		c.Error("the mover has not noticed that its connection is gone")
	}
	c.until("the end of the connection", func() bool {
		return c.count("SELECT COUNT(*) FROM information_schema.processlist WHERE id = ?", c.id) == 0
	})
}

// holdRow keeps the catalog's row from being written.
func (c *crash) holdRow() (release func()) {
	c.Helper()
	tx, err := c.DB.BeginTx(c.Context(), nil)
	c.must(err)
	c.Cleanup(func() { _ = tx.Rollback() })
	var gen int64
	c.must(tx.QueryRowContext(c.Context(), "SELECT generation FROM t_idempotent_control FOR UPDATE").Scan(&gen))
	return func() { c.must(tx.Rollback()) }
}

// waits reports that the mover's connection runs a statement that begins so.
func (c *crash) waits(statement string) bool {
	return c.count("SELECT COUNT(*) FROM information_schema.processlist WHERE id = ? AND info LIKE ?", c.id, statement+"%") == 1
}

// A mover killed at each step of holding: what is listed is true, or names both, and the next run settles it. hazard P7
func TestConformanceHoldCrash(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		live := b.past()
		out := partition.Table{Month: live.Month, Name: live.Name, State: partition.Moving, Also: b.held()}

		// Before both names are listed: nothing has happened.
		c := b.crash()
		freeRow := c.holdRow()
		c.hold(live)
		b.until("the listing to be tried", func() bool { return c.waits("UPDATE") })
		c.kill()
		freeRow()
		b.wantEntry(live)

		// Both are listed, the rename waits.
		free := b.block(live.Name)
		c = b.crash()
		c.hold(live)
		b.until("both names to be listed", func() bool { return hasState(b.catalog(), partition.Moving) })
		c.kill()
		free()
		b.wantEntry(out)
		next, _ := b.mover()
		got, there, err := next.Settle(b.Context(), out)
		if err != nil || !there || got != live {
			b.Errorf("settled to %+v, %v, %v", got, there, err)
		}
	})
}

// The same, killed when the table has its new name and the catalog does not say so yet.
func TestConformanceHoldCrashRenamed(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		live := b.past()
		held := partition.Table{Month: live.Month, Name: b.held(), State: partition.Held}
		out := partition.Table{Month: live.Month, Name: live.Name, State: partition.Moving, Also: b.held()}
		free := b.block(live.Name)
		c := b.crash()
		c.hold(live)
		b.until("both names to be listed", func() bool { return hasState(b.catalog(), partition.Moving) })
		freeRow := c.holdRow()
		free()
		b.until("the rename", func() bool { return b.exists(b.held()) && c.waits("UPDATE") })
		c.kill()
		freeRow()
		b.wantEntry(out)
		next, _ := b.mover()
		got, there, err := next.Settle(b.Context(), out)
		if err != nil || !there || got != held {
			b.Errorf("settled to %+v, %v, %v", got, there, err)
		}
		b.wantEntry(held)
	})
}

func (c *crash) hold(t partition.Table) {
	go func() {
		_, err := c.mover.Hold(c.Context(), t, moveRun)
		c.done <- err
	}()
}

// A mover killed at each step of dropping: the horizon is there before the table goes, and the next run finishes.
func TestConformanceDropCrash(t *testing.T) {
	t.Parallel()
	onEach(t, func(b *bench) {
		live := b.past()
		m, conn := b.mover()
		held, err := m.Hold(b.Context(), live, moveRun)
		b.must(err)
		release(b, conn)
		end := live.Month.End(b.zone)
		purged := map[string]time.Time{"COUPON": live.Month.Start(b.zone)}

		// Before the horizon: the table is there, and so is all that is remembered.
		c := b.crash()
		freeRow := c.holdRow()
		c.drop(held, purged)
		b.until("the horizon to be tried", func() bool { return c.waits("UPDATE") })
		c.kill()
		freeRow()
		if cat := b.wantEntry(held); !cat.LostUntil.IsZero() || !b.exists(held.Name) {
			b.Errorf("dropped before the horizon was there: %+v", cat)
		}

		// The horizon is there, the drop waits.
		free := b.block(held.Name)
		c = b.crash()
		c.drop(held, purged)
		b.until("the horizon", func() bool { return b.catalog().LostUntil.Equal(end) })
		freeRow = c.holdRow()
		if !b.exists(held.Name) {
			b.Error("gone before it may go")
		}

		// The table is gone, its listing is not.
		free()
		b.until("the drop", func() bool { return !b.exists(held.Name) && c.waits("UPDATE") })
		c.kill()
		freeRow()
		b.wantEntry(held)
		next, _ := b.mover()
		b.must(next.Drop(b.Context(), held, purged))
		if cat := b.catalog(); len(cat.Tables) != 2 || !cat.LostUntil.Equal(end) || !cat.Biz["COUPON"].Purged.Equal(purged["COUPON"]) {
			b.Errorf("finished: %+v", cat)
		}
	})
}

func (c *crash) drop(t partition.Table, purged map[string]time.Time) {
	go func() { c.done <- c.mover.Drop(c.Context(), t, purged) }()
}

// release gives a mover's lock back; its connection stays.
func release(b *bench, conn *sql.Conn) {
	b.Helper()
	_, err := conn.ExecContext(b.Context(), "DO RELEASE_ALL_LOCKS()")
	b.must(err)
}
