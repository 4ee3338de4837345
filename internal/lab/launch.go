package lab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// LaunchOptions shape one server.
type LaunchOptions struct {
	Host Host
	// Version asks for a version by its beginning: "11.8". Empty: the first one found.
	Version string
	// Dir is the folder that the server's own temporary folder is made in. Empty: the system's.
	Dir string
	// Args are put behind the server's own arguments (for Kafka: lines of its properties file), so that they win.
	Args []string
	// Durable has the embedded Kafka keep its records on disk, so that Restart finds them again. The other makes always do.
	Durable bool
	// Logger hears what is started and stopped. Nil: nobody.
	Logger *slog.Logger
}

func (o LaunchOptions) logger() *slog.Logger {
	if o.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return o.Logger
}

const (
	// pollEvery is how often a starting server is asked whether it answers.
	pollEvery = 15 * time.Millisecond
	// pollTimeout bounds one such question: a server that accepts a connection and then says nothing is not ready.
	pollTimeout = 3 * time.Second
	// portTries bounds how often a server is started anew because somebody else took its port first.
	portTries = 5
	// logTail is how much of a server's log goes into an error, in bytes.
	logTail = 4 << 10
)

// recipe is what the makes differ in.
type recipe struct {
	name    string // for people: "MariaDB 10.11.19"
	program string
	ports   int
	as      *account
	durable bool // of the embedded Kafka: records are kept on disk
	// argv is the server's command line on these ports.
	argv func(ports []int) ([]string, error)
	// ready asks the server at addr whether it answers, and whether it is ours: another server may sit on its port.
	ready func(ctx context.Context, s *Server, pid int) error
}

// launch makes the server's folder, prepares its data and starts it. On an error nothing is left, neither a process nor a
// folder.
func launch(ctx context.Context, opts LaunchOptions, kind Kind, prepare func(ctx context.Context, s *Server) (*recipe, error)) (_ *Server, err error) {
	dir, err := tempDir(opts.Dir, "idemctl-"+strings.ToLower(strings.Fields(string(kind))[0])+"-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for %s: %w", kind, err)
	}
	s := &Server{Kind: kind, Dir: dir, log: filepath.Join(dir, "server.log"), logger: opts.logger()}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	s.recipe, err = prepare(ctx, s)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	for try := 1; ; try++ {
		s.ports, err = freePorts(ctx, s.recipe.ports)
		if err != nil {
			return nil, s.startError(err)
		}
		s.Addr = address(s.ports[0])
		if err = s.start(ctx); err == nil {
			break
		}
		if try == portTries || ctx.Err() != nil || !addressInUse(err) {
			return nil, err
		}
	}
	s.logger.InfoContext(ctx, "server started", "server", s.Name, "address", s.Addr, "pid", s.PID(), "took", time.Since(began).Round(time.Millisecond))
	return s, nil
}

// tempDir makes a folder that the database's own account may enter, too. Its path is absolute: servers run in other folders.
func tempDir(parent, prefix string) (string, error) {
	dir, err := os.MkdirTemp(parent, prefix)
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // throw-away data, and the reason is above
		return "", errors.Join(err, os.Remove(dir))
	}
	return filepath.Abs(dir)
}

// start runs the program on the ports in hand and waits until it answers.
func (s *Server) start(ctx context.Context) error {
	if s.Kind == KindEmbedded {
		return s.startEmbedded(ctx)
	}
	argv, err := s.recipe.argv(s.ports)
	if err != nil {
		return s.startError(err)
	}
	p, err := startProcess(argv, s.Dir, s.log, s.recipe.as)
	if err != nil {
		return s.startError(err)
	}
	if err := s.await(ctx, p); err != nil {
		return errors.Join(s.startError(err), p.kill())
	}
	s.mu.Lock()
	s.proc = p
	s.mu.Unlock()
	return nil
}

// await polls until the server answers, ends or ctx does.
func (s *Server) await(ctx context.Context, p *process) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	var last error
	for {
		select {
		case <-p.done:
			return p.exitError()
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("it does not answer: %w", context.Cause(ctx)), last)
		case <-tick.C:
		}
		ask, cancel := context.WithTimeout(ctx, pollTimeout)
		last = s.recipe.ready(ask, s, p.pid())
		cancel()
		if last == nil {
			return nil
		}
	}
}

func (s *Server) startError(err error) error {
	return &StartError{Server: s.recipe.name, Program: s.recipe.program, Log: s.Log(), Err: err}
}

// addressInUse reports that the server ended because another one had its port. The texts are those of the C library, of
// Java and of Go.
func addressInUse(err error) bool {
	var se *StartError
	if !errors.As(err, &se) {
		return false
	}
	text := strings.ToLower(se.Log + " " + se.Err.Error())
	return strings.Contains(text, "address already in use") || strings.Contains(text, "address in use")
}

// runTool runs a program of the server's to its end: to initialise a data folder. Its output goes to the server's log.
func (s *Server) runTool(ctx context.Context, r *recipe, argv []string, stdin string) error {
	p, err := startProcessWith(argv, s.Dir, s.log, r.as, stdin)
	if err == nil {
		select {
		case <-p.done:
			if p.err == nil {
				return nil
			}
			err = p.exitError()
		case <-ctx.Done():
			err = errors.Join(context.Cause(ctx), p.kill())
		}
	}
	return &StartError{Server: r.name, Program: argv[0], Log: s.Log(), Err: fmt.Errorf("preparing its data: %w", err)}
}
