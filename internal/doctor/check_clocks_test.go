package doctor

import (
	"testing"
	"time"

	"github.com/idemctl/idemctl/internal/testenv"
)

// A clock that differs is told from one that is merely slow to answer.
func TestClocks(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *testenv.Schema) {
		c := setup(t)
		expect(t, check(t, c, "time.clocks"), Skipped, "no server is configured")
		c.DB, c.Redis = s.DB, testenv.Redis(t).Client
		expect(t, check(t, c, "time.clocks"), OK, "against this machine: MySQL ")
		skewed := func(by time.Duration) { c.Now = func() time.Time { return time.Now().Add(by) } }
		skewed(2 * time.Minute)
		expect(t, check(t, c, "time.clocks"), Warn, "MySQL is 2m")
		skewed(-10 * time.Minute)
		expect(t, check(t, c, "time.clocks"), Fail, "ahead of this machine")
	})
}

func TestJudgeClocks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mysql, redis reading
		want         int
	}{
		{reading{who: "MySQL", ahead: time.Second}, reading{who: "Redis"}, 0},
		{reading{who: "MySQL", ahead: 3 * time.Second, give: 3 * time.Second}, reading{who: "Redis"}, 0}, // it took that long to answer
		{reading{who: "MySQL", ahead: 900 * time.Millisecond}, reading{who: "Redis", ahead: -900 * time.Millisecond}, 1},
		{reading{who: "MySQL", ahead: 3 * time.Second}, reading{who: "Redis"}, 2},
	} {
		if bad := judgeClocks([]reading{c.mysql, c.redis}, 5*time.Minute); len(bad) != c.want {
			t.Errorf("%+v %+v: %+v", c.mysql, c.redis, bad)
		}
	}
}

// Kafka has no clock to ask; what its records say is told.
func TestRecordsAhead(t *testing.T) {
	t.Parallel()
	for _, k := range testenv.Kafkas(t) {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			topic := k.Topic(t, 1, nil)
			c := onTopic(t, k, topic)
			now := time.Now()
			c.Now = func() time.Time { return now }
			produce(t, k, topic, now.Add(-time.Hour))
			expect(t, check(t, c, "time.clocks"), OK, "no record newer than now")
			produce(t, k, topic, now.Add(30*time.Minute))
			expect(t, check(t, c, "time.clocks"), Fail, topic+" has a record 30m in the future, by its producer's clock")
			c.Slack = time.Hour
			expect(t, check(t, c, "time.clocks"), Warn, "30m in the future")
			appended := k.Topic(t, 1, map[string]string{"message.timestamp.type": "LogAppendTime"})
			c = onTopic(t, k, appended)
			produce(t, k, appended, time.Time{})
			expect(t, check(t, c, "time.clocks"), OK, "no record newer than now")
			c.Now = func() time.Time { return time.Now().Add(-time.Hour) }
			expect(t, check(t, c, "time.clocks"), Fail, "by its broker's clock")
		})
	}
}
