package kafka_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/replay"
	"github.com/idemctl/idemctl/pkg/replay/kafka"
)

// A member that its group has given up, in the middle of a batch, commits nothing of it: it joins again, begins at what is
// committed, and what was done meanwhile comes again. Nothing is passed over. hazard G21
func TestConsumerLost(t *testing.T) {
	t.Parallel()
	fake, c := newFake(t)
	topic := c.Topic(t, 1, nil)
	c.fill(t, topic, 0, 60)
	inside, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var deaf atomic.Bool
	// From the batch on, the coordinator knows the member no more: neither its heartbeats nor its commits.
	for _, key := range []kmsg.Key{kmsg.Heartbeat, kmsg.OffsetCommit} {
		fake.ControlKey(int16(key), func(req kmsg.Request) (kmsg.Response, error, bool) {
			fake.KeepControl()
			if !deaf.Load() {
				return nil, nil, false
			}
			if hb, ok := req.(*kmsg.HeartbeatRequest); ok {
				resp, _ := hb.ResponseKind().(*kmsg.HeartbeatResponse)
				resp.ErrorCode = kerr.UnknownMemberID.Code
				return resp, nil, true
			}
			return nil, errors.New("cut off"), true
		})
	}
	p := &passage{}
	p.decide = func(_ context.Context, r replay.Record) replay.Wait {
		if r.Offset == 25 {
			once.Do(func() {
				await(t, "the first batch is committed", func() bool { return c.committed(t, topic)[0] == 20 })
				deaf.Store(true)
				close(inside)
				<-release
			})
		}
		return replay.Wait{}
	}
	m := c.join(t, topic, p)
	m.reach(t, inside)
	await(t, "the partition is lost", func() bool { return len(m.States()) == 0 })
	close(release)
	await(t, "the batch under way has ended", func() bool { return len(p.offsets(0)) >= 40 })
	deaf.Store(false)
	await(t, "all is committed", func() bool { return c.committed(t, topic)[0] == 60 })
	if err := m.stop(); !errors.Is(err, errTold) {
		t.Errorf("ended with %v", err)
	}
	want := slices.Concat(upTo(40), upTo(60)[20:])
	wantPassed(t, p, 0, want)
}

// A member that was put out of its group, while it is at a batch, joins again by itself and loses nothing.
func TestConsumerPutOut(t *testing.T) {
	t.Parallel()
	onAll(t, func(t *testing.T, c *cluster) {
		topic := c.Topic(t, 1, nil)
		c.fill(t, topic, 0, 30)
		inside, release := make(chan struct{}), make(chan struct{})
		p := &passage{decide: func(_ context.Context, r replay.Record) replay.Wait {
			if r.Offset == 25 {
				select {
				case <-inside:
				default:
					close(inside)
					<-release
				}
			}
			return replay.Wait{}
		}}
		m := c.join(t, topic, p)
		m.reach(t, inside)
		group := "group-" + topic
		members, err := c.admin.DescribeGroups(t.Context(), group)
		if err != nil || len(members[group].Members) != 1 {
			t.Fatalf("%+v, %v", members, err)
		}
		req := kmsg.NewPtrLeaveGroupRequest()
		req.Group = group
		lm := kmsg.NewLeaveGroupRequestMember()
		lm.MemberID = members[group].Members[0].MemberID
		req.Members = append(req.Members, lm)
		if resp, err := req.RequestWith(t.Context(), newProducer(t, c.Brokers)); err != nil || resp.ErrorCode != 0 || resp.Members[0].ErrorCode != 0 {
			t.Fatalf("%+v, %v", resp, err)
		}
		await(t, "it has joined again", func() bool {
			again, err := c.admin.DescribeGroups(t.Context(), group)
			return err == nil && len(again[group].Members) == 1 && again[group].Members[0].MemberID != lm.MemberID
		})
		close(release)
		await(t, "all is committed", func() bool { return c.committed(t, topic)[0] == 30 })
		_ = m.stop()
		got := p.offsets(0)
		slices.Sort(got)
		if !slices.Equal(slices.Compact(got), upTo(30)) {
			t.Errorf("passed %v", got)
		}
	})
}

