package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/idemctl/idemctl/pkg/replay"
	"github.com/idemctl/idemctl/pkg/replay/kafka"
)

// passage lets records pass by the word of decide, which may block; nil lets all pass. It keeps what it let pass, in order.
type passage struct {
	decide func(ctx context.Context, r replay.Record) replay.Wait // After > 0: the record is held

	mu     sync.Mutex
	passed map[int32][]int64
	max    int
}

func (p *passage) Admit(r replay.Record) *replay.Pending { return &replay.Pending{Record: r} }

func (p *passage) Pass(ctx context.Context, batch []*replay.Pending) (int, replay.Wait) {
	p.mu.Lock()
	p.max = max(p.max, len(batch))
	p.mu.Unlock()
	for i, b := range batch {
		if p.decide != nil {
			if wait := p.decide(ctx, b.Record); wait.After > 0 {
				return i, wait
			}
		}
		p.mu.Lock()
		if p.passed == nil {
			p.passed = map[int32][]int64{}
		}
		p.passed[b.Record.Partition] = append(p.passed[b.Record.Partition], b.Record.Offset)
		p.mu.Unlock()
	}
	return len(batch), replay.Wait{}
}

func (p *passage) offsets(partition int32) []int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.passed[partition])
}

func (p *passage) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, os := range p.passed {
		n += len(os)
	}
	return n
}

// member is a consumer that runs.
type member struct {
	*kafka.Consumer

	cancel context.CancelCauseFunc
	done   chan struct{}
	err    error
}

var errTold = errors.New("told to stop")

func (c *cluster) consumer(t *testing.T, topic string, pass kafka.Passage, change ...func(*kafka.ConsumerConfig)) *kafka.Consumer {
	t.Helper()
	cfg := kafka.ConsumerConfig{
		Config: kafka.Config{Brokers: c.Brokers}, Topic: topic, Group: "group-" + topic,
		SessionTimeout: 10 * time.Second, RebalanceTimeout: 20 * time.Second, CommitInterval: 100 * time.Millisecond,
	}
	for _, f := range change {
		f(&cfg)
	}
	consumer, err := kafka.OpenConsumer(cfg, pass)
	if err != nil {
		t.Fatal(err)
	}
	return consumer
}

// join starts a member; it is stopped when the test ends.
func (c *cluster) join(t *testing.T, topic string, pass kafka.Passage, change ...func(*kafka.ConsumerConfig)) *member {
	t.Helper()
	m := &member{Consumer: c.consumer(t, topic, pass, change...), done: make(chan struct{})}
	ctx, cancel := context.WithCancelCause(t.Context())
	m.cancel = cancel
	go func() {
		defer close(m.done)
		m.err = m.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel(errTold)
		<-m.done
	})
	return m
}

// stop tells the member to, and returns what Run said.
func (m *member) stop() error {
	m.cancel(errTold)
	<-m.done
	return m.err
}

// reach waits until the passage has come to a point.
func (m *member) reach(t *testing.T, point <-chan struct{}) {
	t.Helper()
	select {
	case <-point:
	case <-m.done:
		t.Fatalf("the consumer ended with %v", m.err)
	case <-time.After(time.Minute):
		t.Fatal("the consumer does not come so far")
	}
}

// wait returns what Run says when it ends by itself.
func (m *member) wait(t *testing.T) error {
	t.Helper()
	select {
	case <-m.done:
		return m.err
	case <-time.After(time.Minute):
		t.Fatal("the consumer does not end")
		return nil
	}
}

// await polls until ok, or fails the test.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("%s: has not come", what)
		}
	}
}

// committed are the offsets of the test's group.
func (c *cluster) committed(t *testing.T, topic string) map[int32]int64 {
	t.Helper()
	offsets, err := c.admin.FetchOffsets(t.Context(), "group-"+topic)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		t.Fatal(err)
	}
	at := map[int32]int64{}
	offsets.Each(func(o kadm.OffsetResponse) {
		if o.At >= 0 {
			at[o.Partition] = o.At
		}
	})
	return at
}

func (c *cluster) wantCommitted(t *testing.T, topic string, want map[int32]int64) {
	t.Helper()
	if got := c.committed(t, topic); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("committed %v, want %v", got, want)
	}
}

func upTo(n int64) []int64 {
	out := make([]int64, n)
	for i := range out {
		out[i] = int64(i)
	}
	return out
}

func wantPassed(t *testing.T, p *passage, partition int32, want []int64) {
	t.Helper()
	if got := p.offsets(partition); !slices.Equal(got, want) {
		t.Errorf("partition %d: passed %v, want %v", partition, got, want)
	}
}

// fill writes n records to a partition.
func (c *cluster) fill(t *testing.T, topic string, partition int32, n int) {
	t.Helper()
	values := make([]string, n)
	for i := range values {
		values[i] = strconv.Itoa(i)
	}
	c.produce(t, topic, partition, values...)
}

var holds = replay.Wait{After: 20 * time.Millisecond, Reason: "held"}
