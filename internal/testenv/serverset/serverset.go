// Package serverset starts several servers at once for the tests of all packages, and says in environment variables where
// they are.
package serverset

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/idemctl/idemctl/internal/lab"
	"github.com/idemctl/idemctl/internal/testenv"
)

// Want is one server of a set.
type Want struct {
	Kind lab.Kind
	// Version by its beginning; empty: any.
	Version string
	// Optional: a machine that does not have it goes without. One that is there and does not start is an error all the same.
	Optional bool
}

func (w Want) String() string { return strings.TrimSpace(string(w.Kind) + " " + w.Version) }

// Set is what was started, in the order it was wanted.
type Set struct {
	Servers []*lab.Server
	// Missing are the optional ones that this machine does not have, with the reason.
	Missing []error

	dir string
}

// Start starts all that is wanted at the same time. On an error nothing is left running.
func Start(ctx context.Context, host lab.Host, wants []Want, logger *slog.Logger) (_ *Set, err error) {
	dir, err := os.MkdirTemp("", "idemctl-test-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for the servers: %w", err)
	}
	set := &Set{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, set.Close())
		}
	}()
	// The database's own account must be able to enter it.
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making a folder for the servers: %w", err)
	}
	var mu sync.Mutex
	found := make([]*lab.Server, len(wants))
	g, gctx := errgroup.WithContext(ctx)
	for i, w := range wants {
		g.Go(func() error {
			s, err := start(gctx, w, lab.LaunchOptions{Host: host, Version: w.Version, Dir: dir, Logger: logger})
			mu.Lock()
			defer mu.Unlock()
			if w.Optional && errors.Is(err, lab.ErrNotFound) {
				set.Missing = append(set.Missing, err)
				return nil
			}
			found[i] = s
			return err
		})
	}
	err = g.Wait()
	for _, s := range found {
		if s != nil {
			set.Servers = append(set.Servers, s)
		}
	}
	return set, err
}

func start(ctx context.Context, w Want, opts lab.LaunchOptions) (*lab.Server, error) {
	switch w.Kind {
	case lab.KindMariaDB:
		return lab.MariaDB(ctx, opts)
	case lab.KindMySQL:
		return lab.MySQL(ctx, opts)
	case lab.KindRedis:
		return lab.Redis(ctx, opts)
	case lab.KindValkey:
		return lab.Valkey(ctx, opts)
	case lab.KindKafka:
		return lab.ApacheKafka(ctx, opts)
	case lab.KindEmbedded:
		return lab.EmbeddedKafka(ctx, opts)
	}
	return nil, fmt.Errorf("no server is called %q", w.Kind)
}

// Env names the servers in the variables that package testenv reads, as NAME=value. A variable without servers is left out.
func (s *Set) Env() []string {
	var dsns, urls, clusters []string
	for _, srv := range s.Servers {
		switch srv.Kind {
		case lab.KindMariaDB, lab.KindMySQL:
			dsns = append(dsns, srv.DSN("mysql"))
		case lab.KindRedis, lab.KindValkey:
			urls = append(urls, srv.URL())
		case lab.KindKafka, lab.KindEmbedded:
			clusters = append(clusters, strings.Join(srv.Brokers(), ","))
		}
	}
	var env []string
	for _, v := range []struct {
		name  string
		value []string
	}{{testenv.EnvMySQL, dsns}, {testenv.EnvRedis, urls}, {testenv.EnvKafka, clusters}} {
		if len(v.value) > 0 {
			env = append(env, v.name+"="+strings.Join(v.value, " "))
		}
	}
	return env
}

// Names lists what runs, for people.
func (s *Set) Names() string {
	names := make([]string, len(s.Servers))
	for i, srv := range s.Servers {
		names[i] = srv.Name
	}
	return strings.Join(names, ", ")
}

// Close ends all of them and removes their data.
func (s *Set) Close() error {
	var errs []error
	for _, srv := range s.Servers {
		errs = append(errs, srv.Close())
	}
	if err := os.RemoveAll(s.dir); err != nil {
		errs = append(errs, fmt.Errorf("removing the servers' folder: %w", err))
	}
	return errors.Join(errs...)
}
