// Bench measures idemctl against rivals that do the same work, or a part of it, on the same servers in the same run. It is
// what `make bench` runs:
//
//	go run ./internal/bench [-run NAME,…] [-rounds 5] [-seconds 3] [-records 1000000] [-rows 500000] [-batchers 4] [-cpuprofile DIR]
//
// Both sides of a line take turns (A B A B), and a line shows the medians. Nothing is asserted: a ratio that was not met
// is printed as such and the exit code stays 0. docs/performance.md explains every line.
//
// It starts a throw-away MariaDB or MySQL, a Redis and an Apache Kafka, and ends them with it. What the lines need besides,
// it says at its start: without kcat two of them are left out.
//
// Exit codes: 0 measured · 2 usage · 3 a server did not come up, or a side did other work than the line says.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/idemctl/idemctl/internal/lab"
)

const (
	exitUsage  = 2
	exitFailed = 3
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr, os.Getenv)
	stop()
	os.Exit(code)
}

// options are the flags.
type options struct {
	run      map[string]bool // empty: all
	rounds   int
	length   time.Duration // of one side's turn, where a line measures a rate
	records  int           // orders that exist, and records of the topic
	rows     int           // expired rows of the purge lines
	batchers int           // goroutines that hand batches to the guard
	profiles string        // folder; empty: none
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer, getenv func(string) string) int {
	if len(args) > 1 && args[0] == watchArg {
		return watch(ctx, args[1:], stdout, stderr)
	}
	opts, err := parse(args, stderr)
	if err != nil {
		return exitUsage
	}
	b := &bench{opts: opts, out: stdout, errs: stderr, host: lab.NewHost(getenv)}
	if err := b.run(ctx); err != nil {
		_, _ = fmt.Fprintln(stderr, "bench: "+err.Error())
		return exitFailed
	}
	return 0
}

func parse(args []string, stderr io.Writer) (options, error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	names := flags.String("run", "", "only these lines: `NAME`,…")
	rounds := flags.Int("rounds", 5, "turns of each side; the median counts")
	seconds := flags.Float64("seconds", 3, "length of a turn, where a line measures a rate")
	records := flags.Int("records", 1_000_000, "orders in the ledger, and records of the topic, for the replay lines")
	rows := flags.Int("rows", 500_000, "expired rows, for the purge lines")
	batchers := flags.Int("batchers", 4, "goroutines that hand batches to the guard")
	profiles := flags.String("cpuprofile", "", "put a CPU profile of our side of each in-process line into `DIR`")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	opts := options{
		rounds: *rounds, length: time.Duration(*seconds * float64(time.Second)), records: *records, rows: *rows, batchers: *batchers,
		profiles: *profiles, run: map[string]bool{},
	}
	var err error
	switch {
	case flags.NArg() > 0:
		err = fmt.Errorf("no argument is expected, there is %q", flags.Arg(0))
	case opts.rounds < 1 || opts.length <= 0 || opts.batchers < 1:
		err = fmt.Errorf("-rounds, -seconds and -batchers are expected to be above 0")
	case opts.rows < 10*purgeBatch:
		err = fmt.Errorf("-rows %d: expected at least %d", opts.rows, 10*purgeBatch)
	case opts.records < 10*batchSize*partitions:
		err = fmt.Errorf("-records %d: expected at least %d", opts.records, 10*batchSize*partitions)
	}
	if *names != "" {
		for name := range strings.SplitSeq(*names, ",") {
			if !known(name) {
				err = fmt.Errorf("-run knows %s, not %q", strings.Join(lineNames(), ", "), name)
			}
			opts.run[name] = true
		}
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "bench: "+err.Error())
	}
	return opts, err
}

func (o *options) wants(name string) bool { return len(o.run) == 0 || o.run[name] }
