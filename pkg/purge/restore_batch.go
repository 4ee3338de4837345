package purge

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/partition"
)

// restoreAttempts bounds how often a batch is begun again: each time another transaction came in between and went through.
const restoreAttempts = 50

// errAgain begins a batch again, with what was learned on the way.
var errAgain = errors.New("again")

// settle restores one batch in a transaction of its own.
func (r *restorer) settle(ctx context.Context, rows []restoreRow) error {
	b := &restoreBatch{restorer: r, rows: rows, elsewhere: map[ConflictKey]string{}}
	for attempt := 1; ; attempt++ {
		err := b.try(ctx)
		switch {
		case err == nil:
			b.account()
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errAgain):
		case mysqlx.IsRetryable(err), mysqlx.Number(err) == mysqlx.ErrDupEntry:
			// A duplicate: someone has claimed one of the keys since it was looked for. It is found the next time.
		default:
			return err
		}
		if attempt == restoreAttempts {
			return fmt.Errorf("given up after %d attempts: %w", attempt, err)
		}
		if err := restorePause(ctx, attempt); err != nil {
			return err
		}
	}
}

// restorePause waits a moment before another attempt, longer each time up to half a second, with jitter.
func restorePause(ctx context.Context, attempt int) error {
	limit := min(500*time.Millisecond, 2*time.Millisecond<<min(attempt, 10))
	t := time.NewTimer(rand.N(limit))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// restoreBatch is one batch over its attempts.
type restoreBatch struct {
	*restorer

	rows []restoreRow
	// elsewhere are keys found in another month, with its table: they are not written.
	elsewhere map[ConflictKey]string

	// What the attempt found in the target, and the identities of what it wrote.
	found   map[ConflictKey]foundRow
	written map[ConflictKey]string
}

// foundRow is what the target has under a key.
type foundRow struct {
	identity string
	expired  bool
}

func (b *restoreBatch) try(ctx context.Context) (err error) {
	// The transaction itself must outlive a cancelled caller, as in mysqlx.WithTx.
	tx, err := b.conn.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	committing := false
	defer func() {
		if !committing {
			if rerr := tx.Rollback(); rerr != nil && !errors.Is(rerr, sql.ErrTxDone) && !mysqlx.IsConnLost(rerr) {
				err = errors.Join(err, fmt.Errorf("rollback: %w", rerr))
			}
		}
	}()
	if b.found, err = b.look(ctx, tx); err != nil {
		return err
	}
	absent := b.absent()
	if len(absent) > 0 {
		if err := b.write(ctx, tx, absent); err != nil {
			return err
		}
	}
	committing = true
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("%w (the last %d rows may be there: run it again)", &mysqlx.CommitError{Err: err}, len(absent))
	}
	return nil
}

// absent are the rows to be written. A key that stands twice in the archive, since its expiry moved while that was written,
// is written once.
func (b *restoreBatch) absent() []restoreRow {
	b.written = map[ConflictKey]string{}
	var absent []restoreRow
	for _, row := range b.rows {
		_, there := b.found[row.key]
		_, twice := b.written[row.key]
		if there || twice || b.elsewhere[row.key] != "" {
			continue
		}
		b.written[row.key] = row.identity
		absent = append(absent, row)
	}
	return absent
}

// write inserts rows: plainly, never IGNORE (invariant 5). Into a month they go as a guard's claim does: inserted first,
// then looked for in every other table with a locking read, then the generation (invariant 8).
func (b *restoreBatch) write(ctx context.Context, tx *sql.Tx, rows []restoreRow) error {
	one := "(?" + strings.Repeat(",?", len(b.insert.from)-1) + ")"
	var args []any
	for _, row := range rows {
		args = append(args, row.args...)
	}
	query := "INSERT INTO " + mysqlx.Quote(b.plan.Target) + " " + b.insert.list + " VALUES " + one + strings.Repeat(","+one, len(rows)-1) //nolint:gosec // quoted names, and values as arguments
	_, err := tx.ExecContext(ctx, query, args...)
	if err != nil {
		return fmt.Errorf("insert: %w", err)
	}
	if !b.plan.Protects {
		return nil
	}
	if err := b.probe(ctx, tx, rows); err != nil {
		return err
	}
	cat, err := partition.LoadCatalog(ctx, tx, b.plan.scheme)
	if err != nil {
		return err
	}
	if cat.Generation == b.catalog.Generation {
		return nil
	}
	if home, ok := cat.Home(b.plan.Month); !ok || home.Name != b.plan.Target {
		return ErrPlanStale
	}
	b.catalog = cat
	return errAgain
}

