package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/idemctl/idemctl/internal/lab"
	"github.com/idemctl/idemctl/pkg/partition"
)

// demoStep is one command of the tour.
type demoStep struct {
	// text comes before it.
	text string
	args []string
	// want is the exit status that it ends with, and why.
	want int
	why  string
}

// steps are the commands of the tour, as they would be typed.
func (d *demo) steps(now time.Time) []demoStep {
	story := d.incident.story.id
	return []demoStep{
		{
			text: "The ledger's months. --memory-since is our word that no coupon was granted\noutside this ledger from then on: table coupon is empty (act 1 had its own).",
			args: createArgs(now, d.incident),
		},
		{args: []string{"partition", "list"}},
		{
			text: "What would happen? verify only looks.",
			args: []string{"replay", demoTopic, "--mode", "verify"},
			want: exitFinding, why: "something is not absorbed yet",
		},
		{
			text: "For real, from the start of the topic:",
			args: []string{"replay", demoTopic, "--mode", "execute"},
			why:  "every record executed or absorbed",
		},
		{
			text: "Now all of it is absorbed. --keys shows what came more than once.",
			args: []string{"replay", demoTopic, "--mode", "verify", "--keys", "--top", "5"},
			why:  "every record absorbed",
		},
		{
			text: "Execute again from the same offset, as after a lost commit:",
			args: []string{"replay", demoTopic, "--mode", "execute"},
			why:  "nothing ran twice",
		},
		{
			text: "And the order that this began with:",
			args: []string{"replay", demoTopic, "-p", strconv.Itoa(storyPartition), "--key", story, "--list"},
		},
	}
}

// createArgs make the months such that the demo runs alike in any year. After the incident its months are the past, which
// the ledger remembers because we vouch for it; before it they are the future, which needs no word: then the earliest one
// that may be vouched for is the present.
func createArgs(now time.Time, in *demoIncident) []string {
	month := partition.MonthOf(in.begin, in.zone)
	since := month.Start(in.zone)
	ahead := 2
	if now.Before(since) {
		since = now
		ahead = max(ahead, int(month-partition.MonthOf(now, in.zone)))
	}
	args := []string{"partition", "create", "--from", month.String(), "--memory-since", since.In(in.zone).Format(time.DateOnly)}
	if ahead != 2 {
		args = append(args, "--ahead", strconv.Itoa(ahead))
	}
	return append(args, "--execute")
}

// guarded runs the real commands.
func (d *demo) guarded(ctx context.Context) error {
	d.headline("2. The same incident through the guard: the real commands")
	d.env = demoEnviron(d.app.environ(), d.config())
	d.sayf("$ export %s=%s", envConfig, asTyped(d.config()))
	for _, s := range d.steps(d.app.now()) {
		if err := d.command(ctx, s); err != nil {
			return err
		}
		if d.surprise != "" {
			break // what follows stands on it; the account says where we are
		}
	}
	d.headline("3. The account")
	return nil
}

// demoEnviron is the environment of the commands: ours, but for whatever would point them at other servers than the lab's.
func demoEnviron(environ []string, config string) []string {
	env := make([]string, 0, len(environ)+1)
	for _, e := range environ {
		if !strings.HasPrefix(strings.ToUpper(e), envPrefix) {
			env = append(env, e)
		}
	}
	return append(env, envConfig+"="+config)
}

// command runs this very program with the step's arguments, after it has printed them so that they can be typed again.
func (d *demo) command(ctx context.Context, s demoStep) error {
	if s.text != "" {
		d.sayf("\n%s", s.text)
	}
	words := make([]string, len(s.args))
	for i, a := range s.args {
		words[i] = asTyped(a)
	}
	line := programName + " " + strings.Join(words, " ")
	d.sayf("\n$ %s", line)
	cmd := exec.CommandContext(ctx, d.exe, s.args...) //nolint:gosec // ourselves
	cmd.Args[0] = programName
	cmd.Env, cmd.Stdout, cmd.Stderr = d.env, d.out, d.app.streams.Err
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second // for the summary of what was interrupted
	status, err := exitOf(lab.RunTied(cmd))
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("run %s: %w", line, err)
	}
	why := ""
	if s.why != "" && status == s.want {
		why = ": " + s.why
	}
	d.sayf("[exit status %d%s]", status, why)
	if status != s.want && d.surprise == "" {
		d.surprise = fmt.Sprintf("`%s` ended with exit status %d, not %d", line, status, s.want)
	}
	return nil
}

// exitOf is the status that a command ended with by itself.
func exitOf(err error) (int, error) {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return exitDone, err
	}
	if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return exitDone, err // it was killed
	}
	return exit.ExitCode(), nil
}