// The group of an application that is no cooperative consumer cannot be joined: an error that says so, instead of trying for ever.
// hazard R6
func TestConsumerForeignGroup(t *testing.T) {
	t.Parallel()
	onAll(t, func(t *testing.T, c *cluster) {
		topic := c.Topic(t, 1, nil)
		other := newProducer(t, c.Brokers, kgo.ConsumerGroup("group-"+topic), kgo.ConsumeTopics(topic), kgo.Balancers(kgo.RangeBalancer()))
		view, err := c.open(t).ViewGroup(t.Context(), "group-"+topic)
		for err == nil && len(view.Topics) == 0 {
			view, err = c.open(t).ViewGroup(t.Context(), "group-"+topic)
		}
		if err != nil || view.Members != 1 || !slices.Equal(view.Topics, []string{topic}) || !view.Exists() {
			t.Errorf("the group is seen as %+v, %v", view, err)
		}
		err = c.join(t, topic, &passage{}).wait(t)
		if !errors.Is(err, kerr.InconsistentGroupProtocol) || !strings.Contains(err.Error(), "another application's group") {
			t.Errorf("ended with %v", err)
		}
		other.Close()
	})
}

// Errors of the brokers that pass are ridden out, those for good end the run and name the place.
func TestConsumerBrokerErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fault *kerr.Error
		count int
	}{
		"passing": {kerr.KafkaStorageError, 3}, "for good": {kerr.TopicAuthorizationFailed, -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake, c := newFake(t)
			topic := c.Topic(t, 1, nil)
			c.fill(t, topic, 0, 5)
			fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: topic, Err: tc.fault, Count: tc.count})
			p := &passage{}
			err := c.join(t, topic, p, until(map[int32]int64{0: 5})).wait(t)
			if tc.count > 0 {
				if err != nil {
					t.Errorf("ended with %v", err)
				}
				wantPassed(t, p, 0, upTo(5))
			} else if !errors.Is(err, tc.fault) || !strings.Contains(err.Error(), topic) {
				t.Errorf("ended with %v", err)
			}
		})
	}
}

func TestConsumerConfigIsChecked(t *testing.T) {
	t.Parallel()
	good := kafka.ConsumerConfig{Config: kafka.Config{Brokers: []string{"localhost:1"}}, Group: "g", Topic: "t"}
	for name, change := range map[string]func(*kafka.ConsumerConfig){
		"no group": func(c *kafka.ConsumerConfig) { c.Group = "" }, "no topic": func(c *kafka.ConsumerConfig) { c.Topic = "" },
		"no brokers": func(c *kafka.ConsumerConfig) { c.Brokers = nil }, "batch": func(c *kafka.ConsumerConfig) { c.Batch = -1 },
		"timeout": func(c *kafka.ConsumerConfig) { c.SessionTimeout = -1 },
	} {
		cfg := good
		change(&cfg)
		if _, err := kafka.OpenConsumer(cfg, &passage{}); !errors.Is(err, kafka.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A broker that is away for a while ends nothing: the consumer goes on when it is back, loses nothing, and commits it all.
func TestConsumerBrokerRestarts(t *testing.T) {
	t.Parallel()
	server := testenv.OwnKafka(t)
	c := newCluster(t, &testenv.Cluster{Name: server.Name, Brokers: server.Brokers(), Embedded: true})
	topic := c.Topic(t, 2, nil)
	c.fill(t, topic, 0, 50)
	p := &passage{}
	m := c.join(t, topic, p)
	await(t, "the first records", func() bool { return c.committed(t, topic)[0] == 50 })
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.fill(t, topic, 0, 50)
	c.fill(t, topic, 1, 50)
	await(t, "all is committed", func() bool {
		at := c.committed(t, topic)
		return at[0] == 100 && at[1] == 50
	})
	if err := m.stop(); !errors.Is(err, errTold) {
		t.Errorf("ended with %v", err)
	}
	for part, n := range map[int32]int64{0: 100, 1: 50} {
		got := p.offsets(part)
		slices.Sort(got)
		if !slices.Equal(slices.Compact(got), upTo(n)) {
			t.Errorf("partition %d: passed %v", part, got)
		}
	}
}
