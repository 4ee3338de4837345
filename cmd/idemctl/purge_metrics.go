package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/idemctl/idemctl/internal/metrics"
	"github.com/idemctl/idemctl/pkg/partition"
	"github.com/idemctl/idemctl/pkg/purge"
)

// measured writes the metrics file, if one is asked for, about a run that ended with err, and returns the error that the
// command ends with.
func (j *purgeJob) measured(ctx context.Context, err error) error {
	if j.opts.metricsFile == "" || !j.opts.execute { // a plan is no run
		return err
	}
	code := exitCode(err)
	if ctx.Err() != nil {
		code = exitInterrupted
	}
	set := metrics.New(j.app.metricLabels()...)
	set.Run(j.started, j.app.now(), code)
	j.addReport(set)
	j.addCatalog(ctx, set)
	if werr := set.Write(string(j.opts.metricsFile)); werr != nil {
		return errors.Join(err, withStatus(exitFailure, werr))
	}
	return err
}

// metricLabels tell the files of several jobs and ledgers on one machine apart. A configuration that cannot be read leaves
// them empty.
func (a *app) metricLabels() []metrics.Label {
	labels := []metrics.Label{{Name: "command", Value: a.command}, {Name: "schema"}, {Name: "prefix"}}
	if a.config != nil {
		if dsn, err := mysql.ParseDSN(a.config.Ledger.DSN); err == nil {
			labels[1].Value = dsn.DBName
		}
		labels[2].Value = a.config.Ledger.TablePrefix
	}
	return labels
}

func (j *purgeJob) addReport(set *metrics.Set) {
	rep := j.result.Report
	if rep == nil {
		rep = &purge.Report{} // nothing was done, which is what the numbers say
	}
	set.Add("idemctl_purge_rows_deleted", "Rows that the last run deleted one by one.", float64(rep.Deleted))
	set.Add("idemctl_purge_rows_dropped", "Rows that went with whole months in the last run.", float64(rep.DroppedRows))
	set.Add("idemctl_purge_rows_skipped", "Rows that were no longer expired when they were to be deleted.", float64(rep.Skipped))
	set.Add("idemctl_purge_months_dropped", "Months that the last run dropped.", float64(len(rep.Dropped())))
	set.Add("idemctl_purge_months_deferred", "Months that the last run put off.", float64(len(rep.Deferred())))
	set.Add("idemctl_purge_lag_wait_seconds", "How long the last run waited for the replica.", rep.LagWaited.Seconds())
	for i := range rep.Months {
		m := &rep.Months[i]
		if m.Outcome == purge.OutcomeKept {
			continue
		}
		set.Add("idemctl_purge_month_rows", "Rows of a table that went in the last run, deleted or dropped.",
			float64(m.Deleted+m.Dropped), metrics.Label{Name: "table", Value: m.Table.Name})
	}
}

// metricsTimeout bounds the look at the catalog for the metrics of a run that was interrupted.
const metricsTimeout = 5 * time.Second

// addCatalog adds what the ledger remembers, and how many months are ready. A catalog that cannot be read adds nothing.
func (j *purgeJob) addCatalog(ctx context.Context, set *metrics.Set) {
	if j.db == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), metricsTimeout)
	defer cancel()
	catalog, err := partition.LoadCatalog(ctx, j.db, j.scheme)
	if err != nil {
		if !errors.Is(err, partition.ErrNoCatalog) {
			j.app.log().Warn("the metrics file says nothing of the horizon", "error", fmt.Errorf("purge: %w", err))
		}
		return
	}
	for _, biz := range sortedKeys(catalog.Biz) {
		if h, ok := catalog.Horizon(biz); ok {
			set.Add("idemctl_ledger_horizon_seconds", "For a business time later than this (in seconds since 1970) the ledger's memory is complete.",
				float64(h.UnixMilli())/float64(time.Second/time.Millisecond), metrics.Label{Name: "biz_type", Value: biz})
		}
	}
	now := j.result.Plan.Now // the database's
	if now.IsZero() {
		now = j.app.now()
	}
	current := partition.MonthOf(now, j.app.config.Location())
	ahead := 0
	for ; ; ahead++ {
		if _, ok := catalog.Home(current + partition.Month(ahead) + 1); !ok {
			break
		}
	}
	set.Add("idemctl_ledger_months_ahead", "Months after the current one that are there, without a gap.", float64(ahead))
}
