package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/replay"
	"github.com/idemctl/idemctl/pkg/replay/kafka"
)

// freeAddress is one that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	var listen net.ListenConfig
	l, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// get asks a consumer; 0 where it does not answer yet.
func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// A partition with work that does not get on is what /healthz complains about, and /metrics shows what happens. When the other
// owner's lease is gone, all is well again; SIGTERM ends the consumer with what it did. hazard G21
func TestConsumeHealthAndMetrics(t *testing.T) {
	t.Parallel()
	c := newConsumeCase(t, testenv.Kafka(t), 1, 5, 0)
	lease := c.redis.Prefix + "COUPON:O-2"
	if err := c.redis.Client.Set(t.Context(), lease, "PROCESSING:other", time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	wait, send := c.startProcess(t, "consume", c.topic, "--group", c.group, "--listen", address, "--stall", "500ms", "-o", "json")
	defer send(syscall.SIGKILL)
	var body string
	awaitTrue(t, "/healthz complains", func() bool {
		var status int
		status, body = get(t, "http://"+address+"/healthz")
		return status == http.StatusServiceUnavailable
	})
	if !strings.HasPrefix(body, "partition 0: 3 records wait, no progress since ") || !strings.Contains(body, "in_flight") {
		t.Errorf("/healthz says %q", body)
	}
	labels := fmt.Sprintf(`{group=%q,handler="coupon",outcome=%%q,topic=%q}`, c.group, c.topic)
	wantMetrics(t, address,
		"idemctl_consume_outcomes_total"+fmt.Sprintf(labels, "executed")+" 4", // the two behind it as well: their offsets wait
		fmt.Sprintf(`idemctl_consume_lag{group=%q,partition="0",topic=%q} 3`, c.group, c.topic),
		fmt.Sprintf(`idemctl_consume_waiting{group=%q,partition="0",topic=%q} 3`, c.group, c.topic),
		"idemctl_consume_retries_total"+fmt.Sprintf(labels, "in_flight")+" ",
		"idemctl_consume_batch_seconds_bucket",
	)
	awaitTrue(t, "what is before the held record is committed", func() bool { return c.committedOrZero(t) == 2 })
	if err := c.redis.Client.Del(t.Context(), lease).Err(); err != nil {
		t.Fatal(err)
	}
	awaitTrue(t, "/healthz is content", func() bool {
		status, body := get(t, "http://"+address+"/healthz")
		return status == http.StatusOK && body == "ok\n"
	})
	wantMetrics(t, address, "idemctl_consume_outcomes_total"+fmt.Sprintf(labels, "executed")+" 5",
		fmt.Sprintf(`idemctl_consume_lag{group=%q,partition="0",topic=%q} 0`, c.group, c.topic))
	send(syscall.SIGTERM)
	res := wait()
	if report := readConsumeReport(t, res); res.code != exitInterrupted || report.Handlers["coupon"]["executed"] != 5 || len(report.Held) != 0 {
		t.Errorf("exit %d: %s%s", res.code, res.stdout, res.stderr)
	}
	c.check(t, 5)
}

func wantMetrics(t *testing.T, address string, want ...string) {
	t.Helper()
	status, body := get(t, "http://"+address+"/metrics")
	if status != http.StatusOK {
		t.Fatalf("/metrics answers %d", status)
	}
	for _, w := range want {
		if !strings.Contains(body, "\n"+w) {
			t.Errorf("/metrics has no line %q:\n%s", w, body)
		}
	}
}

// Told to stop, the consumer says what it did and what it holds back, and what is held is not committed. hazard G1
func TestConsumeInterrupted(t *testing.T) {
	t.Parallel()
	c := newConsumeCase(t, testenv.Kafka(t), 1, 5, 0)
	if err := c.redis.Client.Set(t.Context(), c.redis.Prefix+"COUPON:O-2", "PROCESSING:other", time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"json", "table"} {
		wait, send := c.startProcess(t, "consume", c.topic, "--group", c.group, "-o", format)
		query := "SELECT COUNT(*) FROM granted"
		awaitTrue(t, "it works", func() bool { return text(t, c.schema, query) == "4" && c.committedOrZero(t) == 2 })
		if format == "table" { // it has nothing to do but to hold: it has joined when its run is written down
			awaitTrue(t, "it has joined", func() bool { return len(c.members(t, false)) == 1 })
		}
		send(syscall.SIGTERM)
		res := wait()
		if res.code != exitInterrupted || !strings.HasSuffix(strings.TrimSpace(res.stderr), "idemctl: consume: interrupted") {
			t.Errorf("exit %d: %s", res.code, res.stderr)
		}
		if format == "json" {
			if report := readConsumeReport(t, res); report.Held["in_flight"] != 1 || report.Handlers["coupon"]["executed"] != 4 {
				t.Errorf("%s", res.stdout)
			}
		} else {
			checkTerminal(t, res.stdout)
		}
		if got := c.committed(t)[0]; got != 2 {
			t.Errorf("committed up to %d, want 2", got)
		}
	}
	if got := text(t, c.schema, "SELECT GROUP_CONCAT(result) FROM t_idempotent_run WHERE command = 'consume'"); got != "interrupted,interrupted" {
		t.Errorf("recorded as %s", got)
	}
}

func (c *consumeCase) committedOrZero(t *testing.T) int64 {
	t.Helper()
	if offsets, err := c.admin.FetchOffsets(t.Context(), c.group); err == nil {
		if o, ok := offsets.Lookup(c.topic, 0); ok {
			return o.At
		}
	}
	return 0
}

// A consumer that must restart while Redis is away goes on with the ledger alone, and says so. A Redis that refuses it ends it.
// hazard G14
func TestConsumeWithoutRedis(t *testing.T) {
	t.Parallel()
	c := newConsumeCase(t, testenv.Kafka(t), 2, 100, 10)
	blind := c.with("IDEMCTL_REDIS_URL=redis://127.0.0.1:1/0")
	res := blind.must(t, exitDone, "consume", c.topic, "--group", c.group, "--until-end", "--connect-timeout", "2s")
	if !strings.Contains(res.stderr, "the ledger decides alone") || !strings.Contains(res.stdout, "since Redis did not answer: 1") {
		t.Errorf("%s%s", res.stdout, res.stderr)
	}
	c.check(t, 100)
	wrong := c.with("IDEMCTL_REDIS_PASSWORD=hunter2")
	res = wrong.run(t, "consume", c.topic, "--group", c.group, "--until-end")
	if strings.Contains(res.stdout+res.stderr, "hunter2") {
		t.Errorf("the password is shown: %s%s", res.stdout, res.stderr)
	}
}

// What waits is stalled when nothing has passed for long; an idle partition never is, however long it has been so.
func TestAnswerHealth(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 11, 0, 47, 0, 0, time.UTC)
	for want, stalled := range map[string][]kafka.PartitionState{
		"ok\n": nil,
		"partition 3: 7 records wait, no progress since 2026-11-11T00:47:00Z: a handler has not come back\n": {{Partition: 3, Waiting: 7, Progress: at}},
		"partition 3: 7 records wait, no progress since 2026-11-11T00:47:00Z: in_flight: \\x1b[0m\n":         {{Partition: 3, Waiting: 7, Progress: at, Held: "in_flight: \x1b[0m"}},
	} {
		var b strings.Builder
		w := &fakeResponse{Builder: &b}
		answerHealth(w, stalled)
		if b.String() != want || w.status != map[bool]int{true: 0, false: http.StatusServiceUnavailable}[len(stalled) == 0] {
			t.Errorf("%d %q, want %q", w.status, b.String(), want)
		}
	}
}

