package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/idemctl/idemctl/internal/render"
	"github.com/idemctl/idemctl/pkg/purge"
)

type purgeArchivesOptions struct{ noVerify bool }

func newPurgeArchivesCmd(a *app) *cobra.Command {
	var opts purgeArchivesOptions
	cmd := &cobra.Command{
		Use:   "archives DIR",
		Short: "List the archives of a folder and verify them",
		Long: `List the archives in a folder, and what runs that broke off have left there.
Every byte is read and compared with the manifest; with --no-verify only that
both files are there, the manifest is whole and the size is right. No server is
needed.

Exit status:
  0    done: every archive is as it was written
  1    an archive cannot be relied on` + exitHelp(),
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runPurgeArchives(cmd.Context(), a, opts, args[0])
		},
	}
	opts.AddFlags(cmd.Flags())
	return cmd
}

// AddFlags declares the command's flags.
func (o *purgeArchivesOptions) AddFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.noVerify, "no-verify", false, "do not read the files")
}

func runPurgeArchives(ctx context.Context, a *app, opts purgeArchivesOptions, dir string) error {
	var path pathFlag
	if err := path.Set(dir); err != nil {
		return usageErrorf("DIR: %w", err)
	}
	infos, err := purge.ListArchives(ctx, string(path), !opts.noVerify)
	if err != nil {
		return fmt.Errorf("purge archives: %w", err)
	}
	result := purgeArchivesResult{Dir: string(path), Verified: !opts.noVerify, Archives: infos}
	for _, i := range infos {
		if i.Fault != "" {
			result.Faults++
		}
	}
	if err := a.Print(result.render()); err != nil {
		return err
	}
	if result.Faults > 0 {
		return exitStatus(exitFinding)
	}
	return nil
}

// purgeArchivesResult is what `purge archives` says.
type purgeArchivesResult struct {
	Dir      string              `json:"dir"`
	Verified bool                `json:"verified"` // the files were read
	Faults   int                 `json:"faults"`
	Archives []purge.ArchiveInfo `json:"archives"`
}

func (r *purgeArchivesResult) render() render.Result {
	out := render.Result{Value: r, Lines: []any{}}
	t := render.Table{Columns: []render.Column{
		{Name: "archive", Shrink: true, Min: 24}, {Name: "state"}, {Name: "rows", Align: render.Right, Number: true}, {Name: "size", Align: render.Right},
	}}
	for _, i := range r.Archives {
		state, rows, size := "verified", "", "-"
		switch {
		case i.Fault != "":
			state = string(i.Fault)
		case !i.Verified:
			state = "not verified"
		}
		if m := i.Manifest; m != nil {
			rows, size = strconv.FormatInt(m.Rows, 10), byteSize(m.Bytes)
		}
		t.Add(i.Name(), state, rows, size)
		out.Lines = append(out.Lines, i)
		if i.Fault != "" {
			out.Notes = append(out.Notes, wrap(fmt.Sprintf("%s: %s: %s", render.Text(i.File), i.Fault, render.Text(i.Detail)), render.DefaultWidth))
		}
	}
	if len(r.Archives) > 0 {
		out.Tables = []render.Table{t}
	}
	verified := ", verified"
	if !r.Verified {
		verified = ", not verified"
	}
	out.Notes = append(out.Notes, wrap(fmt.Sprintf("%s in %s%s; %d at fault.", count(int64(len(r.Archives)), "archive"), render.Text(r.Dir), verified, r.Faults), render.DefaultWidth))
	return out
}
