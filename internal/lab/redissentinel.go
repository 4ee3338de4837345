package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// SentinelMaster is the name by which a lab's sentinel knows its master.
const SentinelMaster = "idemctl"

// RedisSentinel is a master and a replica that keep nothing on disk, and one sentinel that watches them.
type RedisSentinel struct {
	Master, Replica, Sentinel *Server
}

// StartRedisSentinel starts the three, and returns when the replica is in step and the sentinel knows of it.
func StartRedisSentinel(ctx context.Context, opts LaunchOptions) (_ *RedisSentinel, err error) {
	s := &RedisSentinel{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.Master, err = AnyRedis(ctx, opts); err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(s.Master.Addr)
	if err != nil {
		return nil, err
	}
	replica := opts
	replica.Args = append([]string{"--replicaof", host + " " + port}, opts.Args...)
	if s.Replica, err = AnyRedis(ctx, replica); err != nil {
		return nil, err
	}
	if s.Sentinel, err = startSentinel(ctx, opts, host, port); err != nil {
		return nil, err
	}
	if err := s.await(ctx); err != nil {
		return nil, fmt.Errorf("waiting for the sentinel: %w", err)
	}
	return s, nil
}

// startSentinel starts the program that the master runs, as a sentinel: it writes its configuration file by itself, so it
// needs one.
func startSentinel(ctx context.Context, opts LaunchOptions, host, port string) (*Server, error) {
	kind := KindRedis
	p, err := opts.Host.find(ctx, kind, opts.Version)
	if errors.Is(err, ErrNotFound) {
		kind = KindValkey
		p, err = opts.Host.find(ctx, kind, opts.Version)
	}
	if err != nil {
		return nil, err
	}
	return launch(ctx, opts, kind, func(_ context.Context, s *Server) (*recipe, error) {
		file := filepath.Join(s.Dir, "sentinel.conf")
		text := fmt.Sprintf("sentinel monitor %[1]s %[2]s %[3]s 1\nsentinel down-after-milliseconds %[1]s 1000\nsentinel failover-timeout %[1]s 5000\n", SentinelMaster, host, port)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return nil, fmt.Errorf("writing the sentinel's configuration: %w", err)
		}
		return &recipe{
			name: p.String() + " sentinel", program: p.path, ports: 1, ready: redisReady,
			argv: func(ports []int) ([]string, error) {
				return p.argv(file, "--sentinel", "--bind", loopback, "--port", strconv.Itoa(ports[0]), "--dir", s.Dir, "--daemonize", "no"), nil
			},
		}, nil
	})
}

// await waits until the sentinel counts the replica, and that is in step with the master.
func (s *RedisSentinel) await(ctx context.Context) (err error) {
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: s.Sentinel.Addr})
	defer func() { err = errors.Join(err, sentinel.Close()) }()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		replicas, err := sentinel.Replicas(ctx, SentinelMaster).Result()
		if err != nil {
			return err
		}
		if len(replicas) == 1 && replicas[0]["master-link-status"] == "ok" {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Close kills the three and removes their folders.
func (s *RedisSentinel) Close() error {
	var errs []error
	for _, server := range []*Server{s.Sentinel, s.Replica, s.Master} {
		if server != nil {
			errs = append(errs, server.Close())
		}
	}
	return errors.Join(errs...)
}
