package main

import (
	"context"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"
)

func (b *bench) wantsReconcile() bool {
	return b.opts.wants(reconcileScan) || b.opts.wants(reconcileMemory)
}

// reconciles compares what walks over all markers: every order has its row and its marker, so nothing is found.
func (b *bench) reconciles(ctx context.Context) error {
	if !b.wantsReconcile() {
		return nil
	}
	if err := b.writeConfig(); err != nil {
		return err
	}
	all := len(b.shop.messages)
	ours := []string{b.binary(), "reconcile", "--config", b.config()}
	if b.opts.wants(reconcileScan) {
		rival, err := b.scan()
		if err != nil {
			return err
		}
		if b.redisCLI == "" {
			b.notef("%s is left out: there is no redis-cli on this machine", reconcileScan)
		} else {
			b.notef("executing %d orders", all)
			if err := b.shop.fill(ctx, all); err != nil {
				return err
			}
			if err := b.compare(ctx, reconcileScan, b.perSecond(all, ours...), b.perSecond(all, rival...)); err != nil {
				return err
			}
		}
	}
	memory := func(n int) measure {
		return func(ctx context.Context) (float64, error) {
			if err := b.shop.fill(ctx, n); err != nil {
				return 0, err
			}
			return peak(ctx, ours...)
		}
	}
	return b.compare(ctx, reconcileMemory, memory(all), memory(all/memoryTimes))
}

// scan is redis-cli listing the same keys; it looks at none of them.
func (b *bench) scan() ([]string, error) {
	opts, err := redis.ParseURL(b.lab.RedisURL)
	if err != nil {
		return nil, fmt.Errorf("read the URL of Redis: %w", err)
	}
	host, port, err := net.SplitHostPort(opts.Addr)
	if err != nil {
		return nil, fmt.Errorf("read the URL of Redis: %w", err)
	}
	return []string{b.redisCLI, "-h", host, "-p", port, "--scan", "--pattern", "idempotent:*"}, nil
}
