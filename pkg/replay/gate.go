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

// GateHandler is one handler of a consumed topic.
type GateHandler struct {
	Name      string
	Extractor *Extractor
	Handler   Handler
	// MaxAttempts bounds the tries of an effect that fails; 0 means DefaultMaxAttempts. A server's trouble, a missing month and
	// another owner's lease are waited for without bound.
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
	Attempts int
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
	// Deadline bounds one call of a handler; 0: none. It lies below the lease and the group's rebalance timeout.
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
	attempts int
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
}

// Pass takes records of one partition, in the order of their offsets, as far as they get. It returns how many of them have
// passed, counted from the first without a gap: only their offsets may be committed (hazard G15). Records behind one that
// is held may have been executed; they are kept as passed and not asked about again.
func (g *Gate) Pass(ctx context.Context, batch []*Pending) (n int, wait Wait) {
	var first soonest
	for h := range g.opts.Handlers {
		first.add(g.through(ctx, h, batch))
	}
	for n < len(batch) && batch[n].passed() {
		n++
	}
	if n == len(batch) {
		return n, Wait{}
	}
	return n, first.Wait
}

// through takes the batch through one handler.
func (g *Gate) through(ctx context.Context, h int, batch []*Pending) Wait {
	handler := &g.opts.Handlers[h]
	var (
		wait  soonest
		items []Item
		lanes []*lane
		open  []*Pending
	)
	for _, p := range batch {
		l := &p.lanes[h]
		if l.passed {
			continue
		}
		if err := l.extract(handler.Extractor, p.Record); err != nil {
			wait.add(Wait{After: retryDelay(0, l.attempts), Reason: err.Error(), Err: err})
			continue
		}
		if l.invalid != nil {
			l.attempts++
			wait.add(g.settle(ctx, handler, p, l, Verdict{Outcome: OutcomeInvalid, Class: Held, Reason: l.invalid.Error()}))
			continue
		}
		items, lanes, open = append(items, l.item), append(lanes, l), append(open, p)
	}
	if len(items) == 0 {
		return wait.Wait
	}
	verdicts, err := g.handle(ctx, handler, items)
	if err != nil {
		for _, l := range lanes {
			l.attempts++
		}
		wait.add(Wait{After: retryDelay(0, lanes[0].attempts), Reason: err.Error(), Err: err})
		return wait.Wait
	}
	for i, v := range verdicts {
		lanes[i].attempts++
		wait.add(g.settle(ctx, handler, open[i], lanes[i], v))
	}
	if len(verdicts) < len(items) { // the handler stopped; what is behind is as it was
		wait.add(Wait{After: retryFloor})
	}
	return wait.Wait
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
	if g.opts.Deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, g.opts.Deadline)
		defer cancel()
	}
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

// settle acts on a verdict: the lane passes, its record is parked, or it is to be tried again.
func (g *Gate) settle(ctx context.Context, handler *GateHandler, p *Pending, l *lane, v Verdict) Wait {
	o := Observation{Handler: handler.Name, Record: &p.Record, Verdict: v, Attempt: l.attempts}
	wait := Wait{After: retryDelay(v.RetryAfter, l.attempts), Reason: v.Outcome + ": " + v.Reason, Err: v.Stop}
	switch {
	case v.Class == Executed || v.Class == Absorbed:
		l.passed, o.Passed = true, true
	case v.Stop != nil || v.Outcome == OutcomeInFlight:
		// Waited for, however long it takes: parking would lose nothing, but nothing is wrong with the record.
	case v.Class == Failed && l.attempts < handler.MaxAttempts:
		wait.After = min(effectDelay<<(l.attempts-1), retryCeiling)
	case handler.DeadLetter == "":
		wait.Reason += " (no dead_letter is configured: it holds its partition)"
	default:
		err := g.opts.Park(ctx, DeadLetter{
			Topic: handler.DeadLetter, Record: p.Record, Handler: handler.Name, OrderID: l.item.OrderID, Outcome: v.Outcome, Reason: v.Reason, Attempts: l.attempts,
		})
		if err != nil {
			wait.Err = fmt.Errorf("park the record in %s: %w", handler.DeadLetter, err)
			wait.Reason = wait.Err.Error()
			break
		}
		l.passed, o.Passed, o.Parked = true, true, true
	}
	g.opts.Observe(o)
	if l.passed {
		return Wait{}
	}
	return wait
}

// soonest keeps the wait that ends first.
type soonest struct{ Wait }

func (s *soonest) add(w Wait) {
	if w.After != 0 && (s.After == 0 || w.After < s.After) {
		s.Wait = w
	}
}
