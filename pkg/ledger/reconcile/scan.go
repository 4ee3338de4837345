package reconcile

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/ledger"
)

// Findings is what a scan found, and what a repair needs of it: the temp file of all findings. The caller closes it.
type Findings struct {
	Report

	reconciler *Reconciler
	found      *suspects
}

// Close lets go of the temp file.
func (f *Findings) Close() error { return f.found.close() }

// errTimeUp says that Options.MaxDuration was over.
var errTimeUp = errors.New("the time allowed was over")

// sideError is a failure of one of the stores in mid-scan.
type sideError struct {
	code GapCode
	err  error
}

func (e *sideError) Error() string { return e.err.Error() }

// Unwrap returns what failed.
func (e *sideError) Unwrap() error { return e.err }

// failed says of which store an error is, unless it says so already. nil stays nil.
func failed(code GapCode, err error) error {
	if err == nil {
		return nil
	}
	if side, ok := errors.AsType[*sideError](err); ok {
		return side
	}
	return &sideError{code: code, err: err}
}

// scan is one run through both stores.
type scan struct {
	*Reconciler

	books    *books
	begin    topology
	watch    *mysqlx.Watch // nil once it has ended
	clock    clock
	suspects *suspects
	progress func(Progress)

	mu    sync.Mutex
	pairs *pairs                // rows and markers to be brought together; nil: every key is looked up
	until time.Time             // with pairs: up to when a marker that is as it should be may last
	seen  *ledger.KeySetBuilder // without: the keys that had a marker; nil where nobody will ask
	last  time.Time             // when the last suspect was seen, by this machine's clock

	masters                      []atomic.Int64
	keysScanned, checked, walked atomic.Int64
	keysExpected                 int64
}

// clock is the ledger's clock, carried on by this machine's.
type clock struct {
	base, at time.Time
	local    func() time.Time
}

func (c clock) now() time.Time { return c.base.Add(c.local().Sub(c.at)) }

func (r *Reconciler) clock(ctx context.Context) (clock, error) {
	at := r.opts.Now()
	base, err := mysqlx.Now(ctx, r.opts.DB)
	if err != nil {
		return clock{}, fmt.Errorf("ledger: %w", err)
	}
	return clock{base: base, at: at, local: r.opts.Now}, nil
}

// Scan compares the two stores. It returns an error only if it could not begin, or if a temp file failed: a server that
// fails later, or time that runs out, leaves gaps in the report. progress may be nil; it is called from several goroutines,
// one at a time.
func (r *Reconciler) Scan(ctx context.Context, progress func(Progress)) (*Findings, error) {
	s, err := r.newScan(ctx, progress)
	if err != nil {
		return nil, fmt.Errorf("reconcile: %w", err)
	}
	f := &Findings{reconciler: r, found: &suspects{seed: s.suspects.seed}}
	f.Started, f.LedgerID, f.Sample = s.clock.base, s.books.current().LedgerID, r.opts.Sample
	f.BizTypes, f.Since, f.Legacy, f.Untold = r.opts.BizTypes, r.opts.Since, r.opts.Scheme.Legacy(), s.books.untold(&r.opts)
	err = s.run(ctx, f)
	if err := errors.Join(err, s.close(ctx)); err != nil {
		return nil, errors.Join(fmt.Errorf("reconcile: %w", err), f.Close())
	}
	return f, nil
}

func (r *Reconciler) newScan(ctx context.Context, progress func(Progress)) (*scan, error) {
	b, err := openBooks(ctx, &r.opts)
	if err != nil {
		return nil, err
	}
	c, err := r.clock(ctx)
	if err != nil {
		return nil, err
	}
	begin, err := masters(ctx, r.opts.Redis)
	if err != nil {
		return nil, err
	}
	if progress == nil {
		progress = func(Progress) {}
	}
	s := &scan{
		Reconciler: r, books: b, begin: begin, clock: c,
		suspects: &suspects{seed: maphash.MakeSeed()}, progress: progress, masters: make([]atomic.Int64, len(begin.nodes)),
	}
	for _, n := range begin.nodes {
		s.keysExpected += n.keys
	}
	if s.watch, err = mysqlx.StartWatch(ctx, r.opts.DB); err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	return s, nil
}

func (s *scan) close(ctx context.Context) error {
	if s.watch != nil {
		_ = s.watch.End(ctx) // something else has ended the scan
	}
	var err error
	if s.seen != nil {
		err = s.seen.Close()
	}
	return errors.Join(err, s.pairs.close(), s.suspects.close())
}

