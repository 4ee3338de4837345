package purge

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/partition"
)

// RestoreReport says what a restore did. It is complete up to where it came also when Restore returns an error.
type RestoreReport struct {
	Table string `json:"table"`
	// Created says that the table was made.
	Created bool `json:"created"`
	// Rows counts the archive's rows that were settled, of which Restored were written, Present were there already as they
	// were, and Conflicts were left untouched since the ledger has something else under their key.
	Rows      int64 `json:"rows"`
	Restored  int64 `json:"restored"`
	Present   int64 `json:"present"`
	Conflicts int64 `json:"conflicts"`
	// PresentExpired counts those of Present whose own expiry has passed: the next purge takes them again.
	PresentExpired int64             `json:"present_expired"`
	Examples       []RestoreConflict `json:"conflict_examples"` // the first maxExamples
	Expiry         time.Time         `json:"expiry"`            // of the restored rows
	// Complete says that the whole archive was settled.
	Complete bool `json:"complete"`
}

// maxExamples bounds the conflicts that a report names.
const maxExamples = 20

// RestoreConflict is a row that was not restored.
type RestoreConflict struct {
	Key    ConflictKey `json:"key"`
	Table  string      `json:"table"`  // that has the other row
	Reason string      `json:"reason"` // one of the Conflict words
}

// The reasons of a conflict.
const (
	ConflictContent   = "other content"    // the same key in the same table, with another time, claim, fingerprint or source
	ConflictElsewhere = "in another month" // the key is in another table: restored, it would stand twice
)

// Bounds of one transaction of a restore.
const (
	restoreRows  = 300
	restoreBytes = 1 << 20
)

// restoreLockWait is how long a statement of a restore waits for a guard's row lock, in seconds: as long as a guard does.
const restoreLockWait = 10

// Restore acts on a plan: it verifies the archive again, takes the lock that create, purge and restore share, and writes
// the rows over its connection. Rows that are there already are left as they are, so it may be run again at any time. The
// horizon stays where it is: what was purged beside these rows is not known to be back.
//
// progress, which may be nil, is told after each batch. Errors are mysqlx.ErrLockHeld, ErrPlanStale, *ArchiveError, those
// of PlanRestore, of the server and of ctx.
func Restore(ctx context.Context, db *sql.DB, plan RestorePlan, progress func(RestoreReport)) (rep RestoreReport, err error) {
	rep = RestoreReport{Table: plan.Target, Expiry: plan.Expiry, Examples: []RestoreConflict{}}
	if plan.archive == nil {
		return rep, ErrNoRestorePlan
	}
	if err := plan.archive.Verify(ctx); err != nil {
		return rep, err
	}
	server, err := mysqlx.Inspect(ctx, db)
	if err != nil {
		return rep, err
	}
	if err := errors.Join(server.RequireSingleWriter(), server.RequireWritable()); err != nil {
		return rep, err
	}
	lock, err := partition.LockMonths(ctx, db, plan.scheme)
	if err != nil {
		return rep, err
	}
	defer func() {
		if rerr := lock.Release(ctx); err == nil {
			err = rerr
		}
	}()
	r := &restorer{plan: &plan, lock: lock, conn: lock.Conn(), report: &rep, progress: progress}
	if r.progress == nil {
		r.progress = func(RestoreReport) {}
	}
	if err := r.prepare(ctx); err != nil {
		return rep, fmt.Errorf("restore into %s: %w", plan.Target, err)
	}
	if err := r.run(ctx); err != nil {
		return rep, fmt.Errorf("restore into %s, after %d rows: %w", plan.Target, rep.Rows, err)
	}
	rep.Complete = true
	return rep, nil
}

// ErrNoRestorePlan says that Restore got a value that PlanRestore did not return.
var ErrNoRestorePlan = errors.New("not a plan of PlanRestore")

// restorer is one restore that holds the lock.
type restorer struct {
	plan     *RestorePlan
	lock     *mysqlx.Lock
	conn     *sql.Conn // the lock's
	report   *RestoreReport
	progress func(RestoreReport)

	catalog partition.Catalog // of a target that is a month
	insert  insertColumns
}

// prepare looks, now that nobody else can change the months, whether the target is still what was planned, and makes it
// where that was planned.
func (r *restorer) prepare(ctx context.Context) error {
	if _, err := r.conn.ExecContext(ctx, fmt.Sprintf("SET SESSION innodb_lock_wait_timeout = %d", restoreLockWait)); err != nil {
		return fmt.Errorf("limit the wait for row locks: %w", err)
	}
	if r.plan.Protects {
		if err := r.loadCatalog(ctx); err != nil {
			return err
		}
	} else if err := r.stillNoMonth(ctx); err != nil {
		return err
	}
	columns, err := tableColumns(ctx, r.conn, r.plan.Target)
	if err != nil {
		return err
	}
	switch missing := len(columns) == 0; {
	case missing && r.plan.Protects:
		return r.plan.monthLost()
	case missing:
		if err := mysqlx.DDL(ctx, r.conn, partition.MonthDDL(r.plan.Target)); err != nil {
			return err
		}
		r.report.Created = true
		if columns, err = tableColumns(ctx, r.conn, r.plan.Target); err != nil {
			return err
		}
	}
	if err := r.plan.checkShape(ctx, r.conn); err != nil {
		return err
	}
	r.insert = newInsertColumns(r.plan.Manifest.Columns, columns, r.plan.Expiry)
	return nil
}

// loadCatalog reads which tables there are, and insists that the target is still one that takes entries.
func (r *restorer) loadCatalog(ctx context.Context) error {
	cat, err := partition.LoadCatalog(ctx, r.conn, r.plan.scheme)
	if err != nil {
		return err
	}
	if home, ok := cat.Home(r.plan.Month); !ok || home.Name != r.plan.Target {
		return ErrPlanStale
	}
	r.catalog = cat
	return nil
}

// stillNoMonth insists that a target that was none of the ledger's tables has not become one.
func (r *restorer) stillNoMonth(ctx context.Context) error {
	cat, err := partition.LoadCatalog(ctx, r.conn, r.plan.scheme)
	if err != nil && !errors.Is(err, partition.ErrNoCatalog) {
		return err
	}
	if listed(&cat, r.plan.Target) {
		return ErrPlanStale
	}
	return nil
}

// run restores batch by batch.
func (r *restorer) run(ctx context.Context) (err error) {
	rows, err := r.plan.archive.Rows(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for {
		batch, rerr := r.next(rows)
		if rerr != nil && !errors.Is(rerr, io.EOF) {
			return rerr
		}
		if len(batch) > 0 {
			if err := r.lock.Check(ctx); err != nil {
				return err
			}
			if err := r.settle(ctx, batch); err != nil {
				return err
			}
			r.progress(*r.report)
		}
		if rerr != nil {
			return nil
		}
	}
}

// next reads one batch; io.EOF says that it is the last.
func (r *restorer) next(rows *ArchiveRows) ([]restoreRow, error) {
	var batch []restoreRow
	size := 0
	for len(batch) < restoreRows && size < restoreBytes {
		values, err := rows.values()
		if err != nil {
			return batch, err
		}
		row := r.insert.row(values, rows.keys)
		size += row.size
		batch = append(batch, row)
	}
	return batch, nil
}
