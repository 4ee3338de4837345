package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/ledger"
)

// FixPlan says what a repair would do.
type FixPlan struct {
	Steps []FixStep `json:"steps"`

	findings *Findings
}

// FixStep is the repair of one kind.
type FixStep struct {
	Kind   Kind   `json:"kind"`
	Count  int64  `json:"count"`
	Repair string `json:"repair"`
}

// Total is how many markers the plan would change.
func (p *FixPlan) Total() int64 {
	var n int64
	for _, s := range p.Steps {
		n += s.Count
	}
	return n
}

// Kinds are those that the plan repairs.
func (p *FixPlan) Kinds() []Kind {
	kinds := make([]Kind, len(p.Steps))
	for i, s := range p.Steps {
		kinds[i] = s.Kind
	}
	return kinds
}

// UnsoundError says that the servers were not the same from the beginning of a scan to its end, so nothing is repaired.
type UnsoundError struct{ Gap Gap }

func (e *UnsoundError) Error() string {
	return "nothing is repaired by a scan during which a server changed (" + e.Gap.Text + "): run it again"
}

// Plan says what a repair of these kinds would do. It returns a *KindError for a kind that cannot be repaired, and an
// *UnsoundError where what was found is doubtful itself.
func (f *Findings) Plan(kinds []Kind) (FixPlan, error) {
	p := FixPlan{Steps: []FixStep{}, findings: f}
	if gap, bad := f.unsound(); bad {
		return p, &UnsoundError{Gap: gap}
	}
	for _, k := range kinds {
		if !k.Fixable() {
			return p, &KindError{Kind: k, Known: slices.Contains(Kinds(), k)}
		}
		p.Steps = append(p.Steps, FixStep{Kind: k, Count: f.Count(k), Repair: k.Repair()})
	}
	return p, nil
}

// FixReport is what a repair did.
type FixReport struct {
	// Undo is the file that undoes it; empty where nothing was to be changed.
	Undo  string     `json:"undo_file,omitempty"`
	Kinds []FixCount `json:"kinds"`
}

// FixCount is what became of the markers of one kind.
type FixCount struct {
	Kind    Kind  `json:"kind"`
	Applied int64 `json:"applied"`
	// Changed were not as they had been seen any more; Gone had expired or were deleted; Left are of a type that is never touched.
	Changed int64 `json:"changed_underneath"`
	Gone    int64 `json:"gone"`
	Left    int64 `json:"left_alone"`
}

func (r *FixReport) of(k Kind) *FixCount {
	for i := range r.Kinds {
		if r.Kinds[i].Kind == k {
			return &r.Kinds[i]
		}
	}
	r.Kinds = append(r.Kinds, FixCount{Kind: k})
	return &r.Kinds[len(r.Kinds)-1]
}

// Applied is how many markers were changed.
func (r *FixReport) Applied() int64 {
	var n int64
	for i := range r.Kinds {
		n += r.Kinds[i].Applied
	}
	return n
}

// PartialError is a repair, or an undo, that ended early. What it has done is in its report.
type PartialError struct {
	Done int64 // markers dealt with
	Left int64
	Err  error
}

func (e *PartialError) Error() string {
	return fmt.Sprintf("ended early, %d markers dealt with and %d left: %v", e.Done, e.Left, e.Err)
}

// Unwrap returns why.
func (e *PartialError) Unwrap() error { return e.Err }

// Fix carries out a plan. Each marker is read again, and its key looked up in the ledger's primary, right before; it is
// changed only if it is what was found, and still is so when Redis does it. Before any marker of a page is changed, what it
// was stands in undo, on disk. progress may be nil. An error is a *PartialError unless nothing was begun.
func (r *Reconciler) Fix(ctx context.Context, p FixPlan, undo *UndoFile, progress func(Progress)) (FixReport, error) {
	rep := FixReport{Kinds: []FixCount{}}
	for _, s := range p.Steps {
		rep.of(s.Kind)
	}
	b, err := openBooks(ctx, &r.opts)
	if err != nil {
		return rep, fmt.Errorf("repair: %w", err)
	}
	c, err := r.clock(ctx)
	if err != nil {
		return rep, fmt.Errorf("repair: %w", err)
	}
	schema, err := mysqlx.Schema(ctx, r.opts.DB)
	if err != nil {
		return rep, fmt.Errorf("repair: ledger: %w", err)
	}
	if progress == nil {
		progress = func(Progress) {}
	}
	f := &fixer{Reconciler: r, books: b, clock: c, undo: undo, report: &rep}
	undo.head = f.headOf(schema)
	var done int64
	err = p.findings.found.pages(settlePage, func(page []suspect) error {
		page = slices.DeleteFunc(slices.Clone(page), func(x suspect) bool { return !slices.Contains(p.Kinds(), x.Kind) })
		if len(page) == 0 {
			return nil
		}
		if err := f.page(ctx, page); err != nil {
			return err
		}
		done += int64(len(page))
		progress(Progress{Phase: "fix", Done: done, Total: p.Total()})
		return nil
	})
	rep.Undo = undo.Path()
	if err != nil {
		return rep, &PartialError{Done: done, Left: p.Total() - done, Err: err}
	}
	return rep, nil
}

