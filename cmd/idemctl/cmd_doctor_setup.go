package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemctl/idemctl/internal/doctor"
)

// doctorSetup opens the servers that the checks need. One that does not answer is an answer too: the checks that need it
// say so, and the others go on. A configuration that cannot be used ends the command.
func (a *app) doctorSetup(ctx context.Context, checks []doctor.Check) (doctor.Setup, error) {
	cfg, err := a.Config()
	if err != nil {
		return doctor.Setup{}, err
	}
	scheme, err := cfg.scheme()
	if err != nil {
		return doctor.Setup{}, err
	}
	s := doctor.Setup{
		Scheme: scheme, Zone: cfg.Location(), Retention: cfg.Ledger.Retention, Slack: cfg.Ledger.HorizonSlack,
		KeyTemplate: cfg.Redis.Key, Lease: cfg.Redis.Lease, CompletedTTL: cfg.Redis.CompletedTTL, Bare: cfg.Redis.Markers == markersBare,
		Handlers: cfg.doctorHandlers(), Now: a.now,
	}
	for _, server := range []doctor.Server{doctor.MySQL, doctor.Redis, doctor.Kafka} {
		if !slices.ContainsFunc(checks, func(c doctor.Check) bool { return c.Wants(server) }) {
			continue
		}
		if err := a.doctorServer(ctx, cfg, server, &s); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (a *app) doctorServer(ctx context.Context, cfg *Config, server doctor.Server, s *doctor.Setup) error {
	var err error
	switch server {
	case doctor.MySQL:
		if cfg.Ledger.DSN == "" {
			return nil
		}
		s.DB, err = a.DB(ctx)
		s.DBErr, err = split(err)
	case doctor.Redis:
		if !cfg.redisConfigured() {
			return nil
		}
		s.Redis, err = a.patientRedis(ctx, cfg)
		s.RedisErr, err = split(err)
	case doctor.Kafka:
		if len(cfg.Kafka.Brokers) == 0 {
			return nil
		}
		client, kerr := a.Kafka(nil)
		if kerr != nil {
			return kerr
		}
		s.Kafka = client
		s.KafkaErr, err = client.Ping(ctx), ctx.Err()
	}
	return err
}

// redisConfigured says whether a filter is configured at all.
func (c *Config) redisConfigured() bool {
	return c.Redis.URL != "" || len(c.Redis.Cluster) > 0 || c.Redis.Sentinel.Master != ""
}

// split tells a server that does not answer from a configuration that cannot be used.
func split(err error) (away, wrong error) {
	if _, unreachable := errors.AsType[*unreachableError](err); unreachable && !errors.Is(err, context.Canceled) {
		return err, nil
	}
	return nil, err
}

// patientTimeout bounds one call to Redis of a command that looks: it need not be as quick as a guard, which waits
// redis.timeout.
const patientTimeout = 5 * time.Second

// patientRedis is Redis with a timeout for looking at much.
func (a *app) patientRedis(ctx context.Context, cfg *Config) (redis.UniversalClient, error) {
	opts, err := cfg.redisOptions(a.flags.connectTimeout)
	if err != nil {
		return nil, err
	}
	opts.ReadTimeout, opts.WriteTimeout = patientTimeout, patientTimeout
	client := redis.NewUniversalClient(opts)
	a.closeLater(client)
	return client, a.firstContact(ctx, "Redis", cfg.redisAddress(), func(ctx context.Context) error { return client.Ping(ctx).Err() })
}

func (c *Config) doctorHandlers() []doctor.Handler {
	var hs []doctor.Handler
	for _, name := range sortedKeys(c.Handlers) {
		h := c.Handlers[name]
		hs = append(hs, doctor.Handler{
			Name: name, Topic: h.Topic, BizType: h.BizType, Key: h.Key, EventTime: h.EventTime, Fallback: h.Fallback,
			Fingerprint: h.Fingerprint, P99: h.HandlerP99,
		})
	}
	return hs
}
