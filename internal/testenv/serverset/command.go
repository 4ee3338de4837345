package serverset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// Run runs a command with additional environment variables and returns its exit code: 128 and the signal's number when a
// signal ended it, as a shell does. The command has a process group of its own and gets every signal that comes on
// signals, so that it ends in order, once.
func Run(argv, env []string, stdout, stderr io.Writer, signals <-chan os.Signal) (int, error) {
	cmd := exec.Command(argv[0], argv[1:]...) // ended by signals, not by a context
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("running %s: %w", argv[0], err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case sig := <-signals:
			if s, ok := sig.(syscall.Signal); ok {
				_ = syscall.Kill(-cmd.Process.Pid, s) // fails only when the group has ended, which done tells
			}
		case err := <-done:
			var exit *exec.ExitError
			if err == nil {
				return 0, nil
			}
			if !errors.As(err, &exit) {
				return 0, fmt.Errorf("running %s: %w", argv[0], err)
			}
			if st, ok := exit.Sys().(syscall.WaitStatus); ok && st.Signaled() {
				return 128 + int(st.Signal()), nil
			}
			return exit.ExitCode(), nil
		}
	}
}

// Signals subscribes to those that end a program, and derives a context that ends with the first one: for what happens
// before the command runs.
func Signals(ctx context.Context) (context.Context, <-chan os.Signal, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	in, out := make(chan os.Signal, 4), make(chan os.Signal, 4)
	signal.Notify(in, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		for sig := range in {
			cancel(fmt.Errorf("%w: %s", ErrInterrupted, sig))
			out <- sig
		}
	}()
	return ctx, out, func() {
		signal.Stop(in)
		close(in)
		cancel(nil)
	}
}

// ErrInterrupted is the cause of a context that a signal ended.
var ErrInterrupted = errors.New("interrupted")
