package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"
)

// stopTimeout bounds a graceful stop; a server that takes longer is killed.
const stopTimeout = 20 * time.Second

// Server is one running server. Its methods may be called by several goroutines.
type Server struct {
	Kind Kind
	// Name is make and version as the server itself says: "MariaDB 10.11.19".
	Name string
	// Version is the version alone.
	Version string
	// Addr is where it listens: "127.0.0.1:port". It stays the same over a Restart.
	Addr string
	// Dir is the server's folder: data and log. Close removes it.
	Dir string

	log    string
	logger *slog.Logger
	recipe *recipe
	ports  []int

	mu       sync.Mutex
	proc     *process // nil when stopped
	embedded *embedded
}

// DSN points a MySQL client at that schema, in go-sql-driver's form. There is no password.
func (s *Server) DSN(schema string) string { return "root@tcp(" + s.Addr + ")/" + schema }

// URL points a Redis client at the server.
func (s *Server) URL() string { return "redis://" + s.Addr + "/0" }

// Brokers points a Kafka client at the server.
func (s *Server) Brokers() []string { return []string{s.Addr} }

// PID is the server's process, 0 when it is stopped or embedded.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return 0
	}
	return s.proc.pid()
}

// Log is the end of what the server has written, of this run and those before.
func (s *Server) Log() string {
	f, err := os.Open(s.log)
	if err != nil {
		return ""
	}
	defer f.Close() //nolint:errcheck // only read
	if fi, err := f.Stat(); err == nil && fi.Size() > logTail {
		if _, err := f.Seek(-logTail, io.SeekEnd); err != nil {
			return ""
		}
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return ""
	}
	return string(b)
}

// Stop ends the server in order, so that its data are whole; after 20 s it is killed. The data stay for Restart. Stopping
// a stopped server does nothing.
func (s *Server) Stop() error {
	p, e := s.take()
	if e != nil {
		e.stop()
		return nil
	}
	if p == nil {
		return nil
	}
	// A paused server hears nothing until it goes on.
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGCONT} {
		if err := p.signal(sig); err != nil && !errors.Is(err, ErrStopped) {
			return fmt.Errorf("stopping %s: %w", s.Name, err)
		}
	}
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		return p.kill()
	}
}

// Kill ends the server at once, as a crash would (SIGKILL), and returns when it is gone. The data stay for Restart.
func (s *Server) Kill() error {
	p, e := s.take()
	if e != nil {
		e.stop()
		return nil
	}
	if p == nil {
		return nil
	}
	if err := p.kill(); err != nil {
		return fmt.Errorf("killing %s: %w", s.Name, err)
	}
	return nil
}

// Pause stalls the server (SIGSTOP): it keeps its connections, accepts new ones in the kernel and answers none of them.
func (s *Server) Pause() error { return s.send(syscall.SIGSTOP, "pausing") }

// Resume ends a Pause.
func (s *Server) Resume() error { return s.send(syscall.SIGCONT, "resuming") }

// Restart starts the server again on the same data and port, stopping it first if it runs, and returns when it answers.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.Stop(); err != nil {
		return err
	}
	for try := 1; ; try++ {
		err := s.start(ctx)
		if err == nil || try == portTries || ctx.Err() != nil || !addressInUse(err) {
			return err
		}
	}
}

// Close kills the server and removes its folder: nobody wants the data any more, so there is nothing to end in order.
func (s *Server) Close() error {
	err := s.Kill()
	if rerr := os.RemoveAll(s.Dir); rerr != nil {
		err = errors.Join(err, fmt.Errorf("removing the folder of %s: %w", s.Name, rerr))
	}
	return err
}

// named keeps what the server says of itself. Only the first start does: others may be reading the names during a Restart.
func (s *Server) named(version string) {
	if s.Name == "" {
		s.Version, s.Name = version, string(s.Kind)+" "+version
	}
}

// take removes what runs from the handle, so that of several callers one ends it.
func (s *Server) take() (*process, *embedded) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, e := s.proc, s.embedded
	s.proc, s.embedded = nil, nil
	return p, e
}

func (s *Server) send(sig os.Signal, doing string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.embedded != nil:
		return fmt.Errorf("%s %s: %w", doing, s.Name, ErrEmbedded)
	case s.proc == nil:
		return fmt.Errorf("%s %s: %w", doing, s.Name, ErrStopped)
	}
	if err := s.proc.signal(sig); err != nil {
		return fmt.Errorf("%s %s: %w", doing, s.Name, err)
	}
	return nil
}
