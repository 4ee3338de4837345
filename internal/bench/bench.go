package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/idemctl/idemctl/internal/lab"
)

// bench is one run.
type bench struct {
	opts options
	host lab.Host
	out  io.Writer // results
	errs io.Writer // what is being done

	dir  string // temporary: the binary, its configuration
	lab  *lab.Lab
	shop *shop
	// The paths of rivals; empty where there is none.
	kcat, ptArchiver, redisCLI string
	profile                    string // file of the CPU profile of the turn under way
	results                    []result
}

// run starts the servers, measures what was asked for and prints the table.
func (b *bench) run(ctx context.Context) (err error) {
	b.kcat, b.ptArchiver, b.redisCLI = b.find("kcat"), b.find("pt-archiver"), b.find("redis-cli")
	if b.dir, err = os.MkdirTemp("", "idemctl-bench-"); err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	if b.opts.wants(startup) || b.wantsReplay() || b.wantsPurge() || b.wantsReconcile() {
		b.notef("building idemctl")
		if err := b.build(ctx); err != nil {
			return err
		}
	}
	b.notef("starting the servers")
	if b.lab, err = lab.Start(ctx, lab.Options{Host: b.host, Kafka: lab.KafkaApache}); err != nil {
		return fmt.Errorf("start the servers: %w", err)
	}
	defer func() { err = errors.Join(err, b.lab.Close()) }()
	if b.shop, err = openShop(ctx, b.lab, b.opts.records); err != nil {
		return fmt.Errorf("set up the ledger: %w", err)
	}
	defer func() { err = errors.Join(err, b.shop.close()) }()
	b.notef("%s, %s, %s, %s on %s/%s with %d processors", b.lab.DBName, b.lab.RedisName, b.lab.KafkaName,
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	for _, contest := range []func(context.Context) error{
		b.startup, b.purges, b.replays, b.reconciles, b.guardFresh, b.guardFreshLimit, b.guardDuplicate, b.guardDuplicateLedger,
	} {
		if err := contest(ctx); err != nil {
			return err
		}
	}
	return b.table()
}

// notef says what is being done, beside the results.
func (b *bench) notef(format string, args ...any) {
	_, _ = fmt.Fprintf(b.errs, "bench: "+format+"\n", args...)
}
