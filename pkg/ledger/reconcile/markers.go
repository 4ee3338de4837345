package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemctl/idemctl/pkg/ledger"
)

// reading is what one key held at one moment.
type reading struct {
	ledger.Marker

	wrongType bool
	// idle is for how long nobody had touched the key, where it was asked for.
	idle time.Duration
}

// noTTL and gone are PTTL's answers, as the client hands them out.
const (
	noTTL = time.Duration(-1)
	gone  = time.Duration(-2)
)

// read pipelines GET and PTTL of each key, and looks at each reply by itself (hazard C5).
func read(ctx context.Context, c redis.Cmdable, names []string) ([]reading, error) {
	gets := make([]*redis.StringCmd, len(names))
	ttls := make([]*redis.DurationCmd, len(names))
	_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, n := range names {
			gets[i], ttls[i] = p.Get(ctx, n), p.PTTL(ctx, n)
		}
		return nil
	})
	if err != nil && !isReply(err) {
		return nil, fmt.Errorf("read %d markers: %w", len(names), err)
	}
	out := make([]reading, len(names))
	for i := range names {
		ttl, err := ttls[i].Result()
		if err != nil {
			return nil, fmt.Errorf("read a marker's TTL: %w", err)
		}
		if out[i], err = parse(gets[i], ttl); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// readFirst is read for keys that a scan has found. A key without a TTL is first asked for how long it has lain untouched:
// the reading itself ends that, and it is the only sign of its age.
func readFirst(ctx context.Context, c redis.Cmdable, names []string) ([]reading, error) {
	ttls := make([]*redis.DurationCmd, len(names))
	if _, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, n := range names {
			ttls[i] = p.PTTL(ctx, n)
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read the TTL of %d markers: %w", len(names), err)
	}
	gets := make([]*redis.StringCmd, len(names))
	idles := map[int]*redis.DurationCmd{}
	if _, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, n := range names {
			if ttls[i].Val() == noTTL {
				idles[i] = p.ObjectIdleTime(ctx, n)
			}
			gets[i] = p.Get(ctx, n)
		}
		return nil
	}); err != nil && !isReply(err) {
		return nil, fmt.Errorf("read %d markers: %w", len(names), err)
	}
	out := make([]reading, len(names))
	for i := range names {
		var err error
		if out[i], err = parse(gets[i], ttls[i].Val()); err != nil {
			return nil, err
		}
		if idle := idles[i]; idle != nil && idle.Err() == nil { // an LFU policy knows no idle time
			out[i].idle = idle.Val()
		}
	}
	return out, nil
}

// parse makes a reading of two replies.
func parse(get *redis.StringCmd, ttl time.Duration) (reading, error) {
	raw, err := get.Result()
	switch {
	case errors.Is(err, redis.Nil), ttl == gone:
		return reading{}, nil
	case redis.HasErrorPrefix(err, "WRONGTYPE"):
		return reading{Marker: ledger.Marker{State: ledger.MarkerMalformed, TTL: ttl}, wrongType: true}, nil
	case err != nil:
		return reading{}, fmt.Errorf("read a marker: %w", err)
	}
	m := reading{Marker: ledger.ParseMarker(raw)}
	m.TTL = ttl
	return m, nil
}

// isReply reports an error that Redis itself sent about one command, Nil included.
func isReply(err error) bool {
	var re redis.Error
	return errors.As(err, &re)
}
