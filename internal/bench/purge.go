package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/go-sql-driver/mysql"
)

// purgeBatch is the rows of one DELETE, on both sides.
const purgeBatch = 1000

// What the lines of whole months and of memory have, in multiples of -rows.
const (
	monthTimes  = 4
	memoryTimes = 10
)

func (b *bench) wantsPurge() bool {
	return slices.ContainsFunc([]string{purgeRows, purgeArchive, purgeMonth, purgeScale, purgeMemory}, b.opts.wants)
}

// purges compares what lets expired rows go.
func (b *bench) purges(ctx context.Context) error {
	if !b.wantsPurge() {
		return nil
	}
	o, err := b.openOld(ctx)
	if err != nil {
		return fmt.Errorf("set up the ledger of past months: %w", err)
	}
	rows := b.opts.rows
	for _, line := range []struct {
		name        string
		ours, rival []string // flags
	}{
		{purgeRows, []string{"--rows-only"}, []string{"--purge"}},
		{purgeArchive, []string{"--rows-only", "--archive", b.archives()}, []string{"--file", filepath.Join(b.archives(), "pt-archiver.txt")}},
	} {
		if !b.opts.wants(line.name) || b.withoutArchiver(line.name) {
			continue
		}
		rival, err := b.archiver(o, line.rival...)
		if err != nil {
			return err
		}
		if err := b.compare(ctx, line.name, b.lets(o, rows, b.purge(line.ours...)), b.lets(o, rows, rival)); err != nil {
			return err
		}
	}
	err = b.compare(ctx, purgeMonth, b.lets(o, monthTimes*rows, b.purge("--hold", "0s")), b.lets(o, monthTimes*rows, b.purge("--rows-only")))
	if err != nil {
		return err
	}
	all := memoryTimes * rows
	if err := b.compareIn(ctx, purgeScale, 1, b.letsAll(o, all, b.purge("--hold", "0s")), b.letsAll(o, all, b.purge("--rows-only"))); err != nil {
		return err
	}
	memory := func(n int) measure {
		return func(ctx context.Context) (float64, error) {
			if err := o.fillAll(ctx, n); err != nil {
				return 0, err
			}
			return peak(ctx, b.purge("--rows-only")...)
		}
	}
	return b.compareIn(ctx, purgeMemory, 1, memory(all), memory(rows))
}

// purge is the command. It ends with exit code 0 only if everything that was expired is gone.
func (b *bench) purge(more ...string) []string {
	return append([]string{b.binary(), "purge", "--execute", "--batch", strconv.Itoa(purgeBatch), "--config", b.oldConfig()}, more...)
}

// archives is where archives of a turn go.
func (b *bench) archives() string { return filepath.Join(b.dir, "archives") }

// lets is a turn of a program that lets n rows of the oldest month go. The program's start and its connects are part of it.
func (b *bench) lets(o *oldLedger, n int, argv []string) measure {
	return func(ctx context.Context) (float64, error) {
		if err := os.RemoveAll(b.archives()); err != nil {
			return 0, fmt.Errorf("remove the archives: %w", err)
		}
		if err := os.Mkdir(b.archives(), 0o700); err != nil {
			return 0, fmt.Errorf("make a folder for archives: %w", err)
		}
		if err := o.fillOnly(ctx, o.months[0], n); err != nil {
			return 0, err
		}
		return b.timed(ctx, o, n, argv)
	}
}

// letsAll is lets on rows that are spread over all months.
func (b *bench) letsAll(o *oldLedger, n int, argv []string) measure {
	return func(ctx context.Context) (float64, error) {
		if err := o.fillAll(ctx, n); err != nil {
			return 0, err
		}
		return b.timed(ctx, o, n, argv)
	}
}

// timed runs a program that lets all n rows of the old months go, and returns the rows it did in a second.
func (b *bench) timed(ctx context.Context, o *oldLedger, n int, argv []string) (float64, error) {
	took, err := wall(ctx, argv...)
	if err != nil {
		return 0, err
	}
	for _, m := range o.months {
		left, err := o.left(ctx, m)
		if err == nil && left > 0 {
			err = fmt.Errorf("%w: %d rows are left in %s", errNotAsSaid, left, m)
		}
		if err != nil {
			return 0, err
		}
	}
	return float64(n) / took.Seconds(), nil
}

// archiver is pt-archiver on the oldest month, in its fastest form: rows by ranges of the primary key, one DELETE a chunk.
func (b *bench) archiver(o *oldLedger, how ...string) ([]string, error) {
	cfg, err := mysql.ParseDSN(b.lab.DSN)
	if err != nil {
		return nil, fmt.Errorf("read the lab's DSN: %w", err)
	}
	host, port, err := net.SplitHostPort(cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("read the lab's DSN: %w", err)
	}
	now := b.shop.now.Format("2006-01-02 15:04:05.000")
	source := fmt.Sprintf("h=%s,P=%s,u=%s,D=%s,t=%s", host, port, cfg.User, cfg.DBName, o.scheme.Table(o.months[0]))
	if cfg.Passwd != "" {
		source += ",p=" + cfg.Passwd
	}
	return append([]string{
		b.ptArchiver, "--source", source, "--where", fmt.Sprintf("expire_at < '%s' AND create_time <= '%s'", now, now),
		"--bulk-delete", "--commit-each", "--limit", strconv.Itoa(purgeBatch), "--no-check-charset", "--no-version-check",
	}, how...), nil
}

// withoutArchiver says that a line is left out where there is no pt-archiver.
func (b *bench) withoutArchiver(name string) bool {
	if b.ptArchiver == "" {
		b.notef("%s is left out: there is no pt-archiver on this machine", name)
		return true
	}
	return false
}
