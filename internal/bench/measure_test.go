package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{7}, 7}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 2, 100}, 3}} {
		before := slices.Clone(tt.values)
		if got := median(tt.values); got != tt.want {
			t.Errorf("%v: got %v, want %v", tt.values, got, tt.want)
		}
		if !slices.Equal(before, tt.values) {
			t.Errorf("%v became %v", before, tt.values)
		}
	}
}

func TestSidesTakeTurns(t *testing.T) {
	t.Parallel()
	var turns []string
	side := func(name string, values ...float64) measure {
		return func(context.Context) (float64, error) {
			turns = append(turns, name)
			v := values[0]
			values = values[1:]
			return v, nil
		}
	}
	b := &bench{out: io.Discard, errs: io.Discard, opts: options{rounds: 3}}
	if err := b.compare(t.Context(), startup, side("A", 3, 1, 2), side("B", 30, 50, 40)); err != nil {
		t.Fatal(err)
	}
	if want := []string{"A", "B", "A", "B", "A", "B"}; !slices.Equal(turns, want) {
		t.Errorf("turns %v, want %v", turns, want)
	}
	if r := b.results[0]; r.oursValue != 2 || r.rivalValue != 40 {
		t.Errorf("got %v and %v, want the medians 2 and 40", r.oursValue, r.rivalValue)
	}
	// A line that was not asked for is not measured.
	b.opts.run = map[string]bool{guardFresh: true}
	if err := b.compare(t.Context(), startup, nil, nil); err != nil || len(b.results) != 1 {
		t.Errorf("measured all the same: %v, %v", b.results, err)
	}
}

func TestRateHandsOutEveryPieceOnce(t *testing.T) {
	t.Parallel()
	b := &bench{opts: options{length: time.Hour}} // the work ends first
	var mu sync.Mutex
	var from []int
	rate, err := b.rate(t.Context(), load{workers: 3, size: 10, total: 105, do: func(_ context.Context, a, z int) error {
		mu.Lock()
		defer mu.Unlock()
		if z != a+10 {
			t.Errorf("piece [%d, %d)", a, z)
		}
		from = append(from, a)
		return nil
	}})
	if err != nil || rate <= 0 {
		t.Fatalf("rate %v, %v", rate, err)
	}
	slices.Sort(from)
	if want := []int{0, 10, 20, 30, 40, 50, 60, 70, 80, 90}; !slices.Equal(from, want) {
		t.Errorf("pieces %v, want %v", from, want)
	}
}

func TestRateBeginsAnewAndEndsWithAnError(t *testing.T) {
	t.Parallel()
	b := &bench{opts: options{length: time.Hour}}
	errEnough := errors.New("enough")
	n := 0
	_, err := b.rate(t.Context(), load{workers: 1, size: 1, total: 2, again: true, do: func(_ context.Context, from, _ int) error {
		if from != n%2 {
			t.Errorf("message %d at turn %d", from, n)
		}
		n++
		if n == 5 {
			return errEnough
		}
		return nil
	}})
	if !errors.Is(err, errEnough) || n != 5 {
		t.Errorf("%v after %d", err, n)
	}
}
