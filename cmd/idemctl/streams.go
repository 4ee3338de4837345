package main

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"

	"golang.org/x/term"
)

// streams are the process's three files as a value, so that tests can hand in their own.
type streams struct {
	In  io.Reader
	Out *outWriter
	Err *errWriter
	// OutTerminal and ErrTerminal say who reads: a person at a terminal, or a file or pipe.
	OutTerminal bool
	ErrTerminal bool
	// Width of the terminal in cells; 0 where there is none.
	Width int
}

func systemStreams() *streams {
	s := &streams{
		In:          os.Stdin,
		Out:         newOutWriter(os.Stdout),
		Err:         &errWriter{w: os.Stderr},
		OutTerminal: term.IsTerminal(int(os.Stdout.Fd())),
		ErrTerminal: term.IsTerminal(int(os.Stderr.Fd())),
	}
	if s.OutTerminal {
		if w, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
			s.Width = w
		}
	}
	return s
}

// outWriter is stdout. It remembers what a renderer may forget to look at: whether anything was written, and the first
// write that failed.
//
// A reader that has gone away (| head) is not a failure (R8): what follows is dropped, writes go on to "succeed", and a
// job that changes something is not cut short by it. A job that only lists may watch Gone and end early.
type outWriter struct {
	mu      sync.Mutex
	w       io.Writer
	written bool
	err     error
	gone    chan struct{}
	closed  bool
}

func newOutWriter(w io.Writer) *outWriter { return &outWriter{w: w, gone: make(chan struct{})} }

func (o *outWriter) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return len(p), nil
	}
	if o.err != nil {
		return 0, o.err
	}
	n, err := o.w.Write(p)
	o.written = o.written || n > 0
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, syscall.EPIPE):
		o.closed = true
		close(o.gone)
		return len(p), nil
	}
	o.err = err
	return n, err //nolint:wrapcheck // a writer hands on the error of the writer below
}

// Gone is closed when the reader of stdout has gone away.
func (o *outWriter) Gone() <-chan struct{} { return o.gone }

// Written reports whether anything reached stdout.
func (o *outWriter) Written() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.written
}

// Failed returns the first error of writing other than a reader gone away: a full disk must not end in exit 0.
func (o *outWriter) Failed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// errWriter is stderr, shared by log lines, errors and progress. While a progress bar is shown, every write steps around it.
type errWriter struct {
	mu     sync.Mutex
	w      io.Writer
	around func(write func())
}

func (e *errWriter) Write(p []byte) (n int, err error) {
	e.mu.Lock()
	around := e.around
	e.mu.Unlock()
	if around == nil {
		return e.w.Write(p) //nolint:wrapcheck // a writer hands on the error of the writer below
	}
	around(func() { n, err = e.w.Write(p) })
	return n, err
}

// Around makes every later write go through fn, or straight to the stream again with nil.
func (e *errWriter) Around(fn func(write func())) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.around = fn
}

// Raw is the stream below, for the bar itself.
func (e *errWriter) Raw() io.Writer { return e.w }
