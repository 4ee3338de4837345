package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// measure is one turn of one side. It makes its own preparations, outside of what it measures.
type measure func(ctx context.Context) (float64, error)

// compare gives both sides their turns, ours first, and reports the medians.
func (b *bench) compare(ctx context.Context, name string, ours, rival measure) error {
	return b.compareIn(ctx, name, b.opts.rounds, ours, rival)
}

// compareIn is compare in so many rounds: one is enough for what hardly varies and takes minutes to prepare.
func (b *bench) compareIn(ctx context.Context, name string, rounds int, ours, rival measure) error {
	if !b.opts.wants(name) {
		return nil
	}
	var a, r []float64
	for round := range rounds {
		b.profile = ""
		if b.opts.profiles != "" && round == rounds-1 {
			b.profile = filepath.Join(b.opts.profiles, name+".pprof")
		}
		v, err := ours(ctx)
		b.profile = ""
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		w, err := rival(ctx)
		if err != nil {
			return fmt.Errorf("%s, the rival: %w", name, err)
		}
		a, r = append(a, v), append(r, w)
		b.notef("%s round %d: ours %s, rival %s", name, round+1, number(v), number(w))
	}
	return b.report(name, median(a), median(r))
}

// median of the values; the mean of the two in the middle where their number is even.
func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	if len(s) == 0 {
		return 0
	}
	if len(s)%2 == 1 {
		return s[len(s)/2]
	}
	return (s[len(s)/2-1] + s[len(s)/2]) / 2
}

// load is work that is cut into pieces and handed to workers until the time is over or the work is done.
type load struct {
	workers int
	size    int // of a piece
	total   int // messages there are
	// again begins anew where all are done: for work that leaves nothing changed.
	again bool
	// do works on messages [from, to).
	do func(ctx context.Context, from, to int) error
}

// rate returns the messages done per second of b's turn.
func (b *bench) rate(ctx context.Context, l load) (_ float64, err error) {
	runtime.GC() // what the preparations left behind is not this side's to clear up
	stop, err := b.startProfile()
	if err != nil {
		return 0, err
	}
	pieces := int64(l.total / l.size)
	var next, done atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	began := time.Now()
	for range l.workers {
		g.Go(func() error {
			for time.Since(began) < b.opts.length {
				n := next.Add(1) - 1
				if n >= pieces && !l.again {
					return nil
				}
				from := int(n%pieces) * l.size
				if err := l.do(ctx, from, from+l.size); err != nil {
					return err
				}
				done.Add(int64(l.size))
			}
			return nil
		})
	}
	err = g.Wait()
	took := time.Since(began)
	stop()
	if err != nil {
		return 0, err
	}
	return float64(done.Load()) / took.Seconds(), nil
}

// startProfile begins the CPU profile of this turn, if it is to have one.
func (b *bench) startProfile() (stop func(), err error) {
	if b.profile == "" {
		return func() {}, nil
	}
	f, err := os.Create(b.profile)
	if err != nil {
		return nil, fmt.Errorf("make the profile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, fmt.Errorf("start the profile: %w", err)
	}
	return func() {
		pprof.StopCPUProfile()
		if err := f.Close(); err != nil {
			b.notef("the profile %s is not whole: %v", b.profile, err)
		}
	}, nil
}
