package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/idemctl/idemctl/internal/render"
)

func newConfigCmd(a *app) *cobra.Command {
	return newGroup(&cobra.Command{
		Use:   "config",
		Short: "Look at the configuration",
		Long: `Look at the configuration that the other commands would use.

Exit status:
  0    done` + exitHelp(),
	}, newConfigShowCmd(a))
}

type configShowOptions struct {
	origin bool
}

func newConfigShowCmd(a *app) *cobra.Command {
	var opts configShowOptions
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Print the effective configuration, secrets hidden",
		Long: `Print the effective configuration as a configuration file would say it: flags
over IDEMCTL_* variables over the file over defaults. Passwords are shown as
***, never as they are.

Exit status:
  0    done` + exitHelp(),
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return runConfigShow(a, opts) },
	}
	opts.AddFlags(cmd.Flags())
	return cmd
}

// AddFlags declares the command's flags.
func (o *configShowOptions) AddFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.origin, "origin", false, "say of each key where it was set: flag, environment, file and line, or default")
}

func runConfigShow(a *app, opts configShowOptions) error {
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	keys := cfg.shown()
	t := render.Table{Columns: []render.Column{{Name: "key"}, {Name: "value"}}}
	if opts.origin {
		t.Columns = append(t.Columns, render.Column{Name: "origin"})
	}
	for _, k := range keys {
		row := []string{k.Key, k.text()}
		if opts.origin {
			row = append(row, k.Origin)
		}
		t.Add(row...)
	}
	if a.flags.output == render.FormatTable {
		yaml, err := toYAML(keys, opts.origin)
		if err != nil {
			return err
		}
		return a.Print(render.Result{Notes: []string{strings.TrimRight(yaml, "\n")}})
	}
	return a.Print(render.Result{Value: toTree(keys, opts.origin), Tables: []render.Table{t}})
}
