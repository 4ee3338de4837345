package testenv

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemctl/idemctl/internal/lab"
)

// Cluster is one Kafka that tests run on.
type Cluster struct {
	// Name for people: "kfake (embedded)", "Apache Kafka 4.4.0"; of a configured one what it says of itself.
	Name    string
	Brokers []string
	// Embedded tells kfake from a real Kafka, for the few things that only one of them can do.
	Embedded bool
}

// Kafka is the primary cluster: the first configured one, else the embedded.
func Kafka(tb testing.TB) *Cluster {
	tb.Helper()
	if all := configured(EnvKafka); len(all) > 0 {
		return contactKafka(tb, all[0])
	}
	return startedKafka(tb, lab.KindEmbedded)
}

// Kafkas are all clusters that a conformance suite runs on: the configured ones, else the embedded and Apache Kafka. The
// latter is left out only on a machine without Java or Kafka's jars.
func Kafkas(tb testing.TB) []*Cluster {
	tb.Helper()
	var out []*Cluster
	if all := configured(EnvKafka); len(all) > 0 {
		for _, brokers := range all {
			out = append(out, contactKafka(tb, brokers))
		}
		return out
	}
	out = append(out, startedKafka(tb, lab.KindEmbedded))
	if _, err := host().Find(tb.Context(), lab.KindKafka, ""); errors.Is(err, lab.ErrNotFound) && !requireAll() {
		tb.Logf("Apache Kafka's leg is left out: %v", err)
		return out
	}
	return append(out, startedKafka(tb, lab.KindKafka))
}

func startedKafka(tb testing.TB, kind lab.Kind) *Cluster {
	tb.Helper()
	s, err := shared.server(tb.Context(), kind)
	if err != nil {
		tb.Fatalf("a Kafka for the test: %v\nRun `make deps`, or name a cluster in %s.", err, EnvKafka)
	}
	return &Cluster{Name: s.Name, Brokers: s.Brokers(), Embedded: kind == lab.KindEmbedded}
}

// contactKafka asks a configured cluster what it is.
func contactKafka(tb testing.TB, brokers string) *Cluster {
	tb.Helper()
	c := &Cluster{Name: brokers, Brokers: strings.Split(brokers, ",")}
	ctx, cancel := context.WithTimeout(tb.Context(), contactTimeout)
	defer cancel()
	admin, closeClient := c.admin(tb)
	defer closeClient()
	md, err := admin.BrokerMetadata(ctx)
	if err != nil {
		tb.Fatalf("%s: %s does not answer: %v", EnvKafka, brokers, err)
	}
	if md.Cluster == lab.EmbeddedClusterID {
		c.Name, c.Embedded = string(lab.KindEmbedded), true
		return c
	}
	versions, err := admin.ApiVersions(ctx)
	if err != nil {
		tb.Fatalf("%s: %s does not say its version: %v", EnvKafka, brokers, err)
	}
	c.Name = "Kafka"
	for _, v := range versions {
		c.Name = "Kafka " + v.VersionGuess()
	}
	return c
}

func (c *Cluster) admin(tb testing.TB) (*kadm.Client, func()) {
	tb.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Brokers...))
	if err != nil {
		tb.Fatalf("a client of %s: %v", c.Name, err)
	}
	return kadm.NewClient(cl), cl.Close
}

// Client is a client of the cluster, closed when the test ends.
func (c *Cluster) Client(tb testing.TB, opts ...kgo.Opt) *kgo.Client {
	tb.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.Brokers...)}, opts...)...)
	if err != nil {
		tb.Fatalf("a client of %s: %v", c.Name, err)
	}
	tb.Cleanup(cl.Close)
	return cl
}

// notInTopics is what a topic's name may not hold.
var notInTopics = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// Topic creates a topic of one replica for the test and returns its name. It is deleted when the test ends.
func (c *Cluster) Topic(tb testing.TB, partitions int32, configs map[string]string) string {
	tb.Helper()
	name := notInTopics.ReplaceAllString(tb.Name(), "-")
	name = name[:min(len(name), 100)] + "-" + unique()
	values := make(map[string]*string, len(configs))
	for k, v := range configs {
		values[k] = &v
	}
	admin, closeClient := c.admin(tb)
	tb.Cleanup(closeClient)
	resp, err := admin.CreateTopic(tb.Context(), partitions, 1, values, name)
	if err = errors.Join(err, resp.Err); err != nil {
		tb.Fatalf("a topic on %s: %v", c.Name, err)
	}
	tb.Cleanup(func() {
		ctx, cancel := cleanupContext(tb)
		defer cancel()
		resp, err := admin.DeleteTopic(ctx, name)
		if err = errors.Join(err, resp.Err); err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
			tb.Logf("deleting the test's topic %s: %v", name, err) // a broker of the test's own may be gone by now
		}
	})
	if err := awaitTopic(tb.Context(), admin, name, int(partitions)); err != nil {
		tb.Fatalf("a topic on %s: %v", c.Name, err)
	}
	return name
}

// awaitTopic waits until the broker itself knows all partitions and their leaders: a real Kafka answers the creation when
// its controller has decided it, a moment earlier.
func awaitTopic(ctx context.Context, admin *kadm.Client, name string, partitions int) error {
	ctx, cancel := context.WithTimeout(ctx, contactTimeout)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		topics, err := admin.ListTopics(ctx, name)
		if err == nil && led(topics[name]) == partitions {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s has not become available: %w", name, errors.Join(ctx.Err(), err))
		case <-tick.C:
		}
	}
}

func led(topic kadm.TopicDetail) int {
	n := 0
	for _, p := range topic.Partitions {
		if p.Err == nil && p.Leader >= 0 {
			n++
		}
	}
	return n
}

// OwnKafka starts an embedded Kafka for this test alone. It keeps its records over a Restart.
func OwnKafka(tb testing.TB) *lab.Server {
	tb.Helper()
	return own(tb, lab.EmbeddedKafka)
}

// OwnApacheKafka starts an Apache Kafka for this test alone.
func OwnApacheKafka(tb testing.TB) *lab.Server {
	tb.Helper()
	return own(tb, lab.ApacheKafka)
}
