package lab

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Redis starts a Redis that keeps nothing on disk.
func Redis(ctx context.Context, opts LaunchOptions) (*Server, error) {
	return keyValue(ctx, opts, KindRedis)
}

// Valkey starts a Valkey that keeps nothing on disk.
func Valkey(ctx context.Context, opts LaunchOptions) (*Server, error) {
	return keyValue(ctx, opts, KindValkey)
}

func keyValue(ctx context.Context, opts LaunchOptions, kind Kind) (*Server, error) {
	p, err := opts.Host.find(ctx, kind, opts.Version)
	if err != nil {
		return nil, err
	}
	return launch(ctx, opts, kind, func(_ context.Context, s *Server) (*recipe, error) {
		return &recipe{
			name: p.String(), program: p.path, ports: 1, ready: redisReady,
			argv: func(ports []int) ([]string, error) {
				return p.argv(slices.Concat([]string{
					"--bind", loopback, "--port", strconv.Itoa(ports[0]), "--dir", s.Dir,
					"--save", "", "--appendonly", "no", "--daemonize", "no",
				}, opts.Args)...), nil
			},
		}, nil
	})
}

// redisReady asks the server for its version and its process.
func redisReady(ctx context.Context, s *Server, pid int) error {
	opts, err := redis.ParseURL(s.URL())
	if err != nil {
		return fmt.Errorf("asking %s: %w", s.Addr, err)
	}
	opts.MaxRetries = -1 // the caller asks again
	opts.ContextTimeoutEnabled = true
	c := redis.NewClient(opts)
	defer c.Close() //nolint:errcheck // asked again, or not needed any more
	text, err := c.Info(ctx, "server").Result()
	if err != nil {
		return fmt.Errorf("asking %s: %w", s.Addr, err)
	}
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[k] = v
		}
	}
	if info["process_id"] != strconv.Itoa(pid) {
		return fmt.Errorf("another server answers at %s: it is process %s", s.Addr, info["process_id"])
	}
	version := info["redis_version"]
	if v := info["valkey_version"]; v != "" {
		version = v // its redis_version only says what it is compatible with
	}
	s.named(version)
	return nil
}
