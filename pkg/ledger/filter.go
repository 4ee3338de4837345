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

// names are the Redis keys of keys.
func (f *Filter) names(keys []Key) []string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = f.opts.Template.Name(k)
	}
	return names
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

// trusts reports whether a COMPLETED marker was written by this ledger after a commit. One that has no id has written none.
func (f *Filter) trusts(m Marker, ledgerID string) bool {
	return m.State == MarkerCompleted && !f.opts.Bare && ledgerID != "" && m.Ledger == ledgerID
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
