package ledger

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

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
