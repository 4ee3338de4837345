package lab_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/idemctl/idemctl/internal/lab"
)

// parentEnv makes this test binary start servers in that folder, name their processes and wait to be killed.
const parentEnv = "IDEMCTL_TEST_LAB_PARENT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentEnv); dir != "" {
		os.Exit(parent(dir))
	}
	os.Exit(m.Run())
}

func parent(dir string) int {
	ctx := context.Background()
	for _, start := range []launcher{lab.MariaDB, lab.MySQL, lab.Redis, lab.ApacheKafka} {
		s, err := start(ctx, lab.LaunchOptions{Host: lab.NewHost(os.Getenv), Dir: dir})
		if errors.Is(err, lab.ErrNotFound) {
			continue
		}
		if err != nil {
			fmt.Println("error:", err)
			return 1
		}
		fmt.Println(s.Kind, "=", s.PID())
	}
	fmt.Println("ready")
	select {}
}

type launcher = func(context.Context, lab.LaunchOptions) (*lab.Server, error)

// folder is a folder for servers that a database's own account may enter, unlike t.TempDir's under root.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "idemctl-labtest-") //nolint:usetesting // t.TempDir is private to us
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// empty fails the test when a server's folder is still there, or a process that was started in it.
func empty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		t.Errorf("%s is left in the folder of the servers", e.Name())
	}
	for _, p := range processesIn(t, dir) {
		t.Errorf("a process is left: %s", p)
	}
}

// processesIn lists the running processes that name the folder in their command line or run in it.
func processesIn(t *testing.T, dir string) []string {
	t.Helper()
	if runtime.GOOS != "linux" {
		return nil
	}
	procs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, p := range procs {
		cmd, err := os.ReadFile(filepath.Join(p, "cmdline"))
		if err != nil {
			continue // ended meanwhile
		}
		if filepath.Base(p) == strconv.Itoa(os.Getpid()) {
			continue
		}
		cwd, _ := os.Readlink(filepath.Join(p, "cwd"))
		line := strings.ReplaceAll(string(cmd), "\x00", " ")
		if strings.HasPrefix(cwd, dir) || strings.Contains(line, dir) {
			out = append(out, filepath.Base(p)+" "+line)
		}
	}
	return out
}

// alive reports that a process runs; one that is dead and not yet reaped by its new parent does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// eventually polls until the condition holds, and fails the test when it has not after a time that no machine needs.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-deadline:
			t.Fatalf("never came true: %s", what)
		case <-tick.C:
		}
	}
}

// host is this machine.
func host() lab.Host { return lab.NewHost(os.Getenv) }

// fakeServer makes a host that has one program only: it calls itself Redis, and then does what the shell script says.
func fakeServer(t *testing.T, script string) lab.Host {
	t.Helper()
	dir := t.TempDir()
	text := "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'Redis server v=9.9.9 sha=0'; exit 0; fi\n" + script + "\n"
	if err := os.WriteFile(filepath.Join(dir, "redis-server"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return lab.Host{Path: []string{dir}}
}
