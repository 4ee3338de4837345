package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Claim asks for the leases of keys: SET NX, and a look at what the losers met. acquired is also true where the marker found
// is this claim's own, which happens when the first reply was lost and the client asked again (hazard G10).
func (f *Filter) Claim(ctx context.Context, keys []Key, id ClaimID) (found []Marker, acquired []bool, err error) {
	mine := f.processing(id)
	names := f.names(keys)
	acquired = make([]bool, len(keys))
	err = f.ask(ctx, func(ctx context.Context) error {
		set := f.setEach
		if f.oneNode && len(names) > 1 {
			set = f.setAll
		}
		var err error
		if found, err = set(ctx, names, mine, acquired); err != nil {
			return err
		}
		for i := range found {
			if !acquired[i] {
				acquired[i] = found[i].State == MarkerProcessing && found[i].Raw == mine && !f.opts.Bare
			}
		}
		return nil
	})
	return found, acquired, err
}

// setEach pipelines a SET NX for each key, so that it works across the slots of a cluster, and reads what the losers met.
func (f *Filter) setEach(ctx context.Context, names []string, mine string, acquired []bool) ([]Marker, error) {
	sets := make([]*redis.BoolCmd, len(names))
	if _, err := f.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, n := range names {
			sets[i] = p.SetNX(ctx, n, mine, f.opts.Lease)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	var at []int
	var lost []string
	for i, s := range sets {
		if acquired[i] = s.Val(); !acquired[i] {
			at, lost = append(at, i), append(lost, names[i])
		}
	}
	found := make([]Marker, len(names))
	if len(lost) == 0 {
		return found, nil
	}
	markers, err := f.read(ctx, lost)
	for n, m := range markers {
		found[at[n]] = m
	}
	return found, err
}

var errScriptReply = errors.New("unexpected reply of a script")

// setAll does the same in one script on a single node: a command for each key would cost more than the work itself.
func (f *Filter) setAll(ctx context.Context, names []string, mine string, acquired []bool) ([]Marker, error) {
	replies, err := f.scripts.claim.Run(ctx, f.client, names, mine, f.opts.Lease.Milliseconds()).Slice()
	if err != nil {
		return nil, err
	}
	if len(replies) != len(names) {
		return nil, fmt.Errorf("%w: %d of %d keys", errScriptReply, len(replies), len(names))
	}
	found := make([]Marker, len(names))
	for i, r := range replies {
		switch v := r.(type) {
		case string:
			found[i] = ParseMarker(v)
		case int64:
			acquired[i] = v == 1
			if v != 1 {
				found[i] = Marker{State: MarkerMalformed}
			}
		}
	}
	return found, f.addLeases(ctx, names, found)
}
