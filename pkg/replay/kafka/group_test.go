package kafka

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemctl/idemctl/internal/testenv"
)

// A group's lag is told in offsets and in age, also where records were removed before it read them.
func TestGroupLag(t *testing.T) {
	t.Parallel()
	for _, k := range testenv.Kafkas(t) {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			topic := k.Topic(t, 3, nil)
			producer := k.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
			admin := kadm.NewClient(k.Client(t))
			base := time.Now().Add(-time.Hour).UTC().Truncate(time.Second)
			for p := range int32(2) {
				for i := range 10 {
					r := &kgo.Record{Topic: topic, Partition: p, Timestamp: base.Add(time.Duration(i) * time.Minute), Value: []byte("x")}
					if err := producer.ProduceSync(t.Context(), r).FirstErr(); err != nil {
						t.Fatal(err)
					}
				}
			}
			c, err := Open(Config{Brokers: k.Brokers})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)

			group := topic + "-group"
			if _, err := c.GroupLag(t.Context(), group, topic); !errors.Is(err, ErrNoGroup) {
				t.Fatalf("a group that does not exist: %v", err)
			}
			var at kadm.Offsets
			at.AddOffset(topic, 0, 4, -1)
			at.AddOffset(topic, 1, 2, -1)
			if _, err := admin.CommitOffsets(t.Context(), group, at); err != nil {
				t.Fatal(err)
			}
			var upTo kadm.Offsets
			upTo.AddOffset(topic, 1, 5, -1)
			if _, err := admin.DeleteRecords(t.Context(), upTo); err != nil {
				t.Fatal(err)
			}
			lags, err := c.GroupLag(t.Context(), group, topic)
			if err != nil {
				t.Fatal(err)
			}
			want := []GroupLag{
				{Topic: topic, Partition: 0, Committed: 4, LogStart: 0, End: 10, Oldest: base.Add(4 * time.Minute)},
				{Topic: topic, Partition: 1, Committed: 2, LogStart: 5, End: 10, Oldest: base.Add(5 * time.Minute)},
				{Topic: topic, Partition: 2, Committed: -1},
			}
			if got := fmt.Sprintf("%+v", lags); got != fmt.Sprintf("%+v", want) {
				t.Errorf("got  %s\nwant %+v", got, want)
			}
			if lags[0].Lag() != 6 || lags[0].Lost() != 0 || lags[1].Lag() != 5 || lags[1].Lost() != 3 || lags[2].Lag() != 0 {
				t.Errorf("lags %d %d %d, lost %d %d", lags[0].Lag(), lags[1].Lag(), lags[2].Lag(), lags[0].Lost(), lags[1].Lost())
			}

			newest, byBroker, err := c.NewestRecord(t.Context(), topic)
			if want := base.Add(9 * time.Minute); err != nil || byBroker || !newest.Equal(want) {
				t.Errorf("newest %v by broker %v, %v; want %v", newest, byBroker, err, want)
			}
			appended := k.Topic(t, 1, map[string]string{"message.timestamp.type": "LogAppendTime"})
			if newest, byBroker, err := c.NewestRecord(t.Context(), appended); err != nil || !byBroker || !newest.IsZero() {
				t.Errorf("an empty topic: newest %v by broker %v, %v", newest, byBroker, err)
			}
		})
	}
}
