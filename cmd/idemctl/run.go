package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/idemctl/idemctl/internal/render"
)

// run is the whole program: it carries out one command line and returns the exit code. extra are further commands, for
// tests.
func run(args []string, std *streams, environ func() []string, extra ...func(*app) *cobra.Command) int {
	ctx, signals := watchSignals(context.Background())
	defer signals.Stop()
	a := newApp(std, environ)
	redis.SetLogger(redisLog{a})
	err := a.execute(ctx, newRoot(a, extra...), args)
	if werr := std.Out.Failed(); werr != nil && !errors.Is(err, werr) {
		err = errors.Join(err, withStatus(exitFailure, fmt.Errorf("write the output: %w", werr)))
	}
	if signals.Came() && !a.signalEnds {
		err = interrupted(err)
	}
	a.reportError(err, args)
	return exitCode(err)
}

// execute runs the command line. A panic becomes an error: Go's own exit code for it, 2, would read as a typing mistake.
func (a *app) execute(ctx context.Context, root *cobra.Command, args []string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = withStatus(exitFailure, &panicError{value: p, stack: debug.Stack()})
		}
		a.close()
	}()
	root.SetArgs(args)
	a.args = redactArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	a.command = commandName(cmd)
	return err
}

// panicError is a defect of this program that ended the command.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string {
	return fmt.Sprintf("internal error, please report it: %v%s", e.value, e.at())
}

// at finds the first line of the stack below the panic, the place to look at.
func (e *panicError) at() string {
	_, below, _ := strings.Cut(string(e.stack), "\npanic(")
	for line := range strings.Lines(below) {
		line = strings.TrimSpace(line)
		if file, _, ok := strings.Cut(line, " +0x"); ok && !strings.Contains(file, "/runtime/") {
			return " (" + file[strings.LastIndexByte(file, '/')+1:] + ")"
		}
	}
	return ""
}

// interrupted makes the error of a command that a signal ended read so. What the command itself says of where it stopped
// stays; that its context was cancelled says nothing more.
func interrupted(err error) error {
	if err == nil || errors.Is(err, context.Canceled) && words(err) == context.Canceled.Error() {
		return withStatus(exitInterrupted, errInterrupted)
	}
	if words(err) == "" {
		return withStatus(exitInterrupted, errInterrupted)
	}
	if errors.Is(err, errInterrupted) {
		return withStatus(exitInterrupted, err)
	}
	return &statusError{Code: exitInterrupted, Err: fmt.Errorf("%w: %s", errInterrupted, words(err))}
}

// reportError says on stderr what went wrong, on one line, and on stdout too where a program reads JSON and got no result.
func (a *app) reportError(err error, args []string) {
	text := render.Text(words(err))
	if text != "" {
		// There is nowhere left to report that stderr cannot be written.
		_, _ = fmt.Fprintf(a.streams.Err, "%s: %s\n", programName, text)
	}
	if p, ok := errors.AsType[*panicError](err); ok {
		a.log().Debug("stack of the internal error", "stack", string(p.stack))
	}
	if exitCode(err) == exitDone || text == "" || !a.wantsJSON(args) {
		return
	}
	if a.streams.Out.Written() && a.flags.output != render.FormatJSONL {
		return // the result is there, and a second document would make it unreadable
	}
	_ = render.JSONError(a.streams.Out, a.command, version(), text)
}

// wantsJSON says whether the caller asked for JSON, also where the command line could not be read to its end.
func (a *app) wantsJSON(args []string) bool {
	if a.flags.output.IsJSON() {
		return true
	}
	for i, arg := range args {
		if arg == "--" {
			break
		}
		value := ""
		switch {
		case (arg == "-o" || arg == "--output") && i+1 < len(args):
			value = args[i+1]
		case strings.HasPrefix(arg, "--output="):
			value = strings.TrimPrefix(arg, "--output=")
		case strings.HasPrefix(arg, "-o") && !strings.HasPrefix(arg, "--"):
			value = strings.TrimPrefix(strings.TrimPrefix(arg, "-o"), "=")
		}
		if f, err := render.ParseFormat(value); err == nil && f.IsJSON() {
			return true
		}
	}
	return false
}

// commandName is a command as typed after the program's name: "partition create".
func commandName(cmd *cobra.Command) string {
	if cmd == nil {
		return ""
	}
	return strings.TrimPrefix(strings.TrimPrefix(cmd.CommandPath(), programName), " ")
}
