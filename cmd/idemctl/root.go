package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const programName = "idemctl"

// newRoot builds the tree of commands. Each comes from its own cmd_<name>.go.
func newRoot(a *app, extra ...func(*app) *cobra.Command) *cobra.Command {
	root := newGroup(&cobra.Command{
		Use:   programName,
		Short: "Operate a Kafka consumer made idempotent by a Redis filter and a MySQL ledger",
		Long: `idemctl operates what makes a Kafka consumer idempotent: a Redis filter that
absorbs most duplicates, and a MySQL ledger with one row per business key,
written in the transaction of the business write itself.

Nothing is changed unless it is asked for: commands that could change something
print their plan and need --execute, or ask by their name (replay --mode
execute).

Results go to stdout, everything else to stderr.

Exit status:
  0    done
  1    a check found something
  2    usage or configuration is wrong; nothing was done
  3    could not: a server is unreachable or refused, or an I/O error
  4    incomplete: something was left out
  5    busy: another run holds the lock (see --wait)
  130  interrupted (Ctrl-C, SIGTERM)`,
		Version:           version(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	})
	root.SetIn(a.streams.In)
	root.SetOut(a.streams.Out)
	root.SetErr(a.streams.Err)
	a.flags.addTo(root.PersistentFlags())
	a.flagSet = root.PersistentFlags()
	root.PersistentPreRun = func(cmd *cobra.Command, _ []string) { a.command = commandName(cmd) }
	root.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	root.AddCommand(
		newPartitionCmd(a),
		newPurgeCmd(a),
		newReplayCmd(a),
		newCaptureCmd(a),
		newConsumeCmd(a),
		newReconcileCmd(a),
		newInspectCmd(a),
		newDoctorCmd(a),
		newLabCmd(a),
		newDemoCmd(a),
		newDrillCmd(a),
		newStateCmd(a),
		newHistoryCmd(a),
		newConfigCmd(a),
		newVersionCmd(a),
		newCompletionCmd(a),
	)
	for _, e := range extra {
		root.AddCommand(e(a))
	}
	root.SetHelpCommand(newHelpCmd())
	// 80 columns, as everything else.
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", ".FlagUsagesWrapped 80"))
	finishTree(root)
	return root
}

// newGroup makes a command of commands. It refuses what it does not know: cobra by itself would take `partition creat` for
// a plea for help and end with 0.
func newGroup(cmd *cobra.Command, children ...*cobra.Command) *cobra.Command {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		names := subcommands(cmd)
		hint := ": expected " + strings.Join(names, ", ")
		if near, ok := nearest(args[0], names); ok {
			hint = fmt.Sprintf("; did you mean %q?", near)
		}
		return usageErrorf("unknown command %q for %q%s", args[0], cmd.CommandPath(), hint)
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return usageErrorf("%s needs a command: %s", cmd.CommandPath(), strings.Join(subcommands(cmd), ", "))
	}
	cmd.AddCommand(children...)
	return cmd
}

func subcommands(cmd *cobra.Command) []string {
	var names []string
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	slices.Sort(names)
	return names
}

// finishTree gives every command what all share: mistakes in arguments and flags are usage errors, told in one line.
func finishTree(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(flagError)
	if args := cmd.Args; args != nil {
		cmd.Args = func(cmd *cobra.Command, given []string) error {
			if err := args(cmd, given); err != nil {
				if _, coded := errors.AsType[*statusError](err); coded {
					return err //nolint:wrapcheck // our own
				}
				return argsError(cmd, given, err)
			}
			return nil
		}
	}
	for _, c := range cmd.Commands() {
		finishTree(c)
	}
}

// argsError says in one line what cobra's own check of arguments found. Of a command that takes none cobra says "unknown
// command", which would send the reader looking for one.
func argsError(cmd *cobra.Command, given []string, err error) error {
	if strings.HasPrefix(err.Error(), "unknown command") {
		return usageErrorf("%s takes no argument, but got %q", commandName(cmd), given[0])
	}
	return usageErrorf("%s: %w; usage: %s", commandName(cmd), err, strings.TrimSuffix(cmd.UseLine(), " [flags]"))
}

func flagError(cmd *cobra.Command, err error) error {
	// `partition creat --execute`: the command is what is wrong, not its flag.
	if given := cmd.Flags().Args(); cmd.HasSubCommands() && len(given) > 0 {
		if err := cmd.Args(cmd, given); err != nil {
			return err
		}
	}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near, ok := nearest(unknown.GetSpecifiedName(), names); ok && len(unknown.GetSpecifiedName()) > 1 {
			return usageErrorf("%w; did you mean --%s?", err, near)
		}
	}
	return usageErrorf("%w", err)
}

func newHelpCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]...",
		Short: "Help about any command",
		Long: `Help about any command.

Exit status:
  0    done
  2    there is no such command`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return runHelp(cmd.Root(), args) },
	}
}

func runHelp(root *cobra.Command, args []string) error {
	at := root
	for _, name := range args {
		i := slices.IndexFunc(at.Commands(), func(c *cobra.Command) bool { return c.Name() == name })
		if i < 0 {
			return at.Args(at, []string{name})
		}
		at = at.Commands()[i]
	}
	at.InitDefaultHelpFlag()
	return at.Help() //nolint:wrapcheck // a write error of our own stream
}
