package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/idemctl/idemctl/internal/lab"
	"github.com/idemctl/idemctl/internal/render"
)

// defaultLabConfig is where `lab up` writes the configuration. It is not ./idemctl.yaml: a later command in the same folder
// must not turn to the lab by itself.
const defaultLabConfig = "idemctl-lab.yaml"

func newLabCmd(a *app) *cobra.Command {
	return newGroup(&cobra.Command{
		Use:   "lab",
		Short: "Start throw-away servers to try the other commands on",
		Long: `Start throw-away servers on this machine to try the other commands on.

Exit status:
  0    done` + exitHelp(),
	}, newLabUpCmd(a))
}

// labServers are the flags that say which servers to start.
type labServers struct {
	db    choiceFlag
	kafka choiceFlag
}

func newLabServers() labServers {
	return labServers{
		db:    choiceFlag{value: lab.DBAuto, allowed: []string{lab.DBAuto, lab.DBMariaDB, lab.DBMySQL}},
		kafka: choiceFlag{value: lab.KafkaEmbedded, allowed: []string{lab.KafkaEmbedded, lab.KafkaApache}},
	}
}

// AddFlags declares the flags.
func (s *labServers) AddFlags(fs *pflag.FlagSet) {
	fs.Var(&s.db, "db", "`DATABASE` to start: auto (MariaDB if there is one, else MySQL), mariadb or mysql")
	fs.Var(&s.kafka, "kafka", "`KAFKA` to start: embedded (in this process) or apache (a real node)")
}

type labUpOptions struct {
	labServers

	dir       pathFlag
	configOut pathFlag
	force     bool
	topics    []string
}

func newLabUpCmd(a *app) *cobra.Command {
	opts := labUpOptions{labServers: newLabServers(), configOut: defaultLabConfig}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a database, a Redis and a Kafka, until Ctrl-C",
		Long: `Start a database, a Redis and a Kafka on free ports of 127.0.0.1, write a
configuration file that points at them, say where they are, and keep them up
until Ctrl-C or SIGTERM. Then all of it ends and is removed: servers, data, and
the configuration file.

Topics are made only where they are asked for, with --topic. With -o json one
document is printed when the servers are ready.

Exit status:
  0    done: the servers were up, and ended by Ctrl-C or SIGTERM
  2    usage or configuration is wrong; nothing was done
  3    could not: a server is missing or did not start (the end of its log is
       shown, nothing is left running), or the file could not be written
  130  interrupted before the servers were up`,
		Example: `  idemctl lab up --topic order-paid:4 &
  export IDEMCTL_CONFIG=$PWD/idemctl-lab.yaml
  idemctl partition create --execute`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runLabUp(cmd.Context(), a, &opts) },
	}
	opts.AddFlags(cmd.Flags())
	return cmd
}

// AddFlags declares the command's flags.
func (o *labUpOptions) AddFlags(fs *pflag.FlagSet) {
	o.labServers.AddFlags(fs)
	fs.Var(&o.dir, "dir", "`DIR` that the servers' temporary folders are made in; else the system's")
	fs.Var(&o.configOut, "config-out", "`FILE` to write the configuration to")
	fs.BoolVar(&o.force, "force", false, "overwrite the file if it is there")
	fs.StringSliceVar(&o.topics, "topic", nil, "make this topic, `NAME` or NAME:PARTITIONS; may be repeated")
}

func runLabUp(ctx context.Context, a *app, opts *labUpOptions) (err error) {
	if err := a.refuseOwnServers(); err != nil {
		return err
	}
	file, err := filepath.Abs(string(opts.configOut))
	if err != nil {
		return usageErrorf("--config-out: %w", err)
	}
	// Looked at before the servers are started, and again when it is written.
	if err := mayWrite(file, opts.force); err != nil {
		return err
	}
	dir, err := labFolder(string(opts.dir))
	if err != nil {
		return err
	}
	topics, err := parseLabTopics(opts.topics)
	if err != nil {
		return err
	}
	l, err := a.startLab(ctx, opts.labServers, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := createLabTopics(ctx, l.Brokers, topics); err != nil {
		return err
	}
	text := l.Config() + labHandlersHelp
	if err := writeNew(file, text, opts.force); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeOwn(file, text)) }()
	if err := a.Print(labResult(l, file)); err != nil {
		return err
	}
	a.untilSignal(ctx)
	return nil
}

// labFolder is the folder as the servers need it: they run in folders of their own. Empty: the system's.
func labFolder(dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	if fi, err := os.Stat(dir); err != nil || !fi.IsDir() {
		return "", usageErrorf("--dir: %s is no folder", dir)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", usageErrorf("--dir: %w", err)
	}
	return abs, nil
}

// labHandlersHelp ends the lab's configuration: what a replay needs besides is the user's own.
const labHandlersHelp = `# For replay, describe a handler:
# handlers:
#   coupon:
#     topic: order-paid
#     biz_type: COUPON
#     key: orderId
#     event_time: paidAt
#     effect: grant.sql
`

// refuseOwnServers refuses flags that name servers or a configuration: a lab touches only what it has started itself
// (invariant 11), and a user who names a server believes otherwise.
func (a *app) refuseOwnServers() error {
	for _, name := range []string{"config", "dsn", "table-prefix", "time-zone", "redis-url", "brokers"} {
		if f := a.flagSet.Lookup(name); f != nil && f.Changed {
			return usageErrorf("--%s: %s uses only servers that it starts itself", name, a.command)
		}
	}
	return nil
}

