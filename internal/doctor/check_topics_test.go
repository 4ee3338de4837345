package doctor

import (
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/replay/kafka"
)

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// onTopic is setup with a cluster and one handler's topic.
func onTopic(t *testing.T, k *testenv.Cluster, topic string) Setup {
	t.Helper()
	client, err := kafka.Open(kafka.Config{Brokers: k.Brokers})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	c := setup(t)
	c.Kafka, c.Handlers[0].Topic = client, topic
	return c
}

func produce(t *testing.T, k *testenv.Cluster, topic string, at time.Time) {
	t.Helper()
	if err := k.Client(t).ProduceSync(t.Context(), &kgo.Record{Topic: topic, Timestamp: at, Value: []byte("x")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// hazard P16
func TestTopicRetention(t *testing.T) {
	t.Parallel()
	for _, k := range testenv.Kafkas(t) {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			week := k.Topic(t, 1, map[string]string{"retention.ms": millis(7 * day)})
			expect(t, check(t, onTopic(t, k, week), "topic.retention"), OK, "ledger.retention 30d; 1 topic can be replayed 7d back at most")
			longer := k.Topic(t, 1, map[string]string{"retention.ms": millis(60 * day)})
			expect(t, check(t, onTopic(t, k, longer), "topic.retention"), Fail, longer+": retention.ms is 60d; ledger.retention 30d")
			ever := k.Topic(t, 1, map[string]string{"retention.ms": "-1"})
			c := onTopic(t, k, ever)
			expect(t, check(t, c, "topic.retention"), Warn, ever+" keeps records for ever")
			produce(t, k, ever, time.Now().Add(-40*day))
			expect(t, check(t, c, "topic.retention"), Fail, "oldest record 40d old")
			expect(t, check(t, onTopic(t, k, "no-such-topic"), "topic.retention"), Fail, `"no-such-topic" does not exist`)
			c.Handlers = nil
			expect(t, check(t, c, "topic.retention"), Skipped, "no handler")
		})
	}
}

// Segments go as a whole, so records may be older than retention.ms.
func TestOlderThanRetention(t *testing.T) {
	t.Parallel()
	now := time.Now()
	r, found := judgeRetention("t", kafka.TopicRetention{Retention: 20 * day, OldestRecord: now.Add(-31 * day)}, 30*day, now)
	if !found || r.Status != Fail {
		t.Errorf("%+v", r)
	}
	if r, found := judgeRetention("t", kafka.TopicRetention{Retention: 20 * day, OldestRecord: now.Add(-29 * day)}, 30*day, now); found {
		t.Errorf("%+v", r)
	}
}

func TestGroup(t *testing.T) {
	t.Parallel()
	for _, k := range testenv.Kafkas(t) {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			topic := k.Topic(t, 1, map[string]string{"retention.ms": millis(10 * day)})
			c := onTopic(t, k, topic)
			expect(t, check(t, c, "topic.group"), Skipped, "no group was named")
			c.Group = topic + "-group"
			expect(t, check(t, c, "topic.group"), Fail, "has committed nothing for "+topic)
			admin := kadm.NewClient(k.Client(t))
			now := time.Now()
			c.Now = func() time.Time { return now }
			produce(t, k, topic, now.Add(-6*day))
			produce(t, k, topic, now.Add(-time.Hour))
			commit := func(offset int64) {
				var at kadm.Offsets
				at.AddOffset(topic, 0, offset, -1)
				if _, err := admin.CommitOffsets(t.Context(), c.Group, at); err != nil {
					t.Fatal(err)
				}
			}
			commit(1)
			expect(t, check(t, c, "topic.group"), OK, "is 1 record behind, the oldest 1h old")
			commit(0)
			expect(t, check(t, c, "topic.group"), Warn, topic+"[0]: 2 records behind, the oldest 6d old: 60% of retention.ms (10d)")
			c.Retention = 6 * day
			expect(t, check(t, c, "topic.group"), Fail, "100% of ledger.retention (6d)")
		})
	}
}

func TestJudgeLag(t *testing.T) {
	t.Parallel()
	now := time.Now()
	keep := kafka.TopicRetention{Retention: 10 * day}
	for _, c := range []struct {
		lag  kafka.GroupLag
		want []Status
	}{
		{kafka.GroupLag{Committed: 5, End: 5}, nil},
		{kafka.GroupLag{Committed: 2, LogStart: 5, End: 5}, []Status{Fail}}, // removed unread
		{kafka.GroupLag{Committed: 2, LogStart: 5, End: 9, Oldest: now.Add(-9 * day)}, []Status{Fail, Fail}},
		{kafka.GroupLag{Committed: -1, End: 9, Oldest: now}, []Status{Warn}},
		{kafka.GroupLag{Committed: -1}, nil},
		{kafka.GroupLag{Committed: 1, End: 9, Oldest: now.Add(-4 * day)}, nil},
		{kafka.GroupLag{Committed: 1, End: 9, Oldest: now.Add(-5 * day)}, []Status{Warn}},
	} {
		var got []Status
		for _, r := range judgeLag(c.lag, keep, 30*day, now) {
			got = append(got, r.Status)
		}
		if len(got) != len(c.want) || len(got) > 0 && got[0] != c.want[0] {
			t.Errorf("%+v: %v, want %v", c.lag, got, c.want)
		}
	}
}
