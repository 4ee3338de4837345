// Deps puts the servers on this machine that the lab and the tests start. It is what `make deps` runs:
//
//	go run ./internal/lab/deps [--all] [--require kafka,mysql]
//
// It may be run again at any time: what is there is only named. MariaDB and Redis come from the system's packages on Debian
// and Ubuntu (as root, or by sudo), or from Maven artifacts where nothing may be installed but Java and mvn are there. Apache
// Kafka comes from Maven, and a MySQL beside MariaDB from Debian's packages, unpacked and not installed; both go into the
// user's cache folder, and a machine that cannot have them does without. On other systems it says what to install.
//
// Exit codes: 0 the tests have a database and a Redis (and what --require names) · 2 usage · 3 they have not.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/idemctl/idemctl/internal/lab"
	"github.com/idemctl/idemctl/internal/testenv"
)

const (
	exitUsage   = 2
	exitMissing = 3
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr, os.Getenv)
	stop()
	os.Exit(code)
}

// need is one server that the lab or the tests can use.
type need struct {
	kind    lab.Kind
	version string // by its beginning; empty: any
	env     string // the variable that names servers in its place
	// required: without it the result is exit code 3.
	required bool
}

func (n need) String() string { return strings.TrimSpace(string(n.kind) + " " + n.version) }

// deps is one run.
type deps struct {
	host   lab.Host
	getenv func(string) string
	out    io.Writer
	errs   io.Writer
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer, getenv func(string) string) int {
	flags := flag.NewFlagSet("deps", flag.ContinueOnError)
	flags.SetOutput(stderr)
	all := flags.Bool("all", false, "also MariaDB 11.8, Redis 8.0 and Valkey 9.1, for the compatibility matrix")
	require := flags.String("require", "", "servers without which this fails: kafka, mysql or both, separated by a comma")
	if err := flags.Parse(args); err != nil {
		return exitUsage
	}
	needs, err := wanted(*all, *require)
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("no argument is expected, there is %q", flags.Arg(0))
	}
	if err != nil {
		complain(stderr, err.Error())
		return exitUsage
	}
	d := &deps{host: lab.NewHost(getenv), getenv: getenv, out: stdout, errs: stderr}
	if d.host.Cache == "" {
		complain(stderr, "no cache folder: neither HOME nor XDG_CACHE_HOME is set")
		return exitUsage
	}
	return d.run(ctx, needs)
}

// wanted lists the servers in the order they are looked for.
func wanted(all bool, require string) ([]need, error) {
	needs := []need{
		{kind: lab.KindMariaDB, env: testenv.EnvMySQL, required: true},
		{kind: lab.KindRedis, env: testenv.EnvRedis, required: true},
		{kind: lab.KindKafka, env: testenv.EnvKafka},
		{kind: lab.KindMySQL, env: testenv.EnvMySQL},
	}
	for name := range strings.SplitSeq(require, ",") {
		switch name {
		case "":
		case "kafka":
			needs[2].required = true
		case "mysql":
			needs[3].required = true
		default:
			return nil, fmt.Errorf("--require knows kafka and mysql, not %q", name)
		}
	}
	if all {
		needs = append(needs, need{kind: lab.KindMariaDB, version: "11.8"}, need{kind: lab.KindRedis, version: "8"},
			need{kind: lab.KindValkey, version: "9"})
	}
	return needs, nil
}

func (d *deps) run(ctx context.Context, needs []need) int {
	code := 0
	for _, n := range needs {
		if n.env != "" && d.getenv(n.env) != "" {
			d.sayf(n, "not needed: %s names servers", n.env)
			continue
		}
		if d.found(ctx, n) {
			continue
		}
		err := d.get(ctx, n)
		switch {
		case ctx.Err() != nil:
			complain(d.errs, "interrupted")
			return exitMissing
		case err == nil && d.found(ctx, n):
		case n.required:
			d.sayf(n, "MISSING: %v", orGone(err))
			code = exitMissing
		default:
			d.sayf(n, "left out: %v", orGone(err))
		}
	}
	return code
}

// orGone is for a way that ended without an error and without a server.
func orGone(err error) error {
	if err == nil {
		return errors.New("what was fetched does not run on this machine")
	}
	return err
}

func (d *deps) sayf(n need, format string, args ...any) {
	// A closed output is no reason to leave a server out.
	_, _ = fmt.Fprintf(d.out, "deps: %-12s %s\n", n, fmt.Sprintf(format, args...))
}

func complain(w io.Writer, text string) { _, _ = fmt.Fprintln(w, "deps: "+text) }

// found names the server if it is there. A database is a database: where there is a MySQL and no MariaDB, nothing is
// installed beside it.
func (d *deps) found(ctx context.Context, n need) bool {
	in, err := d.host.Find(ctx, n.kind, n.version)
	if err != nil && n.kind == lab.KindMariaDB && n.version == "" {
		in, err = d.host.Find(ctx, lab.KindMySQL, "")
	}
	if err != nil && n.kind == lab.KindRedis && n.version == "" {
		in, err = d.host.Find(ctx, lab.KindValkey, "")
	}
	if err != nil {
		return false
	}
	if in.Kind == lab.KindKafka {
		d.sayf(n, "found %s %s (%s, run by %s)", in.Kind, in.Version, d.host.KafkaJars(), in.Path)
		return true
	}
	d.sayf(n, "found %s %s (%s)", in.Kind, in.Version, in.Path)
	return true
}
