package main

import (
	"database/sql"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/replay"
	"github.com/idemctl/idemctl/pkg/replay/kafka"
)

func TestMain(m *testing.M) {
	testscript.Main(testM{m}, map[string]func(){
		// The program itself, with commands beside its own that do what no real command should: panic, hang, fill stdout.
		"idemctl": func() {
			os.Exit(run(os.Args[1:], systemStreams(), os.Environ, newTestPanicCmd, newTestWaitCmd, newTestLinesCmd, newTestEndCmd, newTestOpenCmd))
		},
	})
}

// testM ends the servers that the tests started.
type testM struct{ m *testing.M }

func (t testM) Run() int { return testenv.Main(t.m) }

// TestScript runs what users run: the real command, by the scripts in testdata/script.
func TestScript(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		Cmds:                scriptCommands(),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

// TestServerScript runs the scripts that need servers, each with a schema, a Redis prefix and a Kafka of its own or shared
// by name. See serverSetup for the variables that they find.
func TestServerScript(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script/server",
		Setup:               serverSetup,
		Cmds:                scriptCommands(),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

func newTestPanicCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "test-panic", Hidden: true, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			panic("in " + a.command)
		},
	}
}

// newTestWaitCmd waits for its context, prints the partial result it has, and says why it ended.
func newTestWaitCmd(a *app) *cobra.Command {
	var deaf bool
	cmd := &cobra.Command{
		Use: "test-wait", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.log().Info("waiting")
			<-cmd.Context().Done()
			if deaf {
				a.log().Info("deaf")
				select {}
			}
			if _, err := a.streams.Out.Write([]byte("partial result\n")); err != nil {
				return err
			}
			return cmd.Context().Err()
		},
	}
	cmd.Flags().BoolVar(&deaf, "deaf", false, "do not end when asked to")
	return cmd
}

// newTestLinesCmd writes more than any pipe holds, then says so on stderr.
func newTestLinesCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "test-lines", Hidden: true, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			line := []byte("a line of output\n")
			for range 100_000 {
				if _, err := a.streams.Out.Write(line); err != nil {
					return err
				}
			}
			a.log().Info("all written")
			return nil
		},
	}
}

// newTestEndCmd ends in the states that real commands end in.
func newTestEndCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "test-end STATE", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			switch args[0] {
			case "forgetful":
				_ = a.Print(testResult())
				return nil
			case "finding":
				if err := a.Print(testResult()); err != nil {
					return err
				}
				return exitStatus(exitFinding)
			case "late-failure":
				if err := a.Print(testResult()); err != nil {
					return err
				}
				return &unreachableError{What: "Redis", Address: "127.0.0.1:1", Err: noAnswerError{after: 1}}
			}
			return &unreachableError{What: "Redis", Address: "127.0.0.1:1", Err: noAnswerError{after: 1}}
		},
	}
}

// newTestOpenCmd makes the first contact with one server.
func newTestOpenCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "test-open SERVER", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			switch args[0] {
			case "mysql":
				_, err = a.DB(cmd.Context())
			case "guard":
				var db *sql.DB
				if db, err = a.GuardDB(cmd.Context()); err != nil {
					return err
				}
				var autocommit int
				if err := db.QueryRowContext(cmd.Context(), "SELECT @@autocommit").Scan(&autocommit); err != nil {
					return err
				}
				a.log().Info("guard", "autocommit", autocommit)
			case "redis":
				var client redis.UniversalClient
				if client, err = a.Redis(cmd.Context()); err != nil {
					return err
				}
				err = client.Exists(cmd.Context(), "nothing").Err()
			case "kafka":
				var client *kafka.Client
				if client, err = a.Kafka(nil); err != nil {
					return err
				}
				_, err = client.Resolve(cmd.Context(), "order-paid", nil, replay.Range{})
			}
			if err == nil {
				a.log().Info("answered")
			}
			return err
		},
	}
}
