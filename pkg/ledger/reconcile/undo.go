package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/ledger"
)

// UndoReport is what an undo did.
type UndoReport struct {
	Restored int64 `json:"restored"`
	// Changed are not as the repair left them any more, or were never changed by it; Gone had expired since.
	Changed int64 `json:"changed_underneath"`
	Gone    int64 `json:"gone"`
	// Expired would have ended by now without the repair.
	Expired int64 `json:"expired"`
	// Refused said COMPLETED, and the ledger has no row: to put that back would drop a message that never ran.
	Refused int64 `json:"refused_without_row"`
}

// leftSpread is by how much the TTL of what a repair left may differ from what was written down: the page was written to disk
// in between, and two machines' clocks run on.
const leftSpread = 10 * time.Second

// Undo puts back what a repair has changed, where what the repair left is still there: with the time to live it had, less
// the time that has passed. It never writes COMPLETED for a key without a row (hazard C9). progress may be nil. An error is a
// *PartialError unless nothing was begun.
func (r *Reconciler) Undo(ctx context.Context, p UndoPlan, progress func(Progress)) (UndoReport, error) {
	var rep UndoReport
	if p.head.Prefix != r.opts.Scheme.Prefix() {
		return rep, fmt.Errorf("undo: %w: it is that of %s", ErrUndoFile, p.head.Prefix)
	}
	b, err := openBooks(ctx, &r.opts)
	if err != nil {
		return rep, fmt.Errorf("undo: %w", err)
	}
	schema, err := mysqlx.Schema(ctx, r.opts.DB)
	if err != nil {
		return rep, fmt.Errorf("undo: ledger: %w", err)
	}
	if p.head.Schema != schema {
		return rep, fmt.Errorf("undo: %w: it is that of schema %s", ErrUndoFile, p.head.Schema)
	}
	c, err := r.clock(ctx)
	if err != nil {
		return rep, fmt.Errorf("undo: %w", err)
	}
	if progress == nil {
		progress = func(Progress) {}
	}
	u := &undoer{Reconciler: r, books: b, clock: c, report: &rep}
	var done int64
	flush := func() error {
		n := int64(len(u.page))
		if n == 0 {
			return nil
		}
		if err := u.restore(ctx); err != nil {
			return err
		}
		done += n
		progress(Progress{Phase: "undo", Done: done, Total: p.Total})
		return nil
	}
	_, _, err = eachUndoLine(p.Path, func(l UndoLine) error {
		if u.page = append(u.page, l); len(u.page) < settlePage {
			return nil
		}
		return flush()
	})
	if err = errors.Join(err, ignoreIf(err != nil, flush)); err != nil {
		return rep, &PartialError{Done: done, Left: p.Total - done, Err: err}
	}
	return rep, nil
}

// ignoreIf runs fn unless skip.
func ignoreIf(skip bool, fn func() error) error {
	if skip {
		return nil
	}
	return fn()
}

// undoer is an undo at work.
type undoer struct {
	*Reconciler

	books  *books
	clock  clock
	report *UndoReport
	page   []UndoLine
}

// restore puts the page in hand back.
func (u *undoer) restore(ctx context.Context) error {
	page := u.page
	u.page = u.page[:0]
	if err := u.take(ctx, len(page)); err != nil {
		return err
	}
	if err := u.books.stillPrimary(ctx); err != nil {
		return err
	}
	keys := make([]ledger.Key, len(page))
	for i := range page {
		var ok bool
		if keys[i], ok = u.opts.Template.Parse(string(page[i].Key)); !ok {
			return fmt.Errorf("%w: key %q is not of this template", ErrUndoFile, string(page[i].Key))
		}
	}
	rows, err := u.books.findAll(ctx, keys)
	if err != nil {
		return err
	}
	script := restoreScript()
	now := u.clock.now()
	var results []*redis.Cmd
	_, perr := u.opts.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range page {
			l := &page[i]
			ttl := int64(-1)
			gone := now.Sub(l.At).Milliseconds()
			if l.BeforeTTLMS >= 0 {
				ttl = l.BeforeTTLMS - gone
			}
			switch {
			case ledger.ParseMarker(string(l.Before)).State == ledger.MarkerCompleted && len(rows[i]) == 0:
				u.report.Refused++
			case l.BeforeTTLMS >= 0 && ttl < 1:
				u.report.Expired++
			default:
				left, deleted := "", 1
				if l.Left != nil {
					left, deleted = string(*l.Left), 0
				}
				expected := l.LeftTTLMS - gone
				results = append(results, script.Eval(ctx, p, []string{string(l.Key)}, left, deleted,
					expected-leftSpread.Milliseconds(), expected+leftSpread.Milliseconds(), string(l.Before), ttl))
			}
		}
		return nil
	})
	for _, res := range results {
		n, err := res.Int()
		switch {
		case err != nil:
			return fmt.Errorf("put markers back: %w", errors.Join(perr, err))
		case n == resultDone:
			u.report.Restored++
		case n == resultGone:
			u.report.Gone++
		default:
			u.report.Changed++
		}
	}
	return nil
}