type fakeResponse struct {
	*strings.Builder

	status int
}

func (*fakeResponse) Header() http.Header      { return http.Header{} }
func (f *fakeResponse) WriteHeader(status int) { f.status = status }

// What a partition held goes with it to the other member, and what passes is not held any more.
func TestConsumeMonitorForgets(t *testing.T) {
	t.Parallel()
	m := newConsumeMonitor("orders", "g")
	held := replay.Verdict{Outcome: replay.OutcomeInFlight, Class: replay.Held, Reason: "another owner"}
	for p := range int32(3) {
		for o := range int64(4) {
			m.observe(replay.Observation{Handler: "coupon", Record: &replay.Record{Topic: "orders", Partition: p, Offset: o}, Verdict: held, Attempt: 1})
		}
	}
	m.forget(1)
	m.observe(replay.Observation{Handler: "coupon", Record: &replay.Record{Topic: "orders", Partition: 2, Offset: 0}, Passed: true,
		Verdict: replay.Verdict{Outcome: replay.OutcomeExecuted, Class: replay.Executed}})
	r := m.result()
	if r.Held["in_flight"] != 7 || r.Retries != 12 || r.complete() || len(r.HeldRecords) != consumeExamples || r.HeldRecords[4].Record != "orders[2]@1" {
		t.Errorf("%+v", r)
	}
}
