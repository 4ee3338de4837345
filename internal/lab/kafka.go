package lab

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// KafkaVersion is the Apache Kafka that `make deps` fetches and the lab runs.
const KafkaVersion = "4.4.0"

// findKafka returns the java that runs Kafka, when the jars are there too.
func (h Host) findKafka() (string, error) {
	missing := func() error { return &NotFoundError{Server: "Apache Kafka " + KafkaVersion, Hint: hint(KindKafka, "")} }
	jars, err := filepath.Glob(filepath.Join(h.KafkaJars(), "kafka_*.jar"))
	if err != nil || len(jars) == 0 {
		return "", missing()
	}
	for _, dir := range h.Path {
		path := filepath.Join(dir, "java")
		if !filepath.IsAbs(path) {
			continue
		}
		if java, err := exec.LookPath(path); err == nil {
			return java, nil
		}
	}
	return "", missing()
}

// ApacheKafka starts one Kafka node in KRaft mode. Topics are not made by mentioning them.
func ApacheKafka(ctx context.Context, opts LaunchOptions) (*Server, error) {
	java, err := opts.Host.findKafka()
	if err != nil {
		return nil, err
	}
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return nil, fmt.Errorf("making a cluster id: %w", err)
	}
	k := &kafkaNode{
		jvm: []string{
			// One small node on a shared machine: the serial collector and the first compiler start fastest.
			java, "-cp", filepath.Join(opts.Host.KafkaJars(), "*"), "-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
			"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		},
		clusterID: base64.RawURLEncoding.EncodeToString(id),
		extra:     opts.Args,
	}
	return launch(ctx, opts, KindKafka, func(ctx context.Context, s *Server) (*recipe, error) {
		k.dir = s.Dir
		s.Version, s.Name = KafkaVersion, "Apache Kafka "+KafkaVersion
		r := &recipe{name: s.Name, program: java, ports: 2, ready: k.ready}
		r.argv = func(ports []int) ([]string, error) { return k.argv(ctx, s, r, ports) }
		return r, nil
	})
}

type kafkaNode struct {
	dir       string
	jvm       []string
	clusterID string
	extra     []string
}

// argv writes the properties for these ports, formats the data folder with them if that was not done yet, and returns the
// command line. Formatting needs the ports, since the quorum's address is kept in the data.
func (k *kafkaNode) argv(ctx context.Context, s *Server, r *recipe, ports []int) ([]string, error) {
	file := filepath.Join(k.dir, "server.properties")
	data := filepath.Join(k.dir, fmt.Sprintf("data-%d", ports[1]))
	if err := os.WriteFile(file, []byte(k.properties(data, ports)), 0o600); err != nil {
		return nil, fmt.Errorf("writing its properties: %w", err)
	}
	if _, err := os.Stat(filepath.Join(data, "meta.properties")); err != nil {
		// One word: an id of this alphabet may begin with a dash.
		format := slices.Concat(k.jvm, []string{"kafka.tools.StorageTool", "format", "--standalone", "--cluster-id=" + k.clusterID, "-c", file})
		if err := s.runTool(ctx, r, format, ""); err != nil {
			return nil, err
		}
	}
	return slices.Concat(k.jvm, []string{"kafka.Kafka", file}), nil
}

func (k *kafkaNode) properties(data string, ports []int) string {
	broker, controller := address(ports[0]), address(ports[1])
	lines := []string{
		"process.roles=broker,controller",
		"node.id=1",
		"controller.quorum.bootstrap.servers=" + controller,
		"listeners=PLAINTEXT://" + broker + ",CONTROLLER://" + controller,
		"advertised.listeners=PLAINTEXT://" + broker + ",CONTROLLER://" + controller,
		"controller.listener.names=CONTROLLER",
		"listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
		"log.dirs=" + data,
		// A mistyped topic must be an error, not a new topic.
		"auto.create.topics.enable=false",
		// One node: nothing can be replicated.
		"offsets.topic.replication.factor=1",
		"offsets.topic.num.partitions=3",
		"transaction.state.log.replication.factor=1",
		"transaction.state.log.min.isr=1",
		"transaction.state.log.num.partitions=3",
		"share.coordinator.state.topic.replication.factor=1",
		"share.coordinator.state.topic.min.isr=1",
		"group.initial.rebalance.delay.ms=0",
	}
	return strings.Join(slices.Concat(lines, k.extra), "\n") + "\n"
}

// ready asks the node for its cluster's id and members.
func (k *kafkaNode) ready(ctx context.Context, s *Server, _ int) error {
	id, err := kafkaCluster(ctx, s.Addr)
	if err != nil {
		return err
	}
	if id != k.clusterID {
		return fmt.Errorf("another server answers at %s: its cluster is %q", s.Addr, id)
	}
	return nil
}

func kafkaCluster(ctx context.Context, addr string) (string, error) {
	c, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.RequestRetries(0))
	if err != nil {
		return "", fmt.Errorf("asking %s: %w", addr, err)
	}
	defer c.Close()
	md, err := kadm.NewClient(c).BrokerMetadata(ctx)
	if err != nil {
		return "", fmt.Errorf("asking %s: %w", addr, err)
	}
	if len(md.Brokers) == 0 || md.Controller < 0 {
		return "", fmt.Errorf("asking %s: no broker has registered yet", addr)
	}
	return md.Cluster, nil
}
