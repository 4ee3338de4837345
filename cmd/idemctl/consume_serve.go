package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/idemctl/idemctl/internal/render"
	"github.com/idemctl/idemctl/pkg/replay/kafka"
)

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
		lag:    prometheus.NewDesc("idemctl_consume_lag", "Offsets between the last record that passed and the log's end.", []string{"partition"}, labels),
		wait:   prometheus.NewDesc("idemctl_consume_waiting", "Records read that have not passed.", []string{"partition"}, labels),
	})
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { answerHealth(w, stalled()) })
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

// answerHealth names the partitions that are stuck, or says that none is.
func answerHealth(w http.ResponseWriter, stalled []kafka.PartitionState) {
	if len(stalled) == 0 {
		_, _ = fmt.Fprintln(w, "ok")
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
	for _, s := range stalled {
		_, _ = fmt.Fprintf(w, "partition %d: %d records wait, no progress since %s: %s\n",
			s.Partition, s.Waiting, s.Progress.UTC().Format(time.RFC3339), render.Text(orWords(s.Held, "a handler has not come back")))
	}
}

func orWords(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