// run goes through both stores, then looks at what was suspected a second time. The error is one of this machine.
func (s *scan) run(ctx context.Context, f *Findings) error {
	whole, first := ctx, ctx
	if limit := s.opts.MaxDuration; limit > 0 {
		var endWhole, endFirst context.CancelFunc
		whole, endWhole = context.WithTimeoutCause(ctx, limit, errTimeUp)
		defer endWhole()
		// What was found must still be looked at again.
		first, endFirst = context.WithTimeoutCause(whole, max(limit-2*s.opts.Settle, limit/2), errTimeUp)
		defer endFirst()
	}
	f.Gaps = append(f.Gaps, s.uncovered()...)
	err := s.lookOnce(first, whole)
	if err != nil {
		gap, ok := gapOf(ctx, first, err)
		if !ok {
			return err
		}
		f.Gaps = append(f.Gaps, gap)
	}
	t := newTally(s.opts.Examples)
	left, err := s.lookAgain(whole, f, t)
	if err != nil {
		gap, ok := gapOf(ctx, whole, err)
		if !ok {
			return err
		}
		if len(f.Gaps) == 0 || f.Gaps[len(f.Gaps)-1] != gap {
			f.Gaps = append(f.Gaps, gap)
		}
	}
	if left > 0 {
		f.Gaps = append(f.Gaps, gapf(GapUnsettled, "%d suspects could not be looked at a second time", left))
	}
	f.Gaps = append(f.Gaps, s.changes(ctx)...)
	f.Findings = t.findings()
	f.KeysScanned, f.KeysChecked, f.RowsScanned, f.Suspects = s.keysScanned.Load(), s.checked.Load(), s.walked.Load(), s.suspects.n
	for i, n := range s.begin.nodes {
		f.Masters = append(f.Masters, Master{Address: n.addr, Keys: s.masters[i].Load()})
	}
	f.Complete = len(f.Gaps) == 0
	f.Finished = s.clock.now()
	return nil
}

func (s *scan) uncovered() []Gap {
	if n := s.begin.uncovered(); n > 0 {
		return []Gap{gapf(GapTopology, "%d slots of the Redis Cluster belong to no master", n)}
	}
	return nil
}

// lookOnce goes through the stores in the directions that are wanted. What was scanned when its time is over is still
// compared with what is known of the rows, within whole.
func (s *scan) lookOnce(ctx, whole context.Context) error {
	if err := s.preload(ctx); err != nil {
		return err
	}
	if s.opts.Directions == Both && s.pairs == nil {
		s.seen = ledger.NewKeySetBuilder(s.keysExpected)
	}
	var err error
	if s.opts.Directions&FilterToLedger != 0 {
		err = s.filterToLedger(ctx)
	}
	switch {
	case s.pairs == nil && err == nil && s.opts.Directions&LedgerToFilter != 0 && s.books.told():
		return s.ledgerToFilter(ctx)
	case s.pairs == nil:
		return err
	case err == nil:
		return s.match(ctx, true)
	case whole.Err() == nil && (errors.Is(err, errTimeUp) || errors.Is(context.Cause(ctx), errTimeUp)):
		return errors.Join(err, s.match(whole, false))
	}
	return err
}

// gapOf makes a gap of an error that ended a scan; ok is false for one of this machine.
func gapOf(caller, bounded context.Context, err error) (Gap, bool) {
	side, ok := errors.AsType[*sideError](err)
	switch {
	case caller.Err() != nil:
		return gapf(GapInterrupted, "interrupted"), true
	case errors.Is(err, errTimeUp), bounded.Err() != nil:
		return gapf(GapTime, "%v", errTimeUp), true
	case ok:
		return gapf(side.code, "%v", side.err), true
	}
	return Gap{}, false
}

// endTimeout bounds the questions at the end of a scan whose context has ended.
const endTimeout = 5 * time.Second

// changes asks once more who the servers are.
func (s *scan) changes(ctx context.Context) []Gap {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	var gaps []Gap
	if end, err := masters(ctx, s.opts.Redis); err != nil {
		gaps = append(gaps, gapf(GapRedis, "%v", err))
	} else {
		gaps = append(gaps, s.begin.changes(&end)...)
	}
	watch := s.watch
	s.watch = nil
	if err := watch.End(ctx); errors.Is(err, mysqlx.ErrReplaced) {
		gaps = append(gaps, gapf(GapRestarted, "the ledger's server was restarted or failed over meanwhile"))
	} else if err != nil {
		gaps = append(gaps, gapf(GapLedger, "%v", err))
	}
	return gaps
}

// rules are those by the catalog in hand.
func (s *scan) rules() *rules { return s.rulesOf(s.books) }

func (r *Reconciler) rulesOf(b *books) *rules {
	return &rules{lease: r.opts.Lease, slack: r.opts.Slack, completedTTL: r.opts.CompletedTTL, bare: r.opts.Bare, catalog: b.current(),
		legacy: r.opts.Scheme.Legacy(), since: r.opts.MemorySince}
}

// take waits until n more keys may be looked at (hazard C6).
func (r *Reconciler) take(ctx context.Context, n int) error {
	if r.limiter == nil {
		return nil
	}
	for n > 0 {
		part := min(n, r.limiter.Burst())
		if err := r.limiter.WaitN(ctx, part); err != nil {
			if ctx.Err() == nil { // it would take longer than the deadline allows
				return errTimeUp
			}
			return context.Cause(ctx)
		}
		n -= part
	}
	return nil
}

const sampleParts = 100 // of a percent

// sampled reports whether a key belongs to the part that is looked at.
func (s *scan) sampled(name string) bool {
	if s.opts.Sample >= wholeSample {
		return true
	}
	return maphash.String(s.suspects.seed, name)%(wholeSample*sampleParts) < uint64(s.opts.Sample*sampleParts)
}

// suspect writes something down for the second look.
func (s *scan) suspect(x suspect) error {
	s.mu.Lock()
	s.last = s.opts.Now()
	s.mu.Unlock()
	return s.suspects.put(&x)
}

// report tells how far a phase is, now and then.
func (s *scan) report(phase string, done, total int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.progress(Progress{Phase: phase, Done: done, Total: total})
}
