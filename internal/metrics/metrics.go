// Package metrics writes what a command did as a file for the node exporter's textfile collector.
//
// A run is over before anyone could scrape it, so its numbers are left in a file: whole or not at all (a temporary file,
// then a rename), readable to the exporter's user, and with the time of the last run that succeeded, since a file alone
// does not say that the job has stopped coming (hazard T6).
package metrics

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The gauges that every command writes.
const (
	LastRun     = "idemctl_last_run_timestamp_seconds"
	LastSuccess = "idemctl_last_success_timestamp_seconds"
	RunDuration = "idemctl_run_duration_seconds"
	ExitCode    = "idemctl_exit_code"
)

const helpLastSuccess = "When the command last ended with exit status 0, in seconds since 1970; 0: never."

// Set is the gauges of one file.
type Set struct {
	common []Label
	gauges []gauge
	// succeeded says that LastSuccess is this run; otherwise the value in the file before is kept.
	succeeded bool
}

// Label tells gauges of one name apart.
type Label struct{ Name, Value string }

type gauge struct {
	name, help string
	labels     []Label
	value      float64
}

// New returns an empty set. Each of its gauges carries the common labels, by which the files of several jobs on one
// machine do not contradict each other: command, schema, prefix.
func New(common ...Label) *Set { return &Set{common: common} }

// Add puts a gauge in. The help of one name is always the same.
func (s *Set) Add(name, help string, value float64, labels ...Label) {
	s.gauges = append(s.gauges, gauge{name: name, help: help, labels: labels, value: value})
}

// Run adds what is known of every run: when it started, how long it took, and how it ended. A run that did not succeed
// (exit status 0) leaves the time of the last success as the file before had it.
func (s *Set) Run(started, ended time.Time, exitCode int) {
	s.succeeded = exitCode == 0
	s.Add(LastRun, "When the command last ran to an end, in seconds since 1970.", seconds(ended))
	s.Add(RunDuration, "How long the last run took, in seconds.", ended.Sub(started).Seconds())
	s.Add(ExitCode, "The exit status of the last run.", float64(exitCode))
	if s.succeeded {
		s.Add(LastSuccess, helpLastSuccess, seconds(ended))
	}
}

func seconds(t time.Time) float64 {
	return float64(t.UnixMilli()) / float64(time.Second/time.Millisecond)
}

// Write replaces the file, which gets mode 0644. Its folder must exist.
func (s *Set) Write(path string) error {
	gauges := s.gauges
	if !s.succeeded {
		last, err := previous(path, LastSuccess, s.common)
		if err != nil {
			return fmt.Errorf("metrics file: %w", err)
		}
		gauges = append(slices.Clip(gauges), gauge{name: LastSuccess, help: helpLastSuccess, value: last})
	}
	registry := prometheus.NewRegistry()
	metrics := make(collector, 0, len(gauges))
	for _, g := range gauges {
		m, err := g.metric(s.common)
		if err != nil {
			return fmt.Errorf("metrics file: %s: %w", g.name, err)
		}
		metrics = append(metrics, m)
	}
	if err := registry.Register(metrics); err != nil {
		return fmt.Errorf("metrics file: %w", err)
	}
	if err := prometheus.WriteToTextfile(path, registry); err != nil {
		return fmt.Errorf("metrics file: %w", err)
	}
	return nil
}

var errLabelTwice = errors.New("a label is given twice")

func (g gauge) metric(common []Label) (prometheus.Metric, error) {
	var names, values []string
	seen := map[string]bool{}
	for _, labels := range [][]Label{common, g.labels} {
		for _, l := range labels {
			if seen[l.Name] {
				return nil, fmt.Errorf("%w: %s", errLabelTwice, l.Name)
			}
			seen[l.Name] = true
			names = append(names, l.Name)
			// The format is UTF-8 and a biz_type written by another service may be anything.
			values = append(values, strings.ToValidUTF8(l.Value, "\uFFFD"))
		}
	}
	m, err := prometheus.NewConstMetric(prometheus.NewDesc(g.name, g.help, names, nil), prometheus.GaugeValue, g.value, values...)
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller names the gauge
	}
	return m, nil
}

// collector hands out gauges that are known already. It describes none beforehand; the registry then checks them when they
// are gathered.
type collector []prometheus.Metric

// Describe implements prometheus.Collector.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	for _, m := range c {
		out <- m
	}
}