// fixer is a repair at work.
type fixer struct {
	*Reconciler

	books  *books
	clock  clock
	undo   *UndoFile
	report *FixReport
}

// page repairs the markers of one page.
func (f *fixer) page(ctx context.Context, page []suspect) error {
	if err := f.take(ctx, len(page)); err != nil {
		return err
	}
	if err := f.books.stillPrimary(ctx); err != nil {
		return err
	}
	looks, err := f.look(ctx, f.books, page, f.clock)
	if err != nil {
		return err
	}
	rules, now := f.rulesOf(f.books), f.clock.now()
	var changes []change
	var lines []UndoLine
	for i := range looks {
		l, count := &looks[i], f.report.of(page[i].Kind)
		switch {
		case l.marker.State == ledger.MarkerNone:
			count.Gone++
		case !l.holds || l.kind != page[i].Kind:
			count.Changed++
		case l.marker.wrongType:
			count.Left++
		default:
			c := rules.repair(l, now)
			c.name = string(page[i].Name)
			changes = append(changes, c)
			lines = append(lines, c.undoLine(now))
		}
	}
	if len(changes) == 0 {
		return nil
	}
	if err := f.undo.write(lines); err != nil {
		return err
	}
	if f.opts.beforeChange != nil {
		f.opts.beforeChange()
	}
	return f.apply(ctx, changes)
}

// apply sends the changes, one key each, so that it works across the slots of a cluster, and counts what became of them.
func (f *fixer) apply(ctx context.Context, changes []change) error {
	script := changeScript()
	results := make([]*redis.Cmd, len(changes))
	_, err := f.opts.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range changes {
			c := &changes[i]
			results[i] = script.Eval(ctx, p, []string{c.name}, c.observed, milliseconds(c.observedTTL), c.op, milliseconds(c.ttl), c.value)
		}
		return nil
	})
	var errs []error
	for i, res := range results {
		n, rerr := res.Int()
		count := f.report.of(changes[i].kind)
		switch {
		case rerr != nil:
			errs = append(errs, rerr)
		case n == resultDone:
			count.Applied++
		case n == resultGone:
			count.Gone++
		default:
			count.Changed++
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("change %d markers (%s undoes those that were changed): %w", len(errs), f.undo.Path(), errors.Join(err, errs[0]))
	}
	return nil
}

// change is one repair: what must still be there, and what is done then.
type change struct {
	kind        Kind
	name        string
	observed    string
	observedTTL time.Duration
	op          string
	ttl         time.Duration // of expire and set
	value       string        // of set
}

// repair decides what mends a marker.
func (r *rules) repair(l *look, now time.Time) change {
	c := change{kind: l.kind, observed: l.marker.Raw, observedTTL: l.marker.TTL, op: opDelete}
	fitting := r.completedTTL
	if last := lastExpiry(l.rows); !last.IsZero() {
		fitting = min(fitting, last.Sub(now))
	}
	switch l.kind {
	case Stuck:
		c.op, c.ttl = opExpire, r.lease
	case Immortal, OutlivesEntry:
		c.op, c.ttl = opExpire, fitting
	case StaleProcessing, ForeignLedger:
		if len(l.rows) > 0 {
			c.op, c.ttl = opSet, fitting
			// A ledger without an id has the bare word only.
			c.value = ledger.CompletedMarker(r.catalog.LedgerID, newest(l.rows).fingerprint, r.bare || r.catalog.LedgerID == "")
		}
	default: // what says nothing that is true, and stands in the way
	}
	if c.op != opDelete && c.ttl < time.Millisecond {
		c.op, c.value, c.ttl = opDelete, "", 0 // the entry has expired: nothing is to be said of it any more
	}
	return c
}

func newest(rows []row) *row {
	n := &rows[0]
	for i := range rows {
		if rows[i].created.After(n.created) {
			n = &rows[i]
		}
	}
	return n
}

// milliseconds is a TTL as Redis has it; any negative one is "no end".
func milliseconds(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return d.Milliseconds()
}
