package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrFilterAway says that Redis was not asked, or did not answer in time. The guard goes on with the ledger alone.
var ErrFilterAway = errors.New("redis does not answer")

// FilterOptions shape a Filter.
type FilterOptions struct {
	Template KeyTemplate
	// Lease is the TTL of a PROCESSING marker.
	Lease time.Duration
	// CompletedTTL is the TTL of a COMPLETED marker.
	CompletedTTL time.Duration
	// Timeout bounds one call: what a stalled Redis can cost a message. 0 means 250 ms.
	Timeout time.Duration
	// Bare writes the bare words PROCESSING and COMPLETED, as other services do. Ownership cannot be proved then: a lease
	// is never released early, and COMPLETED never absorbs alone.
	Bare bool
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// cooldown is how long a Redis that did not answer is left alone, so that a stall costs one timeout per second and not one
// per message.
const cooldown = time.Second

// Filter keeps the markers. It is an optimisation that may lose keys at any time: nothing is decided by a key's absence.
type Filter struct {
	client  redis.Cmdable
	opts    FilterOptions
	oneNode bool // MGET reaches every key
	scripts filterScripts
	// retryAt is when a Redis that failed may be asked again (Unix ns); 0: it is well.
	retryAt atomic.Int64
}

// NewFilter returns a filter over a client that the caller owns. The client must honour deadlines
// (ContextTimeoutEnabled), or a stalled Redis would stall the guard with it.
func NewFilter(client redis.UniversalClient, opts FilterOptions) (*Filter, error) {
	deadlines, oneNode := true, false
	switch c := client.(type) {
	case *redis.Client:
		oneNode = true
		deadlines = c.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		deadlines = c.Options().ContextTimeoutEnabled
	}
	switch {
	case !deadlines:
		return nil, errors.New("redis client: ContextTimeoutEnabled must be set, or a stalled Redis stalls the guard")
	case opts.Timeout < 0:
		return nil, fmt.Errorf("redis timeout %v: expected 0 or more", opts.Timeout)
	case opts.Template == KeyTemplate{}:
		return nil, fmt.Errorf("%w: no key template", ErrKey)
	case opts.Lease < time.Second:
		return nil, fmt.Errorf("lease %v: expected at least 1s", opts.Lease)
	case opts.CompletedTTL < time.Second:
		return nil, fmt.Errorf("completed_ttl %v: expected at least 1s", opts.CompletedTTL)
	}
	if opts.Timeout == 0 {
		opts.Timeout = 250 * time.Millisecond
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Filter{client: client, oneNode: oneNode, opts: opts, scripts: newFilterScripts()}, nil
}

// Lease is the TTL of a PROCESSING marker.
func (f *Filter) Lease() time.Duration { return f.opts.Lease }

// Claim asks for the leases of keys: SET NX in one pipeline, and a second one that reads what the losers met. acquired is
// also true where the marker found is this claim's own, which happens when the first reply was lost and the client asked
// again (hazard G10).
func (f *Filter) Claim(ctx context.Context, keys []Key, id ClaimID) (found []Marker, acquired []bool, err error) {
	mine := f.processing(id)
	names := f.names(keys)
	found, acquired = make([]Marker, len(keys)), make([]bool, len(keys))
	err = f.ask(ctx, func(ctx context.Context) error {
		sets := make([]*redis.BoolCmd, len(names))
		if _, err := f.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, n := range names {
				sets[i] = p.SetNX(ctx, n, mine, f.opts.Lease)
			}
			return nil
		}); err != nil {
			return err
		}
		var lost []string
		for i, s := range sets {
			if acquired[i] = s.Val(); !acquired[i] {
				lost = append(lost, names[i])
			}
		}
		if len(lost) == 0 {
			return nil
		}
		markers, err := f.read(ctx, lost)
		if err != nil {
			return err
		}
		for i := range sets {
			if acquired[i] {
				continue
			}
			found[i], markers = markers[0], markers[1:]
			acquired[i] = found[i].State == MarkerProcessing && found[i].Raw == mine && !f.opts.Bare
		}
		return nil
	})
	return found, acquired, err
}

