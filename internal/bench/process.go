package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// build builds the binary that users run.
func (b *bench) build(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", b.binary(), "github.com/idemctl/idemctl/cmd/idemctl") //nolint:gosec // the path is in a folder of ours
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build idemctl: %w\n%s", err, out)
	}
	return nil
}

func (b *bench) binary() string { return filepath.Join(b.dir, "idemctl") }

// find looks for a program where the lab looks for servers.
func (b *bench) find(name string) string {
	for _, dir := range b.host.Path {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil && filepath.IsAbs(path) {
			return path
		}
	}
	return ""
}

// wall runs a program, its output thrown away, and returns the time from its start to its end.
func wall(ctx context.Context, argv ...string) (time.Duration, error) {
	cmd, complaints := quiet(ctx, argv)
	began := time.Now()
	err := cmd.Run()
	took := time.Since(began)
	if err != nil {
		return 0, programError(argv, err, complaints)
	}
	return took, nil
}

func quiet(ctx context.Context, argv []string) (*exec.Cmd, *bytes.Buffer) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // programs of ours, and kcat
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	return cmd, &complaints
}

func programError(argv []string, err error, complaints *bytes.Buffer) error {
	return fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, complaints)
}

// watchArg makes this program run another one and print what that took. The system counts the memory of a process from
// before it becomes the program asked for, when it is still a copy of its parent; this program holds all orders in memory,
// a fresh copy of it holds nothing.
const watchArg = "watch"

// peak runs a program and returns the most resident memory it had, in MiB.
func peak(ctx context.Context, argv ...string) (float64, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("find this program: %w", err)
	}
	all := append([]string{self, watchArg}, argv...)
	cmd, complaints := quiet(ctx, all)
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		return 0, programError(argv, err, complaints)
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(out.String()), 64)
	if err != nil {
		return 0, fmt.Errorf("memory of %s: %w", argv[0], err)
	}
	return v, nil
}

// watch is this program as the parent of another.
func watch(ctx context.Context, argv []string, stdout, stderr io.Writer) int {
	cmd, complaints := quiet(ctx, argv)
	err := cmd.Run()
	if err == nil {
		var mib float64
		if mib, err = peakOf(cmd.ProcessState); err == nil {
			_, err = fmt.Fprintf(stdout, "%.3f\n", mib)
		}
	}
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "%v\n%s", err, complaints)
		return exitFailed
	}
	return 0
}

// peakOf reads the resident memory that the system noted: kilobytes, but bytes on macOS.
func peakOf(s *os.ProcessState) (float64, error) {
	r, ok := s.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0, errors.New("this system does not say how much memory a process had")
	}
	if runtime.GOOS == "darwin" {
		return float64(r.Maxrss) / (1 << 20), nil
	}
	return float64(r.Maxrss) / (1 << 10), nil
}
