package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/idemctl/idemctl/internal/lab"
)

type demoOptions struct {
	labServers

	orders int
	seed   uint64
	keep   bool
}

func newDemoCmd(a *app) *cobra.Command {
	opts := demoOptions{labServers: newLabServers()}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Replay an incident on throw-away servers: coupons granted twice, and once",
		Long: `Start throw-away servers, publish an incident (a sale's paid orders, some of
them published twice), show what a consumer without a guard makes of it, then
run the real commands on it, each printed before its output so that it can be
typed again. At the end every order and every coupon is counted.

Only servers that were started here are touched, and all of it ends with the
demo; --keep leaves them up until Ctrl-C.

Exit status:
  0    exactly one coupon for each order
  2    usage or configuration is wrong; nothing was done
  3    the count is wrong, or the demo could not be carried out
  130  interrupted (Ctrl-C, SIGTERM)`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDemo(cmd.Context(), a, &opts) },
	}
	opts.AddFlags(cmd.Flags())
	return cmd
}

// AddFlags declares the command's flags.
func (o *demoOptions) AddFlags(fs *pflag.FlagSet) {
	o.labServers.AddFlags(fs)
	fs.IntVar(&o.orders, "orders", demoDefaultOrders, fmt.Sprintf("publish `N` orders, %d to %d", demoMinOrders, demoMaxOrders))
	fs.Uint64Var(&o.seed, "seed", 1, "`N` that decides which orders are published twice")
	fs.BoolVar(&o.keep, "keep", false, "leave the servers up at the end, until Ctrl-C")
}

// demo is one run of the tour.
type demo struct {
	app      *app
	out      io.Writer // the narration; the account goes to stdout in every format
	incident *demoIncident
	lab      *lab.Lab
	dir      string // of the configuration and the effect
	exe      string // this very program
	env      []string
	// surprise is the first command that did not end as it should have.
	surprise string
}

func runDemo(ctx context.Context, a *app, opts *demoOptions) (err error) {
	if err := a.refuseOwnServers(); err != nil {
		return err
	}
	incident, err := newDemoIncident(opts.orders, opts.seed)
	if err != nil {
		return usageErrorf("--orders: %w", err)
	}
	d := &demo{app: a, out: a.streams.Out, incident: incident}
	if a.flags.output != "table" {
		d.out = a.streams.Err
	}
	if d.exe, err = os.Executable(); err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if d.dir, err = os.MkdirTemp("", "idemctl-demo-"); err != nil {
		return fmt.Errorf("make the demo's folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(d.dir)) }()
	began := a.now()
	d.sayf("Starting throw-away servers on 127.0.0.1.")
	if d.lab, err = a.startLab(ctx, opts.labServers, ""); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.lab.Close()) }()
	if err := d.tour(ctx); err != nil {
		return err
	}
	account, err := d.account(ctx)
	if err != nil {
		return err
	}
	d.sayf("Took %s.\n", a.now().Sub(began).Round(100*time.Millisecond))
	if err := a.Print(account.render()); err != nil {
		return err
	}
	if opts.keep {
		// On stderr: the account is the last of the result.
		_, _ = fmt.Fprintf(a.streams.Err, "\nThe servers stay up until Ctrl-C. In another terminal:\n  export %s=%s\n", envConfig, d.config())
		a.untilSignal(ctx)
	}
	if d.surprise != "" {
		return withStatus(exitFailure, errors.New(d.surprise))
	}
	if !account.OK {
		return exitStatus(exitFailure)
	}
	return nil
}

// tour is all that happens between the servers' start and the account.
func (d *demo) tour(ctx context.Context) error {
	servers := labTable()
	if err := d.showServers(&servers); err != nil {
		return err
	}
	if err := d.writeFiles(); err != nil {
		return err
	}
	if err := d.publish(ctx); err != nil {
		return ended(ctx, err)
	}
	if err := d.unguarded(ctx); err != nil {
		return ended(ctx, err)
	}
	return d.guarded(ctx)
}

// ended is err, or that ctx has ended, of which err then is a mere consequence.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func (d *demo) config() string { return filepath.Join(d.dir, configName) }

// sayf writes a paragraph. That stdout cannot be written is noticed at the end, for every command alike.
func (d *demo) sayf(format string, args ...any) { _, _ = fmt.Fprintf(d.out, format+"\n", args...) }

// headline begins an act.
func (d *demo) headline(text string) { d.sayf("\n== %s ==\n", text) }
