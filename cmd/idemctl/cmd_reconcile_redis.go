package main

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// scanRedis opens a client for long pipelines: what bounds a guard's single call is far too short for them.
func (a *app) scanRedis(ctx context.Context) (redis.UniversalClient, error) {
	cfg, err := a.Config()
	if err != nil {
		return nil, err
	}
	opts, err := cfg.redisOptions(a.flags.connectTimeout)
	if err != nil {
		return nil, err
	}
	opts.ReadTimeout = max(opts.ReadTimeout, reconcileRead)
	opts.WriteTimeout = max(opts.WriteTimeout, reconcileRead)
	client := redis.NewUniversalClient(opts)
	a.closeLater(client)
	err = a.firstContact(ctx, "Redis", cfg.redisAddress(), func(ctx context.Context) error { return client.Ping(ctx).Err() })
	if err != nil {
		return nil, err
	}
	return client, nil
}
