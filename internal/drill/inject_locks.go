package drill

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/partition"
)

const (
	// holdFor is longer than sessions of the drill wait for a lock (the guard's own wait longer).
	holdFor = 1300 * time.Millisecond
	// lockAtMost bounds what the other session does.
	lockAtMost = 3 * time.Second
	// heavier is how many rows the other session has written when it deadlocks: the server undoes the lighter transaction.
	heavier = 30
)

// session is the other session: straight to the database, in a transaction that always ends in ROLLBACK.
type session struct {
	conn *sql.Conn
	id   int64
}

func (r *run) session(ctx context.Context) (*session, error) {
	conn, err := r.servers.db().Conn(ctx)
	if err != nil {
		return nil, errMissed // it is down
	}
	s := &session{conn: conn}
	err = s.exec(ctx, "START TRANSACTION")
	if err == nil {
		err = conn.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&s.id)
	}
	if err != nil {
		s.end(ctx)
		return nil, errMissed
	}
	return s, nil
}

func (s *session) exec(ctx context.Context, q string, args ...any) error {
	_, err := s.conn.ExecContext(ctx, q, args...)
	return err
}

// end rolls back and gives the connection back. A connection that is gone has rolled back by itself.
func (s *session) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lockAtMost)
	defer cancel()
	_ = s.exec(ctx, "ROLLBACK")
	_ = s.conn.Close()
}

// holdRows locks all budgets for longer than consumers wait.
func (r *run) holdRows(ctx context.Context) error {
	s, err := r.session(ctx)
	if err != nil {
		return err
	}
	if err := s.exec(ctx, "SELECT id FROM `"+r.schema+"`.drill_budget FOR UPDATE"); err != nil {
		s.end(ctx)
		return errMissed
	}
	r.busy.Go(func() {
		pause(ctx, holdFor)
		s.end(ctx)
	})
	return nil
}

// rival claims the order's key in another session, which rolls back when the consumer waits for it.
func (r *run) rival(ctx context.Context, d *Delivery) error {
	if r.traits.Rival == "" {
		return errMissed
	}
	s, err := r.session(ctx)
	if err != nil {
		return err
	}
	q := r.traits.Rival
	if strings.Contains(q, "%s") {
		scheme, err := guardScheme()
		if err != nil {
			return errors.Join(err, s.conn.Close())
		}
		q = fmt.Sprintf(q, scheme.Table(partition.MonthOf(d.Record.Time, time.UTC)))
	}
	q = strings.Replace(q, "INTO ", "INTO `"+r.schema+"`.", 1)
	if err := s.exec(ctx, q, d.Record.Order); err != nil {
		s.end(ctx)
		return errMissed
	}
	r.busy.Go(func() {
		defer s.end(ctx)
		r.awaitLockWait(ctx, 0)
	})
	return nil
}

// deadlock has the other session and the consumer wait for each other: the consumer has written the order's row, which the
// other wants; the other has the budget that the consumer needs next. The consumer's transaction is the lighter one.
func (r *run) deadlock(ctx context.Context, d *Delivery) error {
	bounded, cancel := context.WithTimeout(ctx, lockAtMost)
	s, err := r.session(bounded)
	if err != nil {
		cancel()
		return err
	}
	scratch := "INSERT INTO `" + r.schema + "`.drill_scratch (n) VALUES (1)" + strings.Repeat(", (1)", heavier-1)
	err = s.exec(bounded, scratch)
	if err == nil {
		err = s.exec(bounded, "UPDATE `"+r.schema+"`.drill_budget SET spent = spent + 1 WHERE id = ?", budgetOf(d.Record.Order))
	}
	if err != nil {
		cancel()
		s.end(ctx)
		return errMissed
	}
	r.busy.Go(func() {
		defer cancel()
		defer s.end(ctx)
		// Whatever it says: it was there to be in the way.
		_ = s.exec(bounded, "SELECT id FROM `"+r.schema+"`.drill_effect WHERE order_id = ? FOR UPDATE", d.Record.Order)
	})
	r.awaitLockWait(bounded, s.id)
	return nil
}

// awaitLockWait waits until a session (0: any) waits for a lock, at most a second.
func (r *run) awaitLockWait(ctx context.Context, id int64) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		n := 0
		err := r.servers.db().QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT' AND (? = 0 OR trx_mysql_thread_id = ?)", id, id).Scan(&n)
		if err != nil || n > 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

var _ ledger.Tx = (*sql.Tx)(nil)