// probe looks for the keys just inserted in every other table of the catalog, held ones too.
func (b *restoreBatch) probe(ctx context.Context, tx *sql.Tx, rows []restoreRow) error {
	met := false
	for _, t := range b.catalog.Tables {
		if t.Name == b.plan.Target {
			continue
		}
		for i, name := range t.Names() {
			err := eachBiz(rows, func(biz string, ids []any) error {
				return readRows(ctx, tx, "SELECT order_id, biz_type FROM "+mysqlx.Quote(name)+keyCondition(ids)+" LOCK IN SHARE MODE",
					append(ids, []byte(biz)), func(v []sql.RawBytes) {
						b.elsewhere[ConflictKey{OrderID: string(v[0]), BizType: string(v[1])}] = name
						met = true
					})
			})
			missing := mysqlx.Number(err) == mysqlx.ErrNoSuchTable
			if err != nil && !missing {
				return fmt.Errorf("look into %s: %w", name, err)
			}
			if !missing {
				break // a table that is being renamed is there under one of its names
			}
			if last := i == len(t.Names())-1; last && t.State != partition.Held { // a held one may have been dropped
				return fmt.Errorf("look into %s: %w", name, err)
			}
		}
	}
	if met {
		return errAgain
	}
	return nil
}

// look reads what the target has under the batch's keys.
func (b *restoreBatch) look(ctx context.Context, tx *sql.Tx) (map[ConflictKey]foundRow, error) {
	found := map[ConflictKey]foundRow{}
	now := literal(b.plan.Now)
	err := eachBiz(b.rows, func(biz string, ids []any) error {
		return readRows(ctx, tx, "SELECT order_id, biz_type, expire_at <= "+now+", CAST(create_time AS CHAR), claim_id, fingerprint, src_topic, src_partition, src_offset FROM "+
			mysqlx.Quote(b.plan.Target)+keyCondition(ids), append(ids, []byte(biz)), func(v []sql.RawBytes) {
			identity := make([][]byte, len(v)-3)
			for i := range identity {
				identity[i] = v[i+3]
			}
			found[ConflictKey{OrderID: string(v[0]), BizType: string(v[1])}] = foundRow{identity: identityOf(identity), expired: string(v[2]) == "1"}
		})
	})
	if err != nil {
		return nil, fmt.Errorf("look into %s: %w", b.plan.Target, err)
	}
	return found, nil
}

// account adds the batch to the report once it is committed.
func (b *restoreBatch) account() {
	rep := b.report
	counted := map[ConflictKey]bool{}
	for _, row := range b.rows {
		rep.Rows++
		there, found := b.found[row.key]
		written := b.written[row.key]
		switch elsewhere := b.elsewhere[row.key]; {
		case found && there.identity == row.identity:
			rep.Present++
			if there.expired {
				rep.PresentExpired++
			}
		case found:
			b.conflict(row, b.plan.Target, ConflictContent)
		case elsewhere != "":
			b.conflict(row, elsewhere, ConflictElsewhere)
		case !counted[row.key]:
			counted[row.key] = true
			rep.Restored++
		case written == row.identity:
			rep.Present++
		default:
			b.conflict(row, b.plan.Target, ConflictContent)
		}
	}
}

func (b *restoreBatch) conflict(row restoreRow, table, reason string) {
	b.report.Conflicts++
	if len(b.report.Examples) < maxExamples {
		b.report.Examples = append(b.report.Examples, RestoreConflict{Key: row.key, Table: table, Reason: reason})
	}
}

// eachBiz calls fn for each biz_type with its order ids, as arguments of keyCondition.
func eachBiz(rows []restoreRow, fn func(biz string, ids []any) error) error {
	ids := map[string][]any{}
	for _, row := range rows {
		ids[row.key.BizType] = append(ids[row.key.BizType], []byte(row.key.OrderID))
	}
	for biz, list := range ids {
		if err := fn(biz, list); err != nil {
			return err
		}
	}
	return nil
}

func keyCondition(ids []any) string {
	return " WHERE order_id IN (?" + strings.Repeat(",?", len(ids)-1) + ") AND biz_type = ?"
}

func readRows(ctx context.Context, q mysqlx.Queryer, query string, args []any, fn func(v []sql.RawBytes)) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	v := make([]sql.RawBytes, len(columns))
	into := make([]any, len(columns))
	for i := range v {
		into[i] = &v[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		fn(v)
	}
	return rows.Err()
}
