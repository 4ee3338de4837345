package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// startProcess begins a command that the test may send signals to. The code of one that was killed is -1.
func (c command) startProcess(t *testing.T, args ...string) (wait func() commandResult, send func(os.Signal)) {
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
	wait = func() commandResult {
		t.Helper()
		err := cmd.Wait()
		if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
			t.Fatalf("idemctl %s: %v", strings.Join(args, " "), err)
		}
		return commandResult{stdout: stdout.String(), stderr: stderr.String(), code: cmd.ProcessState.ExitCode()}
	}
	return wait, func(s os.Signal) { _ = cmd.Process.Signal(s) } // it may have ended already
}
