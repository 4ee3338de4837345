package replay

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// DefaultMaxAttempts is how often an effect that fails is tried before its record is parked.
const DefaultMaxAttempts = 5

// effectDelay is how long an effect that failed for the first time is left alone; it doubles with each failure. What a
// second try can mend, another transaction's lock, is over in that time; a record that is at fault itself holds its
// partition for three seconds before it is parked.
const effectDelay = 200 * time.Millisecond

// maxDoublings keeps the doubling of effectDelay within its ceiling, whatever MaxAttempts is.
const maxDoublings = 10

// GateHandler is one handler of a consumed topic.
type GateHandler struct {
	Name      string
	Extractor *Extractor
	Handler   Handler
	// MaxAttempts bounds how often an effect may fail; 0 means DefaultMaxAttempts. A server's trouble, a missing month and
	// another owner's lease are waited for without bound, and do not count.
	MaxAttempts int
	// DeadLetter is the topic that records are parked in. Empty: nothing is parked, and a record that may not pass holds its
	// partition.
	DeadLetter string
}

// DeadLetter is a record on its way to being parked.
type DeadLetter struct {
	Topic    string // where it is parked
	Record   Record
	Handler  string
	OrderID  string // empty where the record has none
	Outcome  string
	Reason   string
	Attempts int // how often the handler was asked, waits for others included
}

// Observation is one handler's decision about one record.
type Observation struct {
	Handler string
	Record  *Record
	Verdict Verdict
	// Passed says that this handler lets the offset pass; Parked that it does so because the record is parked. Neither: it
	// will be tried again.
	Passed, Parked bool
	Attempt        int // 1 for the first
}

// GateOptions shape a Gate.
type GateOptions struct {
	Handlers []GateHandler
	// Park writes a dead letter and returns nil when it is acknowledged (hazard G16).
	Park func(ctx context.Context, d DeadLetter) error
	// Observe is told of every decision; it is called for several partitions at once. nil: nobody looks.
	Observe func(o Observation)
	// Deadline bounds what a batch does in one handler, the dead letters included; 0: nothing does. It lies below the lease and
	// the group's rebalance timeout (hazard G21).
	Deadline time.Duration
}

// Gate takes the records of a consumer through every handler of their topic and says which offsets may pass: a record
// passes when each handler has executed, absorbed or parked it. It is safe for concurrent use by different partitions.
type Gate struct{ opts GateOptions }

// NewGate checks the options.
func NewGate(opts GateOptions) (*Gate, error) {
	if len(opts.Handlers) == 0 {
		return nil, errors.New("gate: no handlers")
	}
	for i := range opts.Handlers {
		h := &opts.Handlers[i]
		switch {
		case h.Extractor == nil || h.Handler == nil:
			return nil, fmt.Errorf("gate: handler %s is incomplete", h.Name)
		case h.DeadLetter != "" && opts.Park == nil:
			return nil, fmt.Errorf("gate: handler %s parks records, and there is nobody to write them", h.Name)
		case h.MaxAttempts < 0:
			return nil, fmt.Errorf("gate: handler %s: max attempts %d: expected 0 or more", h.Name, h.MaxAttempts)
		case h.MaxAttempts == 0:
			h.MaxAttempts = DefaultMaxAttempts
		}
	}
	if opts.Observe == nil {
		opts.Observe = func(Observation) {}
	}
	return &Gate{opts: opts}, nil
}

// Pending is a record that has been read and has not passed yet.
type Pending struct {
	Record Record
	lanes  []lane // one for each handler
}

// lane is a record's way through one handler.
type lane struct {
	item     Item
	invalid  *InvalidError
	read     bool // item or invalid is set
	passed   bool
	attempts int // how often it was tried
	failures int // how often its effect failed: only these count against MaxAttempts
	wait     Wait
}

// Admit begins the way of a record.
func (g *Gate) Admit(r Record) *Pending {
	return &Pending{Record: r, lanes: make([]lane, len(g.opts.Handlers))}
}

func (p *Pending) passed() bool {
	for i := range p.lanes {
		if !p.lanes[i].passed {
			return false
		}
	}
	return true
}

// Wait says why the first record that has not passed is held, and when it is worth another try.
type Wait struct {
	// After is how long to wait; 0 where nothing is held.
	After time.Duration
	// Reason is for people: the outcome and what the handler said.
	Reason string
	// Err is a server's trouble or a set-up that is wrong, which no record is to blame for; nil: the record itself is held.
	Err error
	// Blocked says that no time will let the record pass, for it is at fault and there is no dead letter to park it in:
	// somebody has to act.
	Blocked bool
}

// Pass takes records of one partition, in the order of their offsets, as far as they get. It returns how many of them have
// passed, counted from the first without a gap: only their offsets may be committed (hazard G15). Records behind one that
// is held may have been executed; they are kept as passed and not asked about again.
func (g *Gate) Pass(ctx context.Context, batch []*Pending) (n int, wait Wait) {
	for h := range g.opts.Handlers {
		g.through(ctx, h, batch)
	}
	for n < len(batch) && batch[n].passed() {
		n++
	}
	if n == len(batch) {
		return n, Wait{}
	}
	return n, waitFor(batch[n:])
}

