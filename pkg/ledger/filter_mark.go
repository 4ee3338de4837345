package ledger

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// Completion asks for the COMPLETED marker of a committed entry.
type Completion struct {
	Key   Key
	Value string
	TTL   time.Duration // bounded by CompletedTTL; an entry that has expired gets no marker
	// Held says that this claim holds the lease, so the key is a marker for certain; otherwise what is there is replaced only
	// if it is a marker or nothing.
	Held bool
}

// Complete marks committed entries.
func (f *Filter) Complete(ctx context.Context, marks []Completion) error {
	names := make([]string, 0, len(marks))
	args := make([]any, 0, completeArgs*len(marks))
	for i := range marks {
		m := &marks[i]
		ttl := min(m.TTL, f.opts.CompletedTTL)
		if ttl < time.Millisecond {
			continue
		}
		held := 0
		if m.Held {
			held = 1
		}
		names = append(names, f.opts.Template.Name(m.Key))
		args = append(args, m.Value, ttl.Milliseconds(), held)
	}
	return f.runScript(ctx, f.scripts.complete, names, args, completeArgs)
}

// Release gives the leases of a claim back, those that are still this claim's. In bare mode it does nothing: a marker
// could be anyone's.
func (f *Filter) Release(ctx context.Context, keys []Key, id ClaimID) error {
	if f.opts.Bare {
		return nil
	}
	args := make([]any, len(keys))
	for i := range args {
		args[i] = f.processing(id)
	}
	return f.runScript(ctx, f.scripts.release, f.names(keys), args, 1)
}

// runScript runs a script over keys with width arguments for each: all at once on a single node, key by key, pipelined, on
// a cluster.
func (f *Filter) runScript(ctx context.Context, script *redis.Script, names []string, args []any, width int) error {
	if len(names) == 0 {
		return nil
	}
	return f.ask(ctx, func(ctx context.Context) error {
		if f.oneNode {
			return script.Run(ctx, f.client, names, args...).Err()
		}
		_, err := f.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, n := range names {
				script.Eval(ctx, p, []string{n}, args[i*width:(i+1)*width]...)
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
