package lab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Another server on the port that was chosen must not be taken for the one that is starting.
func TestReadyKnowsItsOwn(t *testing.T) {
	t.Parallel()
	opts := LaunchOptions{Host: NewHost(os.Getenv)}
	db, err := AnyDatabase(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	kv, err := AnyRedis(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = kv.Close() })
	kafka, err := EmbeddedKafka(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = kafka.Close() })

	elsewhere := t.TempDir()
	if err := os.Mkdir(filepath.Join(elsewhere, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"database": databaseReady(t.Context(), &Server{Addr: db.Addr, Dir: elsewhere}, db.PID()),
		"Redis":    redisReady(t.Context(), &Server{Addr: kv.Addr}, kv.PID()+1),
		"Kafka":    (&kafkaNode{clusterID: "ours"}).ready(t.Context(), &Server{Addr: kafka.Addr}, 0),
	} {
		if err == nil || !strings.Contains(err.Error(), "another server answers") {
			t.Errorf("%s: %v, want that another server answers", name, err)
		}
	}
}
