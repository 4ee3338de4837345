package main

import (
	"io"

	"github.com/spf13/cobra"
)

func newCompletionCmd(a *app) *cobra.Command {
	return newGroup(&cobra.Command{
		Use:   "completion",
		Short: "Print a shell's completion script",
		Long: `Print a script that makes a shell complete idemctl's commands and flags, for
example:

  source <(idemctl completion bash)

Exit status:
  0    done
  2    usage is wrong`,
	},
		newShellCmd(a, "bash", func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) }),
		newShellCmd(a, "zsh", (*cobra.Command).GenZshCompletion),
		newShellCmd(a, "fish", func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) }),
		newShellCmd(a, "powershell", (*cobra.Command).GenPowerShellCompletionWithDesc),
	)
}

func newShellCmd(a *app, shell string, generate func(*cobra.Command, io.Writer) error) *cobra.Command {
	return &cobra.Command{
		Use:   shell,
		Short: "Print the script for " + shell,
		Long: `Print the completion script for ` + shell + `.

Exit status:
  0    done
  2    usage is wrong`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return generate(cmd.Root(), a.streams.Out) },
	}
}
