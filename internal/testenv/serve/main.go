// Serve starts one set of servers, runs a command with the variables that point tests at them, and ends the servers with it:
//
//	go run ./internal/testenv/serve -- go test ./...
//
// It starts MariaDB, MySQL, Redis, an embedded Kafka and Apache Kafka. A MySQL and an Apache Kafka that the machine does not
// have are left out, and it says so; with IDEMCTL_TEST_REQUIRE_ALL=1 they are required. What a variable names already is
// not started. Its exit code is the command's, 2 for a usage error, 3 when a server did not come up.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/idemctl/idemctl/internal/lab"
	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/internal/testenv/serverset"
)

const (
	exitUsage  = 2
	exitServer = 3
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr, os.Getenv))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer, getenv func(string) string) int {
	argv := command(args)
	if len(argv) == 0 {
		sayf(stderr, "usage: serve -- COMMAND [ARGUMENT]...")
		return exitUsage
	}
	ctx, signals, stop := serverset.Signals(ctx)
	defer stop()
	set, err := start(ctx, lab.NewHost(getenv), wants(getenv))
	if err != nil {
		sayf(stderr, "%v", err)
		return exitServer
	}
	for _, m := range set.Missing {
		sayf(stderr, "going without: %v", m)
	}
	sayf(stderr, "%s", set.Names())
	code, err := serverset.Run(argv, set.Env(), stdout, stderr, signals)
	if err := errors.Join(err, set.Close()); err != nil {
		sayf(stderr, "%v", err)
		return max(code, exitServer)
	}
	return code
}

// sayf reports beside the command's own output. A closed stderr does not end the tests.
func sayf(w io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(w, "serve: "+format+"\n", args...)
}

// start starts the set. A machine that has MySQL and no MariaDB runs the tests on what it has.
func start(ctx context.Context, host lab.Host, wants []serverset.Want) (*serverset.Set, error) {
	if len(wants) > 1 && wants[0].Kind == lab.KindMariaDB && wants[1].Optional {
		if _, err := host.Find(ctx, lab.KindMariaDB, ""); errors.Is(err, lab.ErrNotFound) {
			wants = wants[1:]
			wants[0].Optional = false
		}
	}
	return serverset.Start(ctx, host, wants, nil)
}

// command is what stands behind the "--".
func command(args []string) []string {
	if i := slices.Index(args, "--"); i == 0 {
		return args[1:]
	}
	return nil
}

// wants lists the servers to start: those of the makes that no variable names.
func wants(getenv func(string) string) []serverset.Want {
	optional := getenv(testenv.EnvRequireAll) != "1"
	var out []serverset.Want
	if getenv(testenv.EnvMySQL) == "" {
		out = append(out, serverset.Want{Kind: lab.KindMariaDB}, serverset.Want{Kind: lab.KindMySQL, Optional: optional})
	}
	if getenv(testenv.EnvRedis) == "" {
		out = append(out, serverset.Want{Kind: lab.KindRedis})
	}
	if getenv(testenv.EnvKafka) == "" {
		out = append(out, serverset.Want{Kind: lab.KindEmbedded}, serverset.Want{Kind: lab.KindKafka, Optional: optional})
	}
	return out
}
