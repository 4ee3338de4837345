package kafka_test

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/replay"
	"github.com/idemctl/idemctl/pkg/replay/kafka"
)

// cluster is a Kafka to test against, with what a test needs beside the code under test.
type cluster struct {
	*testenv.Cluster

	admin *kadm.Client
}

// clusters is every Kafka there is: the conformance suite is the same for all.
func clusters(t *testing.T) []*cluster {
	t.Helper()
	var out []*cluster
	for _, k := range testenv.Kafkas(t) {
		out = append(out, newCluster(t, k))
	}
	return out
}

func newCluster(t *testing.T, k *testenv.Cluster) *cluster {
	t.Helper()
	return &cluster{Cluster: k, admin: kadm.NewClient(k.Client(t))}
}

// newFake starts a kfake of the test's own: for what only it can be told to do, and for tests that break their broker.
func newFake(t *testing.T, opts ...kfake.Opt) (*kfake.Cluster, *cluster) {
	t.Helper()
	fake, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	if err != nil {
		t.Fatalf("start kfake: %v", err)
	}
	t.Cleanup(fake.Close)
	return fake, newCluster(t, &testenv.Cluster{Name: "kfake", Brokers: fake.ListenAddrs(), Embedded: true})
}

// newProducer writes to the partition that a record names, uncompressed, so that sizes are what they look like.
func newProducer(t *testing.T, brokers []string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(brokers...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.MetadataMinAge(50 * time.Millisecond),
	}, opts...)...)
	if err != nil {
		t.Fatalf("open a producer: %v", err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// open gives the source under test.
func (c *cluster) open(t *testing.T, change ...func(*kafka.Config)) *kafka.Client {
	t.Helper()
	cfg := kafka.Config{Brokers: c.Brokers}
	for _, f := range change {
		f(&cfg)
	}
	src, err := kafka.Open(cfg)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(src.Close)
	return src
}

// produce writes records without a transaction, each batch of its own call in order.
func (c *cluster) produce(t *testing.T, topic string, partition int32, values ...string) {
	t.Helper()
	produceWith(t, newProducer(t, c.Brokers), topic, partition, values...)
}

func produceWith(t *testing.T, cl *kgo.Client, topic string, partition int32, values ...string) {
	t.Helper()
	records := make([]*kgo.Record, 0, len(values))
	for _, v := range values {
		records = append(records, &kgo.Record{Topic: topic, Partition: partition, Value: []byte(v)})
	}
	if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatalf("produce to %s[%d]: %v", topic, partition, err)
	}
}

// begin opens a transaction, writes the records, and leaves it open until end is called.
func (c *cluster) begin(t *testing.T, topic string, partition int32, values ...string) (end func(kgo.TransactionEndTry)) {
	t.Helper()
	cl := newProducer(t, c.Brokers, kgo.TransactionalID(topic+"-"+rand.Text()))
	if err := cl.BeginTransaction(); err != nil {
		t.Fatalf("begin: %v", err)
	}
	produceWith(t, cl, topic, partition, values...)
	return func(how kgo.TransactionEndTry) {
		t.Helper()
		if err := cl.EndTransaction(t.Context(), how); err != nil {
			t.Fatalf("end transaction: %v", err)
		}
	}
}

// deleteBefore moves a partition's log start.
func (c *cluster) deleteBefore(t *testing.T, topic string, partition int32, offset int64) {
	t.Helper()
	var to kadm.Offsets
	to.AddOffset(topic, partition, offset, -1)
	resp, err := c.admin.DeleteRecords(t.Context(), to)
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		t.Fatalf("delete records of %s[%d] before %d: %v", topic, partition, offset, err)
	}
}

// awaitStable waits until no transaction of the partition is open: a broker writes its markers after it has answered.
func (c *cluster) awaitStable(t *testing.T, topic string, partition int32, want int64) {
	t.Helper()
	for {
		got, err := c.admin.ListCommittedOffsets(t.Context(), topic)
		if err != nil {
			t.Fatalf("list stable offsets of %s: %v", topic, err)
		}
		if o, ok := got.Lookup(topic, partition); ok && o.Err == nil && o.Offset >= want {
			return
		}
	}
}

func parse(t *testing.T, text string) replay.Range {
	t.Helper()
	r, err := replay.ParseRange(text, time.Now(), time.UTC)
	if err != nil {
		t.Fatalf("range %q: %v", text, err)
	}
	return r
}

func resolve(t *testing.T, src *kafka.Client, topic, text string, partitions ...int32) []replay.Bounds {
	t.Helper()
	bounds, err := src.Resolve(t.Context(), topic, partitions, parse(t, text))
	if err != nil {
		t.Fatalf("resolve %s of %s: %v", text, topic, err)
	}
	return bounds
}
