package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/idemctl/idemctl/internal/render"
	"github.com/idemctl/idemctl/pkg/replay"
	"github.com/idemctl/idemctl/pkg/replay/kafka"
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
	held   map[heldKey]string // outcome of the last try of what has not passed
}

// heldKey is one record at one handler.
type heldKey struct {
	handler   string
	partition int32
	offset    int64
}

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
		held:   map[heldKey]string{},
	}
	m.registry.MustRegister(m.outcomes, m.retries, m.parked, m.degraded, m.latency)
	return m
}

// observe takes every decision of the gate, from several partitions at once.
func (m *consumeMonitor) observe(o replay.Observation) {
	at := heldKey{handler: o.Handler, partition: o.Record.Partition, offset: o.Record.Offset}
	m.mu.Lock()
	defer m.mu.Unlock()
	if o.Verdict.Degraded {
		m.degraded.WithLabelValues(o.Handler).Inc()
		m.counts.Degraded++
	}
	if !o.Passed {
		m.retries.WithLabelValues(o.Handler, o.Verdict.Outcome).Inc()
		m.counts.Retries++
		m.held[at] = o.Verdict.Outcome
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

// lagCollector reads the partitions' state when Prometheus asks.
type lagCollector struct {
	states func() []kafka.PartitionState
	lag    *prometheus.Desc
	wait   *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (l *lagCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- l.lag
	ch <- l.wait
}

// Collect implements prometheus.Collector.
func (l *lagCollector) Collect(ch chan<- prometheus.Metric) {
	for _, s := range l.states() {
		p := strconv.Itoa(int(s.Partition))
		if s.Next >= 0 && s.HighWatermark >= 0 {
			ch <- prometheus.MustNewConstMetric(l.lag, prometheus.GaugeValue, float64(max(0, s.HighWatermark-s.Next)), p)
		}
		ch <- prometheus.MustNewConstMetric(l.wait, prometheus.GaugeValue, float64(s.Waiting), p)
	}
}

// serve answers on address until stop is called; an empty one serves nothing.
func (m *consumeMonitor) serve(ctx context.Context, address string, consumer *kafka.Consumer, stalled func() []kafka.PartitionState) (stop func(), err error) {
	if address == "" {
		return func() {}, nil
	}
	labels := prometheus.Labels{"topic": m.counts.Topic, "group": m.counts.Group}
	m.registry.MustRegister(&lagCollector{
		states: consumer.States,
		lag:    prometheus.NewDesc("idemctl_consume_lag", "Records between the last one that passed and the log's end.", []string{"partition"}, labels),
		wait:   prometheus.NewDesc("idemctl_consume_waiting", "Records read that have not passed.", []string{"partition"}, labels),
	})
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		bad := stalled()
		if len(bad) == 0 {
			_, _ = fmt.Fprintln(w, "ok")
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		for _, s := range bad {
			_, _ = fmt.Fprintf(w, "partition %d: %d records wait, no progress since %s: %s\n",
				s.Partition, s.Waiting, s.Progress.UTC().Format(time.RFC3339), render.Text(orWords(s.Held, "a handler has not come back")))
		}
	})
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--listen %s: %w", address, err)
	}
	const headerTimeout = 5 * time.Second
	server := &http.Server{Handler: mux, ReadHeaderTimeout: headerTimeout}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l) // it ends by Close, which is the caller's
	}()
	return func() {
		_ = server.Close()
		<-done
	}, nil
}

func orWords(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// consumeResult is what a consumer did.
type consumeResult struct {
	Topic    string                  `json:"topic"`
	Group    string                  `json:"group"`
	Handlers map[string]replay.Tally `json:"handlers"` // records that passed, by handler and outcome
	Parked   int64                   `json:"parked"`
	Held     map[string]int64        `json:"held"` // records that had not passed when it stopped, by outcome
	Retries  int64                   `json:"retries"`
	Degraded int64                   `json:"degraded"`
}

// result is a copy of the counts.
func (m *consumeMonitor) result() *consumeResult {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.counts
	r.Held = map[string]int64{}
	for _, outcome := range m.held {
		r.Held[outcome]++
	}
	return &r
}

// complete reports that every record was executed or absorbed.
func (r *consumeResult) complete() bool { return r.Parked == 0 && len(r.Held) == 0 }

func (r *consumeResult) render() render.Result {
	t := render.Table{Columns: []render.Column{
		{Name: "handler", Once: true}, {Name: "outcome"}, {Name: "records", Align: render.Right, Number: true}, {Name: "meaning", Shrink: true},
	}}
	for _, name := range sortedKeys(r.Handlers) {
		for _, o := range r.Handlers[name].Rows() {
			t.Add(name, o.Outcome, strconv.FormatInt(o.Count, 10), meaning(o.Outcome))
		}
	}
	out := render.Result{Value: r, Tables: []render.Table{t}}
	if len(r.Handlers) == 0 {
		out.Tables = nil
		out.Notes = append(out.Notes, "No record was consumed.")
	}
	if r.Parked > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("Parked as dead letters: %d.", r.Parked))
	}
	if len(r.Held) > 0 {
		var parts []string
		for _, outcome := range sortedKeys(r.Held) {
			parts = append(parts, fmt.Sprintf("%d %s", r.Held[outcome], outcome))
		}
		out.Notes = append(out.Notes, "Held back when it stopped, not committed: "+strings.Join(parts, ", ")+".")
	}
	if r.Degraded > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("Decided by the ledger alone, since Redis did not answer: %d.", r.Degraded))
	}
	return out
}
