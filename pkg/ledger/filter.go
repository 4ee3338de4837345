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
	scripts filterScripts
	// retryAt is when a Redis that failed may be asked again (Unix ns); 0: it is well.
	retryAt atomic.Int64
}

// NewFilter returns a filter over a client that the caller owns. The client must honour deadlines
// (ContextTimeoutEnabled), or a stalled Redis would stall the guard with it.
func NewFilter(client redis.UniversalClient, opts FilterOptions) (*Filter, error) {
	if c, ok := client.(*redis.Client); ok && !c.Options().ContextTimeoutEnabled {
		return nil, errors.New("redis client: ContextTimeoutEnabled must be set, or a stalled Redis stalls the guard")
	}
	switch {
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
	return &Filter{client: client, opts: opts, scripts: newFilterScripts()}, nil
}

// Lease is the TTL of a PROCESSING marker.
func (f *Filter) Lease() time.Duration { return f.opts.Lease }

// Claim asks for the lease of a key: SET NX. acquired is also true when the marker found is this claim's own, which
// happens when the first reply was lost and the client asked again (hazard G10).
func (f *Filter) Claim(ctx context.Context, key Key, id ClaimID) (found Marker, acquired bool, err error) {
	name, mine := f.opts.Template.Name(key), f.processing(id)
	err = f.ask(ctx, func(ctx context.Context) error {
		var err error
		if acquired, err = f.client.SetNX(ctx, name, mine, f.opts.Lease).Result(); err != nil || acquired {
			return err
		}
		markers, err := f.read(ctx, []string{name})
		if err == nil {
			found = markers[0]
			acquired = found.State == MarkerProcessing && found.Raw == mine && !f.opts.Bare
		}
		return err
	})
	return found, acquired, err
}

// Look reads the markers of keys, in order.
func (f *Filter) Look(ctx context.Context, keys []Key) ([]Marker, error) {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = f.opts.Template.Name(k)
	}
	var markers []Marker
	err := f.ask(ctx, func(ctx context.Context) error {
		var err error
		markers, err = f.read(ctx, names)
		return err
	})
	return markers, err
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

// Complete marks a committed entry. held says that this claim holds the lease, so the key is a marker for certain;
// otherwise what is there is replaced only if it is a marker or nothing.
func (f *Filter) Complete(ctx context.Context, key Key, value string, ttl time.Duration, held bool) error {
	ttl = min(ttl, f.opts.CompletedTTL)
	if ttl < time.Millisecond {
		return nil
	}
	name := f.opts.Template.Name(key)
	return f.ask(ctx, func(ctx context.Context) error {
		if held {
			return f.client.Set(ctx, name, value, ttl).Err()
		}
		return f.scripts.complete.Run(ctx, f.client, []string{name}, value, ttl.Milliseconds()).Err()
	})
}

// Release gives the lease of a claim back, if it is still this claim's. In bare mode it does nothing: the marker could be
// anyone's.
func (f *Filter) Release(ctx context.Context, key Key, id ClaimID) error {
	if f.opts.Bare {
		return nil
	}
	return f.ask(ctx, func(ctx context.Context) error {
		return f.scripts.release.Run(ctx, f.client, []string{f.opts.Template.Name(key)}, f.processing(id)).Err()
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