// startLab starts the servers. When one does not come up, the end of its log is shown on stderr.
func (a *app) startLab(ctx context.Context, s labServers, dir string) (*lab.Lab, error) {
	var logger *slog.Logger
	if a.flags.logLevel <= slog.LevelDebug {
		logger = a.log()
	}
	l, err := lab.Start(ctx, lab.Options{Host: lab.NewHost(a.getenv), DB: s.db.value, Kafka: s.kafka.value, Dir: dir, Logger: logger})
	if err != nil {
		return nil, a.labError(ctx, err)
	}
	return l, nil
}

// labError is why a server did not start. The end of its log goes to stderr, line by line.
func (a *app) labError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err() // what a starting server said to that helps nobody
	}
	start, ok := errors.AsType[*lab.StartError](err)
	if !ok {
		return fmt.Errorf("start the servers: %w", err)
	}
	if log := strings.TrimSpace(start.Log); log != "" {
		for line := range strings.SplitSeq(log, "\n") {
			// There is nowhere left to report that stderr cannot be written.
			_, _ = fmt.Fprintln(a.streams.Err, "  | "+render.Text(line))
		}
	}
	return fmt.Errorf("start the servers: %w", &lab.StartError{Server: start.Server, Program: start.Program, Err: start.Err})
}

// untilSignal waits for Ctrl-C or SIGTERM, which is how a lab ends and no interruption.
func (a *app) untilSignal(ctx context.Context) {
	a.signalEnds = true
	<-ctx.Done()
}

func labResult(l *lab.Lab, file string) render.Result {
	type server struct {
		Kind    string `json:"kind"`
		Name    string `json:"name"`
		Version string `json:"version,omitempty"`
		Address string `json:"address"`
		PID     int    `json:"pid,omitempty"`
	}
	value := struct {
		Servers []server `json:"servers"`
		Config  string   `json:"config"`
		DSN     string   `json:"dsn"`
		Redis   string   `json:"redis_url"`
		Brokers []string `json:"brokers"`
	}{Config: file, DSN: l.DSN, Redis: l.RedisURL, Brokers: l.Brokers}
	t := labTable()
	for _, s := range []*lab.Server{l.DB, l.Redis, l.Kafka} {
		value.Servers = append(value.Servers, server{Kind: string(s.Kind), Name: s.Name, Version: s.Version, Address: s.Addr, PID: s.PID()})
		addServer(&t, s)
	}
	return render.Result{Value: value, Lines: []any{value}, Tables: []render.Table{t}, Notes: []string{
		"Configuration: " + file,
		"",
		"Next, in another terminal:",
		"  export " + envConfig + "=" + asTyped(file),
		"  idemctl partition create --execute",
		"  idemctl partition list",
		"",
		"Ctrl-C ends the servers and removes their data and the file.",
	}}
}

func labTable() render.Table {
	return render.Table{Columns: []render.Column{{Name: "server", Shrink: true}, {Name: "address"}, {Name: "process", Align: render.Right}}}
}

func addServer(t *render.Table, s *lab.Server) {
	pid := "-" // embedded: in this process
	if s.PID() != 0 {
		pid = strconv.Itoa(s.PID())
	}
	t.Add(s.Name, s.Addr, pid)
}

// mayWrite refuses a file that is there, unless forced, and a folder that is not.
func mayWrite(file string, force bool) error {
	if fi, err := os.Stat(filepath.Dir(file)); err != nil || !fi.IsDir() {
		return usageErrorf("--config-out: %s is no folder", filepath.Dir(file))
	}
	fi, err := os.Lstat(file)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look for the configuration file: %w", err)
	case !fi.Mode().IsRegular():
		return usageErrorf("--config-out: %s is not a regular file", file)
	case !force:
		return usageErrorf("--config-out: %s is there already; --force overwrites it, or name another file", file)
	}
	return nil
}

// writeNew writes a file, whole or not at all, which must not be there yet unless forced.
func writeNew(file, text string, force bool) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(file), ".idemctl-lab-*")
	if err != nil {
		return fmt.Errorf("write the configuration file: %w", err)
	}
	defer func() {
		if rerr := os.Remove(tmp.Name()); rerr != nil && !errors.Is(rerr, os.ErrNotExist) {
			err = errors.Join(err, fmt.Errorf("write the configuration file: %w", rerr))
		}
	}()
	_, werr := tmp.WriteString(text)
	if err := errors.Join(werr, tmp.Close()); err != nil {
		return fmt.Errorf("write the configuration file: %w", err)
	}
	if force {
		err = os.Rename(tmp.Name(), file)
	} else {
		err = os.Link(tmp.Name(), file) // fails if somebody made it meanwhile, where a rename would replace it
	}
	switch {
	case errors.Is(err, os.ErrExist):
		return usageErrorf("--config-out: %s is there already; --force overwrites it, or name another file", file)
	case errors.Is(err, syscall.EPERM), errors.Is(err, errors.ErrUnsupported):
		return writeExclusive(file, text) // a file system without links
	case err != nil:
		return fmt.Errorf("write the configuration file: %w", err)
	}
	return nil
}

func writeExclusive(file, text string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) //nolint:gosec // the user named it
	if err != nil {
		return fmt.Errorf("write the configuration file: %w", err)
	}
	_, werr := f.WriteString(text)
	if err := errors.Join(werr, f.Close()); err != nil {
		return fmt.Errorf("write the configuration file: %w", err)
	}
	return nil
}

// removeOwn removes the file if it still holds what was written to it.
func removeOwn(file, text string) error {
	now, err := os.ReadFile(file) //nolint:gosec // our own
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err == nil && string(now) != text:
		return nil
	case err == nil:
		err = os.Remove(file)
	}
	if err != nil {
		return fmt.Errorf("remove the configuration file: %w", err)
	}
	return nil
}