// waitFor is the wait of the first record, for as long as the one that ends first.
func waitFor(held []*Pending) Wait {
	first := held[0].wait()
	for _, p := range held {
		if w := p.wait(); w.After > 0 && (first.After == 0 || w.After < first.After) {
			first.After = w.After
		}
	}
	if first.After <= 0 {
		first.After = retryFloor // the handler stopped before it came to any of them
	}
	return first
}

// wait is that of the handlers which hold the record: the soonest, and the first one's words.
func (p *Pending) wait() Wait {
	var w Wait
	for i := range p.lanes {
		l := &p.lanes[i]
		if l.passed || l.wait.After == 0 {
			continue
		}
		blocked := w.Blocked || l.wait.Blocked
		if w.After == 0 {
			w = l.wait
		}
		w.After, w.Blocked = min(w.After, l.wait.After), blocked
	}
	return w
}

// through takes the batch through one handler.
func (g *Gate) through(ctx context.Context, h int, batch []*Pending) {
	if g.opts.Deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, g.opts.Deadline)
		defer cancel()
	}
	handler := &g.opts.Handlers[h]
	var (
		items []Item
		open  []*Pending
	)
	for _, p := range batch {
		l := &p.lanes[h]
		if l.passed {
			continue
		}
		if err := l.extract(handler.Extractor, p.Record); err != nil {
			g.trouble(handler, p, l, err)
			continue
		}
		if l.invalid != nil {
			g.settle(ctx, handler, p, l, Verdict{Outcome: OutcomeInvalid, Class: Held, Reason: l.invalid.Error()})
			continue
		}
		items, open = append(items, l.item), append(open, p)
	}
	if len(items) == 0 {
		return
	}
	verdicts, err := g.handle(ctx, handler, items)
	if err != nil {
		for _, p := range open {
			g.trouble(handler, p, &p.lanes[h], err)
		}
		return
	}
	for i, v := range verdicts {
		g.settle(ctx, handler, open[i], &open[i].lanes[h], v)
	}
}

// extract reads what the handler needs, once.
func (l *lane) extract(x *Extractor, r Record) error {
	if l.read {
		return nil
	}
	item, err := x.Extract(r)
	item.Record = r
	if err != nil {
		var ok bool
		if l.invalid, ok = errors.AsType[*InvalidError](err); !ok {
			return err
		}
	}
	l.item, l.read = item, true
	return nil
}

func (g *Gate) handle(ctx context.Context, handler *GateHandler, items []Item) ([]Verdict, error) {
	verdicts, err := handler.Handler.Handle(ctx, items)
	if err != nil {
		return nil, err
	}
	stops := len(verdicts) > 0 && verdicts[len(verdicts)-1].Stop != nil
	if len(verdicts) > len(items) || len(verdicts) < len(items) && !stops {
		return nil, fmt.Errorf("handler %s: %d verdicts for %d records", handler.Name, len(verdicts), len(items))
	}
	return verdicts, nil
}

// trouble is a try that decided nothing about the record.
func (g *Gate) trouble(handler *GateHandler, p *Pending, l *lane, err error) {
	l.attempts++
	l.wait = Wait{After: retryDelay(0, l.attempts), Reason: err.Error(), Err: err}
	g.opts.Observe(Observation{
		Handler: handler.Name, Record: &p.Record, Attempt: l.attempts,
		Verdict: Verdict{Outcome: OutcomeFailed, Class: Failed, Reason: err.Error(), Stop: err},
	})
}

// settle acts on a verdict: the lane passes, its record is parked, or it is to be tried again.
func (g *Gate) settle(ctx context.Context, handler *GateHandler, p *Pending, l *lane, v Verdict) {
	l.attempts++
	o := Observation{Handler: handler.Name, Record: &p.Record, Verdict: v, Attempt: l.attempts}
	l.wait = Wait{After: retryDelay(v.RetryAfter, l.attempts), Reason: v.Outcome + ": " + v.Reason, Err: v.Stop}
	if v.Class == Failed && v.Stop == nil {
		l.failures++
	}
	switch {
	case v.Class == Executed || v.Class == Absorbed:
		l.passed, o.Passed = true, true
	case v.Stop != nil || v.Outcome == OutcomeInFlight:
		// Waited for, however long it takes: parking would lose nothing, but nothing is wrong with the record.
	case v.Class == Failed && l.failures < handler.MaxAttempts:
		l.wait.After = min(effectDelay<<min(l.failures-1, maxDoublings), retryCeiling)
	case handler.DeadLetter == "":
		l.wait.Blocked = true
		l.wait.Reason += " (no dead_letter is configured: it holds its partition)"
	default:
		err := g.opts.Park(ctx, DeadLetter{
			Topic: handler.DeadLetter, Record: p.Record, Handler: handler.Name, OrderID: l.item.OrderID, Outcome: v.Outcome, Reason: v.Reason, Attempts: l.attempts,
		})
		if err != nil {
			l.wait.Err = fmt.Errorf("park the record in %s: %w", handler.DeadLetter, err)
			l.wait.Reason = l.wait.Err.Error()
			break
		}
		l.passed, o.Passed, o.Parked = true, true, true
	}
	g.opts.Observe(o)
}
