package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/idemctl/idemctl/internal/render"
)

func newVersionCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long: `Print the version of idemctl and what it was built with.

Exit status:
  0    done
  2    usage is wrong`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return runVersion(a) },
	}
}

// versionResult is what `version` says.
type versionResult struct {
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func runVersion(a *app) error {
	r := versionResult{Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				r.Revision = s.Value
			case "vcs.modified":
				r.Modified = s.Value == "true"
			}
		}
	}
	t := render.Table{Columns: []render.Column{{Name: "NAME"}, {Name: "VALUE", Shrink: true}}}
	t.Add("version", version())
	if r.Revision != "" {
		t.Add("revision", r.Revision)
	}
	t.Add("go", r.Go)
	t.Add("platform", r.Platform)
	return a.Print(render.Result{Value: r, Lines: []any{r}, Tables: []render.Table{t}})
}

// version is the module's version as the Go command has stamped it: a tag, or a pseudo-version made of the commit.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}
