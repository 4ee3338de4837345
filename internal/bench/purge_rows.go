package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/partition"
)

// oldPrefix is a ledger of its own for the purge lines: its months are over, and every row in them is expired.
const oldPrefix = "t_idempotent_old"

// oldLedger is that ledger.
type oldLedger struct {
	db     *sql.DB
	months []partition.Month // over, oldest first
	scheme partition.Scheme
}

// oldMonths is over how many months the rows are spread.
const oldMonths = 3

// openOld makes the ledger: its months ended so long ago that all their rows are expired.
func (b *bench) openOld(ctx context.Context) (*oldLedger, error) {
	scheme, err := partition.NewScheme(oldPrefix)
	if err != nil {
		return nil, err
	}
	o := &oldLedger{db: b.shop.db, scheme: scheme}
	first := partition.MonthOf(b.shop.now, time.UTC) - oldMonths - 2 // a month of age and a month of retention
	for i := range oldMonths {
		o.months = append(o.months, first+partition.Month(i))
	}
	manager := partition.NewManager(b.shop.guardRead, scheme, time.UTC)
	plan, err := manager.PlanCreate(ctx, partition.CreateRequest{From: first, MemorySince: first.Start(time.UTC)})
	if err != nil {
		return nil, err
	}
	if _, err := manager.Create(ctx, plan); err != nil {
		return nil, err
	}
	for _, statement := range []string{
		"CREATE TABLE bench_n (n INT NOT NULL PRIMARY KEY)",
		"INSERT INTO bench_n VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)",
		"INSERT INTO bench_n SELECT a.n + 10 * b.n FROM bench_n a, bench_n b WHERE b.n > 0",
		"INSERT INTO bench_n SELECT a.n + 100 * b.n FROM bench_n a, bench_n b WHERE a.n < 100 AND b.n BETWEEN 1 AND 9",
	} {
		if _, err := o.db.ExecContext(ctx, statement); err != nil {
			return nil, fmt.Errorf("make the numbers: %w", err)
		}
	}
	config := fmt.Sprintf("ledger:\n  dsn: %s\n  table_prefix: %s\n  time_zone: UTC\n", b.lab.DSN, oldPrefix)
	if err := os.WriteFile(b.oldConfig(), []byte(config), 0o600); err != nil {
		return nil, fmt.Errorf("write the configuration: %w", err)
	}
	return o, nil
}

func (b *bench) oldConfig() string { return filepath.Join(b.dir, "old.yaml") }

// fillOnly has one month hold n expired rows, and the others none. A month that a turn has dropped is made again.
func (o *oldLedger) fillOnly(ctx context.Context, month partition.Month, n int) error {
	for _, m := range o.months {
		rows := 0
		if m == month {
			rows = n
		}
		if err := o.fill(ctx, m, rows); err != nil {
			return err
		}
	}
	return nil
}

// fillAll spreads n expired rows evenly over the months.
func (o *oldLedger) fillAll(ctx context.Context, n int) error {
	for i, m := range o.months {
		if err := o.fill(ctx, m, n*(i+1)/oldMonths-n*i/oldMonths); err != nil {
			return err
		}
	}
	return nil
}

// fill has a month hold n expired rows. Orders come evenly over its first 28 days, numbered at random within a day.
func (o *oldLedger) fill(ctx context.Context, month partition.Month, n int) error {
	table := mysqlx.Quote(o.scheme.Table(month))
	manager := partition.NewManager(o.db, o.scheme, time.UTC)
	plan, err := manager.PlanCreate(ctx, partition.CreateRequest{From: o.months[0]})
	if err != nil {
		return err
	}
	if _, err := manager.Create(ctx, plan); err != nil {
		return err
	}
	if _, err := o.db.ExecContext(ctx, "TRUNCATE TABLE "+table); err != nil {
		return fmt.Errorf("empty %s: %w", table, err)
	}
	const step = 250_000 // rows a statement: what one transaction undoes stays bounded
	for from := 0; from < n; from += step {
		_, err := o.db.ExecContext(ctx, fmt.Sprintf(`INSERT INTO %s
			SELECT CONCAT(DATE_FORMAT(created, '%%Y%%m%%d-'), LPAD(i * 7919 %% 10000019, 8, '0')), '%s', created, created + INTERVAL 30 DAY,
				UNHEX(LPAD(HEX(i), 32, '0')), NULL, '%s', i %% %d, i DIV %d
			FROM (SELECT i, '%s' + INTERVAL FLOOR(i * %d / %d) SECOND + INTERVAL i %% 1000 * 1000 MICROSECOND AS created
				FROM (SELECT %d + a.n * 1000 + b.n AS i FROM bench_n a, bench_n b WHERE a.n < %d) numbers WHERE i < %d) orders`,
			table, bizType, topic, partitions, partitions, month.Start(time.UTC).Format("2006-01-02 15:04:05.000"), int((28*24*time.Hour).Seconds()), n,
			from, step/1000, n))
		if err != nil {
			return fmt.Errorf("fill %s: %w", table, err)
		}
	}
	return nil
}

// left counts the rows of a month; a month that is gone has none.
func (o *oldLedger) left(ctx context.Context, month partition.Month) (int, error) {
	var n int
	err := o.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+mysqlx.Quote(o.scheme.Table(month))).Scan(&n)
	if mysqlx.Number(err) == mysqlx.ErrNoSuchTable {
		return 0, nil
	}
	return n, err
}
