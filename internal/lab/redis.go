package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
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
	text, err := redisInfo(ctx, s.Addr)
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

// maxInfo bounds a reply to INFO server, in bytes: it is 1 KB, and another server may answer anything.
const maxInfo = 64 << 10

// redisInfo asks for INFO over a connection of its own. The client library would write to stderr that nobody listens yet.
func redisInfo(ctx context.Context, addr string) (_ string, err error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return "", err
		}
	}
	if _, err := io.WriteString(conn, "INFO server\r\n"); err != nil {
		return "", err
	}
	// The reply is a bulk string: $LENGTH, then that many bytes.
	r := bufio.NewReader(conn)
	head, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	n, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(head, "$")))
	if err != nil || n < 0 || n > maxInfo {
		return "", fmt.Errorf("its reply begins with %q", head)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return "", err
	}
	return string(text), nil
}
