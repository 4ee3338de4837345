package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/idemctl/idemctl/internal/testenv"
)

// command runs the real program, as a process of its own, in a folder and with the servers of one test.
type command struct {
	dir string
	env []string
}

// commandResult is what a process left behind.
type commandResult struct {
	stdout, stderr string
	code           int
}

// newCommand gives the test a schema and a Redis prefix; the variables name them, so that a configuration file need only
// hold handlers.
func newCommand(t *testing.T, brokers []string) (command, *testenv.Schema, *testenv.RedisSpace) {
	t.Helper()
	schema, redis := testenv.MySQL(t), testenv.Redis(t)
	c := command{dir: t.TempDir()}
	c.env = []string{
		"XDG_CONFIG_HOME=" + c.dir, "TMPDIR=" + c.dir,
		"IDEMCTL_LEDGER_DSN=" + schema.DSN, "IDEMCTL_REDIS_URL=" + redis.URL, "IDEMCTL_REDIS_KEY=" + redis.Prefix + "{biz_type}:{order_id}",
	}
	if len(brokers) > 0 {
		c.env = append(c.env, "IDEMCTL_KAFKA_BROKERS="+strings.Join(brokers, ","))
	}
	return c, schema, redis
}

// with is the command with other variables; the last of a name holds.
func (c command) with(env ...string) command {
	c.env = append(append([]string{}, c.env...), env...)
	return c
}

func (c command) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// start begins a command; wait gives what it left behind.
func (c command) start(t *testing.T, args ...string) (wait func() commandResult) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Args = append([]string{programName}, args...) // TestMain tells the program from the tests by this name
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = c.dir, c.env, &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatalf("idemctl %s: %v", strings.Join(args, " "), err)
	}
	return func() commandResult {
		t.Helper()
		err := cmd.Wait()
		if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
			t.Fatalf("idemctl %s: %v", strings.Join(args, " "), err)
		}
		return commandResult{stdout: stdout.String(), stderr: stderr.String(), code: cmd.ProcessState.ExitCode()}
	}
}

func (c command) run(t *testing.T, args ...string) commandResult {
	t.Helper()
	return c.start(t, args...)()
}

// must runs a command that has to end with code.
func (c command) must(t *testing.T, code int, args ...string) commandResult {
	t.Helper()
	res := c.run(t, args...)
	if res.code != code {
		t.Fatalf("idemctl %s: exit %d, want %d\n%s%s", strings.Join(args, " "), res.code, code, res.stdout, res.stderr)
	}
	return res
}