// names are the Redis keys of keys.
func (f *Filter) names(keys []Key) []string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = f.opts.Template.Name(k)
	}
	return names
}

// Look reads the markers of keys, in order. Only a lease is asked for its TTL: of other markers it says nothing here. A key
// of another type reads as none.
func (f *Filter) Look(ctx context.Context, keys []Key) ([]Marker, error) {
	if len(keys) == 0 { // an MGET of nothing is an error, and would count as Redis being away
		return nil, nil
	}
	names := f.names(keys)
	var markers []Marker
	err := f.ask(ctx, func(ctx context.Context) error {
		var err error
		markers, err = f.values(ctx, names)
		if err != nil {
			return err
		}
		return f.addLeases(ctx, names, markers)
	})
	return markers, err
}

// values reads markers without their TTL: one MGET on a single node, pipelined GETs across the slots of a cluster.
func (f *Filter) values(ctx context.Context, names []string) ([]Marker, error) {
	markers := make([]Marker, len(names))
	if !f.oneNode {
		return markers, f.readEach(ctx, names, markers)
	}
	values, err := f.client.MGet(ctx, names...).Result()
	if err != nil {
		return nil, err
	}
	for i, v := range values {
		if raw, ok := v.(string); ok {
			markers[i] = ParseMarker(raw)
		}
	}
	return markers, nil
}

func (f *Filter) readEach(ctx context.Context, names []string, markers []Marker) error {
	gets := make([]*redis.StringCmd, len(names))
	_, err := f.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, n := range names {
			gets[i] = p.Get(ctx, n)
		}
		return nil
	})
	if err != nil && !isReply(err) {
		return err
	}
	for i, get := range gets {
		switch raw, err := get.Result(); {
		case errors.Is(err, redis.Nil), redis.HasErrorPrefix(err, "WRONGTYPE"):
		case err != nil:
			return err
		default:
			markers[i] = ParseMarker(raw)
		}
	}
	return nil
}

// addLeases reads the leases among the markers again, with their TTL.
func (f *Filter) addLeases(ctx context.Context, names []string, markers []Marker) error {
	var at []int
	var leased []string
	for i := range markers {
		if markers[i].State == MarkerProcessing {
			at, leased = append(at, i), append(leased, names[i])
		}
	}
	if len(at) == 0 {
		return nil
	}
	again, err := f.read(ctx, leased)
	for n, m := range again {
		markers[at[n]] = m
	}
	return err
}

// read pipelines GET and PTTL, one key each, so that it works across the slots of a cluster; each reply is looked at by
// itself (hazard C5).
func (f *Filter) read(ctx context.Context, names []string) ([]Marker, error) {
	gets := make([]*redis.StringCmd, len(names))
	ttls := make([]*redis.DurationCmd, len(names))
	_, err := f.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, n := range names {
			gets[i], ttls[i] = p.Get(ctx, n), p.PTTL(ctx, n)
		}
		return nil
	})
	if err != nil && !isReply(err) {
		return nil, err
	}
	markers := make([]Marker, len(names))
	for i := range names {
		raw, err := gets[i].Result()
		switch {
		case errors.Is(err, redis.Nil):
			continue
		case redis.HasErrorPrefix(err, "WRONGTYPE"):
			markers[i] = Marker{State: MarkerMalformed}
		case err != nil:
			return nil, err
		default:
			markers[i] = ParseMarker(raw)
		}
		ttl, err := ttls[i].Result()
		switch {
		case err != nil:
			return nil, err
		case ttl == -2: // gone since the GET
			markers[i] = Marker{}
		default:
			markers[i].TTL = ttl
		}
	}
	return markers, nil
}

// isReply reports an error that Redis itself sent about one command, Nil included.
func isReply(err error) bool {
	var re redis.Error
	return errors.As(err, &re)
}

