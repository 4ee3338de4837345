package lab

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/twmb/franz-go/pkg/kfake"
)

// EmbeddedClusterID is the cluster id of every embedded Kafka: by it a client in another process tells it from a real one.
const EmbeddedClusterID = "idemctl-embedded"

// embedded is a Kafka within this process.
type embedded struct {
	cluster *kfake.Cluster
	once    sync.Once
}

func (e *embedded) stop() { e.once.Do(e.cluster.Close) }

// EmbeddedKafka starts a Kafka within this process: one broker that speaks the protocol and needs nothing installed.
// Topics are not made by mentioning them. It has no PID, and cannot be paused; Stop and Kill are the same. A Restart finds
// the records again if LaunchOptions.Durable was set.
func EmbeddedKafka(ctx context.Context, opts LaunchOptions) (*Server, error) {
	return launch(ctx, opts, KindEmbedded, func(_ context.Context, s *Server) (*recipe, error) {
		s.Name = string(KindEmbedded)
		r := &recipe{name: s.Name, program: "in this process", ports: 1}
		r.durable = opts.Durable
		return r, nil
	})
}

func (s *Server) startEmbedded(ctx context.Context) error {
	opts := []kfake.Opt{kfake.NumBrokers(1), kfake.Ports(s.ports[0]), kfake.ClusterID(EmbeddedClusterID), kfake.DefaultNumPartitions(1)}
	if s.recipe.durable {
		opts = append(opts, kfake.DataDir(filepath.Join(s.Dir, "data")))
	}
	c, err := kfake.NewCluster(opts...)
	if err != nil {
		return s.startError(err)
	}
	e := &embedded{cluster: c}
	if _, err := kafkaCluster(ctx, s.Addr); err != nil { // the port is bound by us: nobody else can answer
		e.stop()
		return s.startError(fmt.Errorf("it does not answer: %w", err))
	}
	s.mu.Lock()
	s.embedded = e
	s.mu.Unlock()
	return nil
}
