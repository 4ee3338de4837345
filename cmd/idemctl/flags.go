package main

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/idemctl/idemctl/internal/render"
)

// globalFlags are the flags that every command has. Those that set a configuration key are read from the flag set by
// loadConfig; see configFlags.
type globalFlags struct {
	config         pathFlag
	output         render.Format
	logFormat      choiceFlag
	logLevel       slog.Level
	connectTimeout time.Duration
	wait           bool
	quiet          bool
}

const defaultConnectTimeout = 5 * time.Second

func (g *globalFlags) addTo(fs *pflag.FlagSet) {
	g.output = render.FormatTable
	g.connectTimeout = defaultConnectTimeout
	g.logFormat = choiceFlag{value: logText, allowed: []string{logText, logJSON}}
	fs.Var(&g.config, "config", "configuration `FILE`; else "+envConfig+", ./"+configName+", the user's configuration folder")
	fs.String("dsn", "", "the ledger's server, user@tcp(host:port)/schema; leave the password to a file, a variable or an option file")
	fs.String("table-prefix", "", "`PREFIX` of the ledger's tables")
	fs.String("time-zone", "", "`ZONE` of month boundaries, such as Asia/Shanghai")
	fs.String("redis-url", "", "the filter's server, redis://host:port/db")
	fs.StringSlice("brokers", nil, "Kafka brokers, host:port, separated by commas")
	fs.VarP((*formatFlag)(&g.output), "output", "o", "`FORMAT` of the result: table, json, jsonl or tsv")
	fs.Var(&g.logFormat, "log-format", "`FORMAT` of log lines on stderr: text or json")
	fs.Var((*levelFlag)(&g.logLevel), "log-level", "lowest `LEVEL` to log: debug, info, warn or error")
	fs.Var((*durationFlag)(&g.connectTimeout), "connect-timeout", "bound of every first contact with a server")
	fs.BoolVar(&g.wait, "wait", false, "wait for another run's lock instead of ending with exit status 5")
	fs.BoolVarP(&g.quiet, "quiet", "q", false, "no progress on stderr; from a job for cron, no word when all is well")
}

// pathFlag is a path on the command line. It refuses what looks like a flag: `--archive --execute` forgot the folder, and
// must not make one named --execute. A path that does begin with a dash is written ./-x. "-" alone is left to the command.
type pathFlag string

func (p *pathFlag) String() string { return string(*p) }

// Type implements pflag.Value.
func (p *pathFlag) Type() string { return "path" }

// Set implements pflag.Value.
func (p *pathFlag) Set(s string) error {
	if s == "" {
		return errors.New("the path is empty")
	}
	if s != "-" && strings.HasPrefix(s, "-") {
		return fmt.Errorf("%q looks like a flag; the path is missing (or write ./%s)", s, s)
	}
	*p = pathFlag(s)
	return nil
}

// choiceFlag is one of a few words.
type choiceFlag struct {
	value   string
	allowed []string
}

func (c *choiceFlag) String() string { return c.value }

// Type implements pflag.Value.
func (c *choiceFlag) Type() string { return "string" }

// Set implements pflag.Value.
func (c *choiceFlag) Set(s string) error {
	if !slices.Contains(c.allowed, s) {
		return choiceError(s, c.allowed)
	}
	c.value = s
	return nil
}

func choiceError(s string, allowed []string) error {
	hint := ""
	if near, ok := nearest(s, allowed); ok {
		hint = fmt.Sprintf("; did you mean %q?", near)
	}
	last := len(allowed) - 1
	return fmt.Errorf("expected %s or %s%s", strings.Join(allowed[:last], ", "), allowed[last], hint)
}

// formatFlag is the output format.
type formatFlag render.Format

func (f *formatFlag) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *formatFlag) Type() string { return "string" }

// Set implements pflag.Value.
func (f *formatFlag) Set(s string) error {
	parsed, err := render.ParseFormat(s)
	if err != nil {
		return choiceError(s, render.Formats())
	}
	*f = formatFlag(parsed)
	return nil
}

// levelFlag is the lowest level to log.
type levelFlag slog.Level

func (l *levelFlag) String() string { return strings.ToLower(slog.Level(*l).String()) }

// Type implements pflag.Value.
func (l *levelFlag) Type() string { return "string" }

// Set implements pflag.Value.
func (l *levelFlag) Set(s string) error {
	levels := []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError}
	names := make([]string, len(levels))
	for i, level := range levels {
		names[i] = strings.ToLower(level.String())
		if s == names[i] {
			*l = levelFlag(level)
			return nil
		}
	}
	return choiceError(s, names)
}

// durationFlag is a duration above zero that also understands days (30d), as the configuration does.
type durationFlag time.Duration

func (d *durationFlag) String() string { return formatDuration(time.Duration(*d)) }

// Type implements pflag.Value.
func (d *durationFlag) Type() string { return "duration" }

// Set implements pflag.Value.
func (d *durationFlag) Set(s string) error {
	parsed, err := parseDuration(s)
	if err != nil {
		return err
	}
	if parsed <= 0 {
		return errors.New("must be above zero")
	}
	*d = durationFlag(parsed)
	return nil
}
