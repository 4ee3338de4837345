package serverset_test

import (
	"bufio"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/idemctl/idemctl/internal/lab"
	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/internal/testenv/serverset"
)

func TestSetNamesWhatRuns(t *testing.T) {
	t.Parallel()
	set, err := serverset.Start(t.Context(), lab.NewHost(os.Getenv), []serverset.Want{
		{Kind: lab.KindEmbedded},
		{Kind: lab.KindMySQL, Version: "9999", Optional: true},
		{Kind: lab.KindRedis},
		{Kind: lab.KindEmbedded},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(set.Servers) != 3 || len(set.Missing) != 1 || !errors.Is(set.Missing[0], lab.ErrNotFound) {
		t.Fatalf("servers %s, missing %v", set.Names(), set.Missing)
	}
	want := []string{
		testenv.EnvRedis + "=" + set.Servers[1].URL(),
		testenv.EnvKafka + "=" + set.Servers[0].Addr + " " + set.Servers[2].Addr,
	}
	if got := set.Env(); !slices.Equal(got, want) {
		t.Errorf("variables %q, want %q", got, want)
	}
	pid := set.Servers[1].PID()
	if err := set.Close(); err != nil {
		t.Error(err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d is left: %v", pid, err)
	}
}

func TestRequiredServerThatIsMissing(t *testing.T) {
	t.Parallel()
	_, err := serverset.Start(t.Context(), lab.NewHost(os.Getenv), []serverset.Want{
		{Kind: lab.KindRedis}, {Kind: lab.KindMySQL, Version: "9999"},
	}, nil)
	if !errors.Is(err, lab.ErrNotFound) {
		t.Errorf("want ErrNotFound, got %v", err)
	}
}

func TestRunPassesEnvironmentAndExitCode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		script string
		code   int
	}{
		{`[ "$GREETING" = "a b" ]`, 0},
		{"exit 7", 7},
		{"kill -KILL $$", 128 + 9},
	} {
		code, err := serverset.Run([]string{"sh", "-c", c.script}, []string{"GREETING=a b"}, io.Discard, io.Discard, nil)
		if err != nil || code != c.code {
			t.Errorf("%s: exit code %d (%v), want %d", c.script, code, err, c.code)
		}
	}
	if _, err := serverset.Run([]string{"/no/such/program"}, nil, io.Discard, io.Discard, nil); err == nil {
		t.Error("a command that does not exist runs")
	}
}

// The command's children get the signal as well: `go test` runs the tests in processes of their own.
func TestRunPassesSignals(t *testing.T) {
	t.Parallel()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	signals := make(chan os.Signal, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() && !strings.Contains(lines.Text(), "ready") {
			continue
		}
		signals <- syscall.SIGTERM
	}()
	script := `sh -c 'trap "exit 42" TERM; echo ready; while :; do sleep 0.01; done'; code=$?; exit $code`
	code, err := serverset.Run([]string{"sh", "-c", "trap : TERM; " + script}, nil, in, io.Discard, signals)
	if err != nil || code != 42 {
		t.Errorf("exit code %d (%v), want the 42 of the child that was told to end", code, err)
	}
	if err := errors.Join(in.Close(), out.Close()); err != nil {
		t.Error(err)
	}
}
