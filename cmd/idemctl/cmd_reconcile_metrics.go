package main

import (
	"context"
	"errors"

	"github.com/idemctl/idemctl/internal/metrics"
	"github.com/idemctl/idemctl/pkg/ledger/reconcile"
)

// measured writes the metrics file, if one is asked for, about a run that ended with err, and returns the error that the
// command ends with.
func (j *reconcileJob) measured(ctx context.Context, err error) error {
	if j.opts.metricsFile == "" {
		return err
	}
	code := exitCode(err)
	if ctx.Err() != nil {
		code = exitInterrupted
	}
	set := metrics.New(j.app.metricLabels()...)
	set.Run(j.started, j.app.now(), code)
	j.addReport(set)
	if werr := set.Write(string(j.opts.metricsFile)); werr != nil {
		return errors.Join(err, withStatus(exitFailure, werr))
	}
	return err
}

// addReport adds what was found, by kind, those of which there are none too: a gauge that is missing raises no alarm. A run
// that could not begin has found nothing, and must not look as if all were well.
func (j *reconcileJob) addReport(set *metrics.Set) {
	rep := j.result.Report
	if rep == nil {
		return
	}
	complete := 0.0
	if rep.Complete {
		complete = 1
	}
	set.Add("idemctl_reconcile_complete", "1 if the last run looked at everything.", complete)
	set.Add("idemctl_reconcile_keys_checked", "Redis keys that the last run compared with the ledger.", float64(rep.KeysChecked))
	set.Add("idemctl_reconcile_rows_scanned", "Ledger rows that the last run read.", float64(rep.RowsScanned))
	for _, k := range reconcile.Kinds() {
		set.Add("idemctl_reconcile_findings", "Findings of the last run.", float64(rep.Count(k)),
			metrics.Label{Name: "kind", Value: string(k)}, metrics.Label{Name: "severity", Value: string(k.Severity())})
	}
	if j.result.Fix != nil {
		set.Add("idemctl_reconcile_repaired", "Markers that the last run repaired.", float64(j.result.Fix.Applied()))
	}
}
