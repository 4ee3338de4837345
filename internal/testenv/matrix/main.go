// Matrix runs the conformance suites on the combinations of servers that the project promises to work on, and prints the
// table that docs/compatibility.md shows:
//
//	go run ./internal/testenv/matrix [-run PATTERN] [PACKAGE]...
//
// Every server of the list is in one combination at least. `go run ./internal/lab/deps --all` fetches them.
//
// Exit codes: 0 all passed · 1 a test failed, or there was none · 2 usage · 3 a server could not be had · 130 interrupted.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/idemctl/idemctl/internal/lab"
	"github.com/idemctl/idemctl/internal/testenv/serverset"
)

const (
	exitFailed      = 1
	exitUsage       = 2
	exitServer      = 3
	exitInterrupted = 130
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr, os.Getenv))
}

// combinations are the servers that are tried together: a database, a Redis and a Kafka each.
func combinations() [][]serverset.Want {
	want := func(kind lab.Kind, version string) serverset.Want {
		return serverset.Want{Kind: kind, Version: version}
	}
	return [][]serverset.Want{
		{want(lab.KindMariaDB, "10.11"), want(lab.KindRedis, "7.0"), want(lab.KindEmbedded, "")},
		{want(lab.KindMariaDB, "11.8"), want(lab.KindRedis, "8.0"), want(lab.KindKafka, "")},
		{want(lab.KindMySQL, "9.7"), want(lab.KindValkey, "9.1"), want(lab.KindEmbedded, "")},
		{want(lab.KindMySQL, "9.7"), want(lab.KindRedis, "7.0"), want(lab.KindKafka, "")},
	}
}

// row is one combination's result.
type row struct {
	servers []string
	tally   tally
	err     error // why it did not run
}

func (r row) result() string {
	switch {
	case r.err != nil:
		return "not run"
	case r.tally.failed > 0:
		return fmt.Sprintf("%d of %d failed", r.tally.failed, r.tally.total())
	case r.tally.passed == 0:
		return "no test"
	case r.tally.skipped > 0:
		return fmt.Sprintf("%d passed, %d skipped", r.tally.passed, r.tally.skipped)
	}
	return fmt.Sprintf("%d passed", r.tally.passed)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer, getenv func(string) string) int {
	flags := flag.NewFlagSet("matrix", flag.ContinueOnError)
	flags.SetOutput(stderr)
	pattern := flags.String("run", "Conformance", "the tests to run, as for go test")
	if err := flags.Parse(args); err != nil {
		return exitUsage
	}
	packages := flags.Args()
	if len(packages) == 0 {
		packages = []string{"./pkg/..."}
	}
	ctx, signals, stop := serverset.Signals(ctx)
	defer stop()
	test := append([]string{"go", "test", "-count=1", "-json", "-timeout=20m", "-run", *pattern}, packages...)
	var rows []row
	for _, wants := range combinations() {
		r := try(ctx, wants, test, stderr, signals, lab.NewHost(getenv))
		sayf(stderr, "%s: %s", strings.Join(r.servers, " + "), r.result())
		if r.err != nil {
			sayf(stderr, "%v", r.err)
		}
		rows = append(rows, r)
		if ctx.Err() != nil {
			return exitInterrupted
		}
	}
	if _, err := io.WriteString(stdout, table(rows)); err != nil {
		sayf(stderr, "writing the table: %v", err)
		return exitServer
	}
	return verdict(rows)
}

// sayf reports progress beside the table. A closed stderr does not end the tests.
func sayf(w io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(w, "matrix: "+format+"\n", args...)
}

func verdict(rows []row) int {
	code := 0
	for _, r := range rows {
		switch {
		case r.err != nil:
			return exitServer
		case r.tally.failed > 0 || r.tally.passed == 0:
			code = exitFailed
		}
	}
	return code
}

// try starts a combination, runs the tests on it and ends it.
func try(ctx context.Context, wants []serverset.Want, test []string, stderr io.Writer, signals <-chan os.Signal, host lab.Host) (r row) {
	for _, w := range wants {
		r.servers = append(r.servers, w.String())
	}
	set, err := serverset.Start(ctx, host, wants, nil)
	if err != nil {
		r.err = err
		return r
	}
	defer func() { r.err = errors.Join(r.err, set.Close()) }()
	for i, s := range set.Servers {
		r.servers[i] = s.Name
	}
	var out bytes.Buffer
	code, err := serverset.Run(test, set.Env(), &out, stderr, signals)
	if err != nil {
		r.err = err
		return r
	}
	r.tally, err = count(&out, stderr)
	switch {
	case err != nil:
		r.err = err
	case code != 0 && r.tally.failed == 0:
		r.err = fmt.Errorf("go test ended with exit code %d and no failed test: the packages do not build", code)
	}
	return r
}

// table renders the rows as Markdown.
func table(rows []row) string {
	var b strings.Builder
	b.WriteString("| database | Redis | Kafka | conformance suites |\n|---|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s |\n", strings.Join(r.servers, " | "), r.result())
	}
	return b.String()
}
