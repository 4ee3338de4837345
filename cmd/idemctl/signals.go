package main

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

// signalWatch turns SIGINT and SIGTERM into the end of a context, once; the second one ends the process at once.
type signalWatch struct {
	came   atomic.Bool
	ch     chan os.Signal
	pipe   chan os.Signal
	done   chan struct{}
	cancel context.CancelCauseFunc
}

// watchSignals returns a context that ends when a signal comes, with errInterrupted as its cause.
func watchSignals(parent context.Context) (context.Context, *signalWatch) {
	ctx, cancel := context.WithCancelCause(parent)
	w := &signalWatch{
		ch:     make(chan os.Signal, 2), //nolint:mnd // the first and the second
		pipe:   make(chan os.Signal, 1),
		done:   make(chan struct{}),
		cancel: cancel,
	}
	signal.Notify(w.ch, os.Interrupt, syscall.SIGTERM)
	// Caught, so that a write to a pipe nobody reads is an error instead of the process's end (R8). Caught, not ignored:
	// what is ignored stays so in the servers that the lab starts.
	signal.Notify(w.pipe, syscall.SIGPIPE)
	go w.watch()
	return ctx, w
}

// sameSignal is how soon after the first a second signal is still the same request: a terminal, or timeout(1), sends one
// to the process and one to its group.
const sameSignal = 300 * time.Millisecond

func (w *signalWatch) watch() {
	var first time.Time
	for {
		select {
		case <-w.ch:
			now := time.Now()
			if w.came.Swap(true) {
				if now.Sub(first) < sameSignal {
					continue
				}
				// Whoever asks twice does not want to wait for anything, deferred or not.
				os.Exit(exitInterrupted)
			}
			first = now
			w.cancel(errInterrupted)
		case <-w.pipe:
		case <-w.done:
			return
		}
	}
}

// Came reports whether a signal has come.
func (w *signalWatch) Came() bool { return w.came.Load() }

// Stop gives the signals back.
func (w *signalWatch) Stop() {
	signal.Stop(w.ch)
	signal.Stop(w.pipe)
	close(w.done)
	w.cancel(nil)
}
