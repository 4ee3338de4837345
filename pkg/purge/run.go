package purge

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/partition"
)

// Run does what a plan says: under the ledger's lock, the horizon before each delete, rows by key, months by rename, hold,
// check, archive, comparison and drop. Every statement that destroys goes over the connection that holds the lock (hazard
// P20). The report is complete also with an error.
//
// It refuses a rehearsal (ErrRehearsal), a cutoff after the server's now (ErrCutoffFuture), a plan that the catalog
// contradicts (ErrPlanStale), a server whose locks its peers do not see or that takes no writes (mysqlx.ErrMultiPrimary,
// mysqlx.ErrNotPrimary), and a ledger whose lock another run holds (mysqlx.ErrLockHeld). Having begun, it ends early with
// mysqlx.ErrLockLost, with the cause of ctx, or with an error of the server or the archive; that a limit ended it or that
// something was put off is no error but said in Report.Ended. Whoever runs it again goes on where it ended.
//
// db's connections must commit by themselves and speak UTC (mysqlx.Open without Guard); two of them are in use for each
// month that is worked at once, and two more.
func Run(ctx context.Context, db *sql.DB, p Plan, opts RunOptions) (Report, error) {
	opts, err := opts.withDefaults()
	r := &runner{db: db, plan: p, opts: opts, started: opts.now()}
	r.report = newReport(&p, opts.Run)
	if err != nil {
		return r.finish(ctx, err)
	}
	if opts.MaxRows > 0 {
		r.budget = &atomic.Int64{}
		r.budget.Store(opts.MaxRows)
	}
	if err := r.refuse(ctx); err != nil {
		return r.finish(ctx, err)
	}
	lock, err := partition.LockMonths(ctx, db, p.scheme)
	if err != nil {
		return r.finish(ctx, err)
	}
	defer lock.Release(ctx) //nolint:errcheck // the connection is closed either way, and what was done is reported
	if err := r.prepare(ctx, lock); err != nil {
		return r.finish(ctx, err)
	}
	r.step(StepLocked, "", 0)
	return r.finish(ctx, r.work(ctx))
}

// runner is one run.
type runner struct {
	db      *sql.DB
	plan    Plan
	opts    RunOptions
	started time.Time
	server  mysqlx.Server
	schema  string

	main    *worker
	mainID  int64 // of the lock's connection
	mover   *partition.Mover
	horizon horizon
	budget  *atomic.Int64 // rows left of MaxRows; nil: no limit

	mu       sync.Mutex // of report's sums, and of calls to Progress
	report   Report
	lagAsked time.Time
	lagging  bool
}

// refuse looks, before anything is locked, whether the plan may be run here at all.
func (r *runner) refuse(ctx context.Context) error {
	if r.plan.zone == nil {
		return ErrNoPlan
	}
	if r.plan.Rehearsal {
		return fmt.Errorf("%w (it is for %s)", ErrRehearsal, stamp(r.plan.Now))
	}
	if n := r.db.Stats().MaxOpenConnections; n > 0 && n < 2*r.opts.Parallel+2 {
		return fmt.Errorf("%w: parallel %d needs %d connections, and there are %d", ErrOptions, r.opts.Parallel, 2*r.opts.Parallel+2, n)
	}
	server, err := mysqlx.Inspect(ctx, r.db)
	if err != nil {
		return err
	}
	if err := server.RequireSingleWriter(); err != nil {
		return err
	}
	if err := server.RequireWritable(); err != nil {
		return err
	}
	r.server = server
	r.schema, err = mysqlx.Schema(ctx, r.db)
	return err
}

// prepare looks once more, now that nobody else can change the months.
func (r *runner) prepare(ctx context.Context, lock *mysqlx.Lock) error {
	conn := lock.Conn()
	if err := r.setSession(ctx, conn); err != nil {
		return err
	}
	if err := conn.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&r.mainID); err != nil {
		return fmt.Errorf("lock's connection: %w", err)
	}
	now, err := mysqlx.Now(ctx, conn)
	if err != nil {
		return err
	}
	if r.plan.Cutoff.After(now) {
		return fmt.Errorf("%w: %s is after %s", ErrCutoffFuture, stamp(r.plan.Cutoff), stamp(now))
	}
	r.main = &worker{runner: r, conn: conn, check: lock.Check, size: r.opts.Batch}
	r.mover = partition.NewMover(conn, r.plan.scheme, r.plan.zone)
	if !r.plan.catalog {
		return nil
	}
	cat, err := partition.LoadCatalog(ctx, conn, r.plan.scheme)
	if err != nil {
		return err
	}
	r.horizon.begin(&cat)
	if r.plan.Legacy {
		return nil
	}
	return r.verifyPlan(&cat, now)
}

// verifyPlan refuses a plan whose tables the catalog lists otherwise, or whose drops would take the newest month.
func (r *runner) verifyPlan(cat *partition.Catalog, now time.Time) error {
	for i := range r.plan.Months {
		m := &r.plan.Months[i]
		if m.Action == ActionKeep {
			continue
		}
		if !slices.Contains(cat.Tables, m.Table) {
			return fmt.Errorf("purge of %s: %w: %s is not listed as %s any more", r.plan.Prefix, ErrPlanStale, m.Table.Name, m.Table.State)
		}
		if m.dropsTable() && protected(cat, m.Table, now, r.plan.zone) {
			return fmt.Errorf("purge of %s: %w: %s is the newest month", r.plan.Prefix, ErrPlanStale, m.Table.Name)
		}
	}
	return nil
}

// setSession makes a connection that deletes wait briefly for another's row lock, and live through a long wait.
func (r *runner) setSession(ctx context.Context, conn *sql.Conn) error {
	for _, s := range []string{
		"SET SESSION innodb_lock_wait_timeout = 5",
		"SET SESSION wait_timeout = 86400",
	} {
		if _, err := conn.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

// finish turns what ended the run into the report.
func (r *runner) finish(ctx context.Context, err error) (Report, error) {
	rep := &r.report
	var stop *stopError
	switch {
	case errors.As(err, &stop):
		rep.Ended, err = stop.ended, nil
	case errors.Is(err, mysqlx.ErrLockLost):
		rep.Ended = EndedLockLost
	case err != nil && ctx.Err() != nil:
		rep.Ended = EndedInterrupted
	case err != nil:
		rep.Ended = EndedFailed
	case slices.ContainsFunc(rep.Months, func(m MonthReport) bool { return m.Outcome == OutcomeDeferred }):
		rep.Ended = EndedDeferred
	default:
		rep.Ended = EndedDone
	}
	if rep.Ended == EndedInterrupted {
		err = context.Cause(ctx)
	}
	for i := range rep.Months { // rows that came after the plan may have opened windows
		slices.SortFunc(rep.Months[i].Windows, func(a, b WindowReport) int { return a.From.Compare(b.From) })
	}
	rep.Horizon = r.horizon.changes()
	rep.Elapsed = r.opts.now().Sub(r.started)
	if s := rep.Elapsed.Seconds(); s > 0 {
		rep.RowsPerSecond = float64(rep.Deleted+rep.DroppedRows) / s
	}
	return *rep, err
}

// newRun names a run.
func newRun() (string, error) {
	var b [4]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", fmt.Errorf("name the run: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}

func runForm(run string) bool {
	b, err := hex.DecodeString(run)
	return err == nil && len(b) == 4 && run == hex.EncodeToString(b)
}
