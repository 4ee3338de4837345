package main

import (
	"context"

	"github.com/idemctl/idemctl/pkg/ledger"
)

// guardFresh compares messages that were never seen: ledger row, effect and both markers.
func (b *bench) guardFresh(ctx context.Context) error {
	rival := &oneByOne{shop: b.shop}
	return b.compare(ctx, guardFresh, b.freshBatches, b.fresh(load{workers: workers, size: 1, do: rival.fresh}))
}

// guardFreshLimit compares the same with the rows alone: what the database takes at best.
func (b *bench) guardFreshLimit(ctx context.Context) error {
	return b.compare(ctx, guardFreshLimit, b.freshBatches,
		b.fresh(load{workers: b.opts.batchers, size: batchSize, do: b.shop.rawRows}))
}

func (b *bench) freshBatches(ctx context.Context) (float64, error) {
	return b.fresh(load{workers: b.opts.batchers, size: batchSize, do: func(ctx context.Context, from, to int) error {
		messages := b.shop.messages[from:to]
		return b.shop.batch(ctx, messages, ledger.Executed, grantAll(messages))
	}})(ctx)
}

// fresh is a turn that begins with empty tables and an empty Redis.
func (b *bench) fresh(l load) measure {
	l.total = len(b.shop.messages)
	return func(ctx context.Context) (float64, error) {
		if err := b.shop.empty(ctx); err != nil {
			return 0, err
		}
		return b.rate(ctx, l)
	}
}

// The duplicates that the two lines have at hand: what one turn takes at most before it begins anew, or ends.
const (
	filterDuplicates = 200_000
	ledgerDuplicates = 800_000
)

// guardDuplicate compares messages whose keys Redis knows as done by this ledger.
func (b *bench) guardDuplicate(ctx context.Context) error {
	if !b.opts.wants(guardDuplicate) {
		return nil
	}
	n := min(filterDuplicates, len(b.shop.messages))
	if err := b.shop.fill(ctx, n); err != nil {
		return err
	}
	rival := &oneByOne{shop: b.shop}
	ours := load{workers: b.opts.batchers, size: batchSize, total: n, again: true, do: func(ctx context.Context, from, to int) error {
		messages := b.shop.messages[from:to]
		return b.shop.batch(ctx, messages, ledger.AbsorbedFilter, grantAll(messages))
	}}
	return b.compare(ctx, guardDuplicate,
		func(ctx context.Context) (float64, error) { return b.rate(ctx, ours) },
		func(ctx context.Context) (float64, error) {
			return b.rate(ctx, load{workers: workers, size: 1, total: n, again: true, do: rival.duplicate})
		})
}

// guardDuplicateLedger compares messages whose keys only the ledger knows: Redis has lost them all.
func (b *bench) guardDuplicateLedger(ctx context.Context) error {
	if !b.opts.wants(guardDuplicateLedger) {
		return nil
	}
	n := min(ledgerDuplicates, len(b.shop.messages))
	if err := b.shop.fill(ctx, n); err != nil {
		return err
	}
	rival := &oneByOne{shop: b.shop}
	forgotten := func(l load) measure {
		l.total = n
		return func(ctx context.Context) (float64, error) {
			if err := b.shop.flush(ctx); err != nil {
				return 0, err
			}
			return b.rate(ctx, l)
		}
	}
	return b.compare(ctx, guardDuplicateLedger,
		forgotten(load{workers: b.opts.batchers, size: batchSize, do: func(ctx context.Context, from, to int) error {
			messages := b.shop.messages[from:to]
			return b.shop.batch(ctx, messages, ledger.AbsorbedLedger, grantAll(messages))
		}}),
		forgotten(load{workers: workers, size: 1, do: rival.duplicateLedger}))
}
