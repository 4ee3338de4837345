package main

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/idemctl/idemctl/internal/render"
)

// app is what commands share: streams, clock, flags, the configuration, and servers that are dialled by the first command
// that uses them and closed at the end. It is used from one
// goroutine.
type app struct {
	streams *streams
	environ func() []string
	now     func() time.Time
	flags   globalFlags
	flagSet *pflag.FlagSet
	command string   // as typed, without the program's name
	args    []string // the command line, secrets removed
	// signalEnds says that a signal is how the command ends (lab up), not an interruption of it.
	signalEnds bool

	config  *Config
	logger  *slog.Logger
	logOnce sync.Once
	opened  []io.Closer
	pools   map[bool]*sql.DB // by whether they are a guard's
}

func newApp(std *streams, environ func() []string) *app {
	return &app{streams: std, environ: environ, now: time.Now}
}

// Config is the effective configuration, read at the first call.
func (a *app) Config() (*Config, error) {
	if a.config != nil {
		return a.config, nil
	}
	file := string(a.flags.config)
	if file == "" {
		file = a.getenv(envConfig)
	}
	cfg, err := loadConfig(configInput{file: file, configHome: a.configHome(), environ: a.environ, flags: a.flagSet})
	if err != nil {
		return nil, err
	}
	a.config = cfg
	return cfg, nil
}

// configHome is the user's configuration folder, or empty where there is none.
func (a *app) configHome() string {
	if dir := a.getenv("XDG_CONFIG_HOME"); dir != "" {
		return dir
	}
	if home := a.getenv("HOME"); home != "" {
		return filepath.Join(home, ".config")
	}
	return a.getenv("AppData")
}

func (a *app) getenv(name string) string {
	value := ""
	for _, entry := range a.environ() {
		if n, v, ok := strings.Cut(entry, "="); ok && n == name {
			value = v
		}
	}
	return value
}

// Handler is the one configured handler of a topic; see Config.Handler.
func (a *app) Handler(topic, bizType string) (Handler, error) {
	cfg, err := a.Config()
	if err != nil {
		return Handler{}, err
	}
	return cfg.Handler(topic, bizType)
}

// The values of --log-format.
const (
	logText = "text"
	logJSON = "json"
)

// log is where commands say what they do: stderr, never results, never secrets. It may be called from any goroutine.
func (a *app) log() *slog.Logger {
	a.logOnce.Do(func() {
		opts := &slog.HandlerOptions{Level: a.flags.logLevel}
		if a.flags.logFormat.value == logJSON {
			a.logger = slog.New(slog.NewJSONHandler(a.streams.Err, opts))
		} else {
			a.logger = slog.New(slog.NewTextHandler(a.streams.Err, opts))
		}
	})
	return a.logger
}

// Print writes a command's result in the format asked for.
func (a *app) Print(r render.Result) error {
	p := render.Printer{
		W: a.streams.Out, Format: a.flags.output, Command: a.command, Version: version(), Width: a.streams.Width,
	}
	return p.Print(r) //nolint:wrapcheck // says what it was writing
}

// Progress shows how far a job is, until its Finish is called. Log lines written meanwhile step around the bar.
func (a *app) Progress(label, unit string) *appProgress {
	p := render.NewProgress(render.ProgressOptions{
		W: a.streams.Err.Raw(), Terminal: a.streams.ErrTerminal, Quiet: a.flags.quiet, Now: a.now, Label: label, Unit: unit,
	})
	if a.streams.ErrTerminal {
		a.streams.Err.Around(p.Around)
	}
	return &appProgress{Progress: p, app: a}
}

// appProgress is a progress that gives stderr back when it ends.
type appProgress struct {
	*render.Progress

	app *app
}

// Finish clears the bar.
func (p *appProgress) Finish() {
	p.Progress.Finish()
	p.app.streams.Err.Around(nil)
}

// closeLater has c closed at the end of the command.
func (a *app) closeLater(c io.Closer) { a.opened = append(a.opened, c) }

// close closes what was opened, the last first. Errors of it are only logged: the command has done what it did.
func (a *app) close() {
	for _, c := range slices.Backward(a.opened) {
		if err := c.Close(); err != nil {
			a.log().Debug("close", "error", err)
		}
	}
	a.opened = nil
}

// firstContact bounds the first contact with a server by --connect-timeout. What was being done, and with which server,
// goes into the error; a context that ended because of the bound reads as "no answer".
func (a *app) firstContact(ctx context.Context, what, address string, contact func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, a.flags.connectTimeout)
	defer cancel()
	err := contact(bounded)
	if err == nil {
		return nil
	}
	// A connection's own deadline may speak up a moment before the context that set it.
	var timeout net.Error
	timedOut := bounded.Err() != nil || errors.As(err, &timeout) && timeout.Timeout()
	if deadline, _ := bounded.Deadline(); ctx.Err() == nil && timedOut && !time.Now().Before(deadline) {
		err = noAnswerError{after: a.flags.connectTimeout}
	}
	return &unreachableError{What: what, Address: address, Err: err}
}
