package main

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/idemctl/idemctl/pkg/replay"
)

// consumeMonitor counts what a consumer does, for its report, for Prometheus, and for whoever asks whether it is well.
type consumeMonitor struct {
	registry *prometheus.Registry
	outcomes *prometheus.CounterVec
	retries  *prometheus.CounterVec
	parked   *prometheus.CounterVec
	degraded *prometheus.CounterVec
	latency  *prometheus.HistogramVec

	mu     sync.Mutex
	counts consumeResult
	held   map[heldKey]heldRecord // what has been tried and has not passed
}

// heldKey is one record at one handler.
type heldKey struct {
	handler   string
	partition int32
	offset    int64
}

// heldRecord is a record that was tried and is waited for, or parked, and why.
type heldRecord struct {
	Record  string `json:"record"` // topic[partition]@offset
	Handler string `json:"handler"`
	Outcome string `json:"outcome"`
	Reason  string `json:"reason,omitempty"`

	at replay.Position
}

// consumeExamples bounds the records that a report names.
const consumeExamples = 5

func newConsumeMonitor(topic, group string) *consumeMonitor {
	labels := prometheus.Labels{"topic": topic, "group": group}
	counter := func(name, help string, names ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels}, names)
	}
	m := &consumeMonitor{
		registry: prometheus.NewRegistry(),
		outcomes: counter("idemctl_consume_outcomes_total", "Records that have passed a handler, by outcome.", "handler", "outcome"),
		retries:  counter("idemctl_consume_retries_total", "Tries that did not let a record pass, by outcome.", "handler", "outcome"),
		parked:   counter("idemctl_consume_dead_letters_total", "Records parked: a dead letter written and acknowledged.", "handler", "outcome"),
		degraded: counter("idemctl_consume_degraded_total", "Records decided by the ledger alone: Redis could not be asked.", "handler"),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "idemctl_consume_batch_seconds", Help: "Time of one batch in a handler: leases, ledger, effects, COMMIT, markers.",
			ConstLabels: labels, Buckets: prometheus.ExponentialBuckets(0.001, 2, 16), //nolint:mnd // 1 ms to 33 s
		}, []string{"handler"}),
		counts: consumeResult{Topic: topic, Group: group, Handlers: map[string]replay.Tally{}},
		held:   map[heldKey]heldRecord{},
	}
	m.registry.MustRegister(m.outcomes, m.retries, m.parked, m.degraded, m.latency)
	return m
}

// observe takes every decision of the gate, from several partitions at once.
func (m *consumeMonitor) observe(o replay.Observation) {
	at := heldKey{handler: o.Handler, partition: o.Record.Partition, offset: o.Record.Offset}
	position := replay.Position{Topic: o.Record.Topic, Partition: o.Record.Partition, Offset: o.Record.Offset}
	named := heldRecord{Record: position.String(), Handler: o.Handler, Outcome: o.Verdict.Outcome, Reason: o.Verdict.Reason, at: position}
	m.mu.Lock()
	defer m.mu.Unlock()
	if o.Verdict.Degraded {
		m.degraded.WithLabelValues(o.Handler).Inc()
		m.counts.Degraded++
	}
	if !o.Passed {
		m.retries.WithLabelValues(o.Handler, o.Verdict.Outcome).Inc()
		m.counts.Retries++
		m.held[at] = named
		return
	}
	delete(m.held, at)
	m.outcomes.WithLabelValues(o.Handler, o.Verdict.Outcome).Inc()
	tally := m.counts.Handlers[o.Handler]
	if tally == nil {
		tally = replay.Tally{}
		m.counts.Handlers[o.Handler] = tally
	}
	tally[o.Verdict.Outcome]++
	if o.Parked {
		m.parked.WithLabelValues(o.Handler, o.Verdict.Outcome).Inc()
		m.counts.Parked++
		if m.counts.Parked <= consumeExamples {
			m.counts.ParkedRecords = append(m.counts.ParkedRecords, named)
		}
	}
}

// forget drops what is known of records held in a partition that has gone to another member: it holds them now.
func (m *consumeMonitor) forget(partition int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for at := range m.held {
		if at.partition == partition {
			delete(m.held, at)
		}
	}
}

// timed measures the calls of a handler.
func (m *consumeMonitor) timed(name string, h replay.Handler) replay.Handler {
	return timedHandler{Handler: h, seconds: m.latency.WithLabelValues(name)}
}

type timedHandler struct {
	replay.Handler

	seconds prometheus.Observer
}

// Handle implements replay.Handler.
func (t timedHandler) Handle(ctx context.Context, items []replay.Item) ([]replay.Verdict, error) {
	began := time.Now()
	defer func() { t.seconds.Observe(time.Since(began).Seconds()) }()
	return t.Handler.Handle(ctx, items)
}