// Completion asks for the COMPLETED marker of a committed entry.
type Completion struct {
	Key   Key
	Value string
	TTL   time.Duration // bounded by CompletedTTL; an entry that has expired gets no marker
	// Held says that this claim holds the lease, so the key is a marker for certain; otherwise what is there is replaced only
	// if it is a marker or nothing.
	Held bool
}

// Complete marks committed entries, in one pipeline.
func (f *Filter) Complete(ctx context.Context, marks []Completion) error {
	return f.each(ctx, len(marks), func(ctx context.Context, p redis.Pipeliner, i int) {
		m := &marks[i]
		ttl := min(m.TTL, f.opts.CompletedTTL)
		name := f.opts.Template.Name(m.Key)
		switch {
		case ttl < time.Millisecond:
		case m.Held:
			p.Set(ctx, name, m.Value, ttl)
		default:
			f.scripts.complete.Eval(ctx, p, []string{name}, m.Value, ttl.Milliseconds())
		}
	})
}

// Release gives the leases of a claim back, those that are still this claim's. In bare mode it does nothing: a marker
// could be anyone's.
func (f *Filter) Release(ctx context.Context, keys []Key, id ClaimID) error {
	if f.opts.Bare {
		return nil
	}
	mine := f.processing(id)
	return f.each(ctx, len(keys), func(ctx context.Context, p redis.Pipeliner, i int) {
		f.scripts.release.Eval(ctx, p, []string{f.opts.Template.Name(keys[i])}, mine)
	})
}

// each sends one command for each of n keys, in one pipeline.
func (f *Filter) each(ctx context.Context, n int, command func(ctx context.Context, p redis.Pipeliner, i int)) error {
	if n == 0 {
		return nil
	}
	return f.ask(ctx, func(ctx context.Context) error {
		_, err := f.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i := range n {
				command(ctx, p, i)
			}
			return nil
		})
		return err
	})
}

// TakeOver replaces a PROCESSING marker that has no TTL by this claim's lease, if it still has the value observed.
func (f *Filter) TakeOver(ctx context.Context, key Key, observed string, id ClaimID) (bool, error) {
	var taken int
	err := f.ask(ctx, func(ctx context.Context) error {
		var err error
		taken, err = f.scripts.takeOver.Run(ctx, f.client, []string{f.opts.Template.Name(key)},
			observed, f.processing(id), f.opts.Lease.Milliseconds()).Int()
		return err
	})
	return taken == 1, err
}

// processing is the marker that a claim writes.
func (f *Filter) processing(id ClaimID) string {
	if f.opts.Bare {
		return wordProcessing
	}
	return processing(id.owner())
}

// completed is the marker of an entry of the ledger.
func (f *Filter) completed(ledgerID string, fingerprint []byte) string {
	if f.opts.Bare {
		return wordCompleted
	}
	return completed(ledgerID, fingerprint)
}

// trusts reports whether a COMPLETED marker was written by this ledger after a commit.
func (f *Filter) trusts(m Marker, ledgerID string) bool {
	return m.State == MarkerCompleted && !f.opts.Bare && m.Ledger == ledgerID
}

// ask runs one call within the timeout, unless Redis has just failed. Every failure is ErrFilterAway.
func (f *Filter) ask(ctx context.Context, call func(context.Context) error) error {
	now := f.opts.Now().UnixNano()
	if at := f.retryAt.Load(); at != 0 && (now < at || !f.retryAt.CompareAndSwap(at, now+cooldown.Nanoseconds())) {
		return ErrFilterAway
	}
	callCtx, cancel := context.WithTimeout(ctx, f.opts.Timeout)
	defer cancel()
	err := call(callCtx)
	switch {
	case err == nil:
		f.retryAt.Store(0)
		return nil
	case ctx.Err() != nil: // the caller's own end says nothing about Redis
		return ctx.Err()
	}
	f.retryAt.Store(f.opts.Now().Add(cooldown).UnixNano())
	return fmt.Errorf("%w: %w", ErrFilterAway, err)
}
