package main

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/partition"
)

// seedRow is one entry that a test puts into a month.
type seedRow struct {
	order, biz      string
	create, expires time.Time
}

// The states of seeded rows.
const (
	seedExpired = "expired" // created in the month, kept for 30 days, which are over
	seedLive    = "live"    // created in the month, kept longer: expires in ten days
	seedOdd     = "odd"     // expired by its expire_at, though created in ten days: somebody's clock is wrong
)

// seedStep lies between two rows of a script's month: all of them expire within one window, whatever the day.
const seedStep = time.Second

// seedMonth makes n rows of a month, the first created at its beginning, the others each a step later.
func seedMonth(m partition.Month, now time.Time, n int, step time.Duration, state, biz, prefix string) []seedRow {
	rows := make([]seedRow, n)
	start := m.Start(time.UTC)
	for i := range rows {
		create := start.Add(time.Duration(i) * step)
		rows[i] = seedRow{order: fmt.Sprintf("%s-%d", prefix, i), biz: biz, create: create, expires: create.Add(30 * day)}
		switch state {
		case seedLive:
			rows[i].expires = now.Add(10 * day)
		case seedOdd:
			rows[i].create = now.Add(10 * day)
		}
	}
	return rows
}

func insertSeed(ctx context.Context, db *sql.DB, table string, rows []seedRow) error {
	const chunk = 500
	for len(rows) > 0 {
		n := min(chunk, len(rows))
		var args []any
		for _, r := range rows[:n] {
			args = append(args, r.order, r.biz, r.create.UTC().Truncate(time.Millisecond), r.expires.UTC().Truncate(time.Millisecond))
		}
		query := "INSERT INTO " + mysqlx.Quote(table) + " (order_id, biz_type, create_time, expire_at) VALUES " +
			strings.TrimSuffix(strings.Repeat("(?, ?, ?, ?),", n), ",")
		if _, err := db.ExecContext(ctx, query, args...); err != nil {
			return fmt.Errorf("seed %s: %w", table, err)
		}
		rows = rows[n:]
	}
	return nil
}

// serverMonth is the current month by the server's clock, in UTC.
func serverMonth(t *testing.T, schema *testenv.Schema) (partition.Month, time.Time) {
	t.Helper()
	now, err := mysqlx.Now(t.Context(), schema.DB)
	if err != nil {
		t.Fatal(err)
	}
	return partition.MonthOf(now, time.UTC), now
}

// monthsAgo is how far back scripts can name months.
const monthsAgo = 6

// monthsCmd sets M0 … M6 (the current month, and so many before it, as YYYY-MM), T0 … T6 (their tables) and TOMORROW.
func monthsCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: months")
	}
	ctx, cancel := scriptContext()
	defer cancel()
	now, err := mysqlx.Now(ctx, servers(ts).schema.DB)
	ts.Check(err)
	current := partition.MonthOf(now, time.UTC)
	for i := range monthsAgo + 1 {
		m := current - partition.Month(i)
		ts.Setenv("M"+strconv.Itoa(i), m.String())
		ts.Setenv("T"+strconv.Itoa(i), "t_idempotent_flow_"+m.Digits())
	}
	ts.Setenv("TOMORROW", now.Add(day).Format(time.DateOnly))
}

// seedCmd puts rows into a month: seed MONTHS_AGO COUNT STATE [BIZ_TYPE [PREFIX]].
func seedCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 || len(args) > 5 {
		ts.Fatalf("usage: seed MONTHS_AGO COUNT expired|live|odd [BIZ_TYPE [PREFIX]]")
	}
	ago, err := strconv.Atoi(args[0])
	ts.Check(err)
	count, err := strconv.Atoi(args[1])
	ts.Check(err)
	biz, prefix := "COUPON", args[2]+args[0]
	if len(args) > 3 {
		biz = args[3]
	}
	if len(args) > 4 {
		prefix = args[4]
	}
	ctx, cancel := scriptContext()
	defer cancel()
	db := servers(ts).schema.DB
	now, err := mysqlx.Now(ctx, db)
	ts.Check(err)
	m := partition.MonthOf(now, time.UTC) - partition.Month(ago)
	ts.Check(insertSeed(ctx, db, "t_idempotent_flow_"+m.Digits(), seedMonth(m, now, count, seedStep, args[2], biz, prefix)))
}
