package main

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemctl/idemctl/internal/testenv"
)

// realKafka is a cluster with what an embedded one does not have: sessions that end by the clock.
func realKafka(t *testing.T) *testenv.Cluster {
	t.Helper()
	all := testenv.Kafkas(t)
	for _, c := range all {
		if !c.Embedded {
			return c
		}
	}
	return all[0]
}

// consumeCase is a topic of orders, and the command that consumes it.
type consumeCase struct {
	command

	schema  *testenv.Schema
	redis   *testenv.RedisSpace
	cluster *testenv.Cluster
	admin   *kadm.Client
	topic   string
	group   string
	ends    []int64
}

// newConsumeCase publishes so many orders over the partitions, in a random order, and every so manieth of them again, somewhere
// behind and in any partition.
func newConsumeCase(t *testing.T, cluster *testenv.Cluster, partitions int32, orders, again int) *consumeCase {
	t.Helper()
	return newConsumeCaseOn(t, cluster, testenv.MySQL(t), partitions, orders, again)
}

func newConsumeCaseOn(t *testing.T, cluster *testenv.Cluster, schema *testenv.Schema, partitions int32, orders, again int) *consumeCase {
	t.Helper()
	c := &consumeCase{cluster: cluster, schema: schema, admin: kadm.NewClient(cluster.Client(t)), ends: make([]int64, partitions)}
	c.command, _, c.redis = newCommand(t, cluster.Brokers)
	// A lease that ends soon: what a stalled process holds is taken over within the test.
	c.command = c.with("IDEMCTL_LEDGER_DSN="+schema.DSN, "IDEMCTL_REDIS_LEASE=8s")
	exec1(t, c.schema, grantedDDL)
	c.topic = cluster.Topic(t, partitions, nil)
	c.group = "group-" + c.topic
	c.write(t, "grant.sql", grantSQL)
	c.write(t, "idemctl.yaml", "handlers:\n  coupon: {topic: "+c.topic+", biz_type: COUPON, key: orderId, effect: grant.sql, memory_since: 2020-01-01}\n")
	c.must(t, exitDone, "partition", "create", "--ahead", "0", "--execute")
	random := rand.New(rand.NewPCG(1, 2))
	var records []*kgo.Record
	add := func(id int) {
		records = append(records, &kgo.Record{Topic: c.topic, Partition: random.Int32N(partitions), Value: []byte(`{"orderId":"O-` + strconv.Itoa(id) + `"}`)})
	}
	for id := range orders {
		add(id)
		if again > 0 && id%again == 0 {
			add(random.IntN(id + 1))
		}
	}
	for _, r := range records {
		c.ends[r.Partition]++
	}
	produce(t, cluster, records...)
	return c
}

// granted counts the effects.
func (c *consumeCase) granted(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(text(t, c.schema, "SELECT COUNT(*) FROM granted"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// check wants each order's effect once, and the group at the ends.
func (c *consumeCase) check(t *testing.T, orders int) {
	t.Helper()
	want := strconv.Itoa(orders)
	if got := text(t, c.schema, "SELECT CONCAT(COUNT(*), ' ', COUNT(DISTINCT order_id)) FROM granted"); got != want+" "+want {
		t.Errorf("effects and orders with an effect: %s, want %s of each", got, want)
	}
	month := "t_idempotent_flow_" + time.Now().UTC().Format("200601")
	if got := text(t, c.schema, "SELECT COUNT(*) FROM "+month); got != want {
		t.Errorf("%s ledger rows, want %s", got, want)
	}
	for p, at := range c.committed(t) {
		if at != c.ends[p] {
			t.Errorf("partition %d is committed up to %d, the log ends at %d", p, at, c.ends[p])
		}
	}
}

// committed are the group's offsets; -1 where there is none.
func (c *consumeCase) committed(t *testing.T) []int64 {
	t.Helper()
	at := make([]int64, len(c.ends))
	offsets, err := c.admin.FetchOffsets(t.Context(), c.group)
	if err != nil {
		t.Fatal(err)
	}
	for p := range at {
		at[p] = -1
		if o, ok := offsets.Lookup(c.topic, int32(p)); ok {
			at[p] = o.At
		}
	}
	return at
}

// members are the clients in the group that have partitions; all of them, with all.
func (c *consumeCase) members(t *testing.T, all bool) []string {
	t.Helper()
	groups, err := c.admin.DescribeGroups(t.Context(), c.group)
	if kerr.IsRetriable(err) {
		return nil // a cluster that has never had a group makes its coordinator now
	}
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for i := range groups[c.group].Members {
		m := &groups[c.group].Members[i]
		if a, ok := m.Assigned.AsConsumer(); all || ok && len(a.Topics) > 0 {
			ids = append(ids, m.ClientID)
		}
	}
	return ids
}

// awaitWork waits until so many members have partitions, and have done something with them.
func (c *consumeCase) awaitWork(t *testing.T, members, more int) {
	t.Helper()
	awaitTrue(t, "all members have partitions", func() bool { return len(c.members(t, false)) == members })
	before := c.granted(t)
	awaitTrue(t, "they work", func() bool { return c.granted(t) >= before+more })
}

// awaitTrue polls a condition.
func awaitTrue(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(90 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatalf("%s: %v", what, t.Context().Err())
		case <-limit:
			t.Fatalf("%s: has not come", what)
		}
	}
}

func has(list []string, s string) bool {
	return strings.Contains(" "+strings.Join(list, " ")+" ", " "+s+" ")
}

// consumeReport is what a test reads of the JSON.
type consumeReport struct {
	Handlers map[string]map[string]int64 `json:"handlers"`
	Parked   int64                       `json:"parked"`
	Held     map[string]int64            `json:"held"`
	Shared   *struct {
		Done       bool `json:"done"`
		DoneBefore bool `json:"done_before"`
	} `json:"shared"`
}

func readConsumeReport(t *testing.T, res commandResult) consumeReport {
	t.Helper()
	var doc struct{ Result consumeReport }
	if err := json.Unmarshal([]byte(res.stdout), &doc); err != nil {
		t.Fatalf("exit %d, %v: %s%s", res.code, err, res.stdout, res.stderr)
	}
	return doc.Result
}

// Three processes share 100,000 orders, some published twice. One is killed in the middle of its work. Another stands still
// beyond the session timeout, so that its partitions go to the third, and comes back in the middle of what it did: a zombie,
// whose commits are refused and whose effects are not repeated. Each order has its effect once, and nothing is lost.
// hazards G1 G15 G21
func TestConsumeThreeProcesses(t *testing.T) {
	t.Parallel()
	const orders = 100_000
	c := newConsumeCase(t, realKafka(t), 6, orders, 20)
	start := func(name string) (wait func() commandResult, send func(os.Signal)) {
		return c.with("IDEMCTL_KAFKA_CLIENT_ID="+name).startProcess(t,
			"consume", c.topic, "--group", c.group, "--until-end", "--session-timeout", "6s", "--batch", "200", "-o", "json")
	}
	waitKilled, sendKilled := start("killed")
	waitStalled, sendStalled := start("stalled")
	waitThird, _ := start("third")
	defer sendStalled(syscall.SIGCONT)

	c.awaitWork(t, 3, 5000)
	sendKilled(syscall.SIGKILL)
	if res := waitKilled(); res.code != -1 {
		t.Fatalf("the first one ended by itself, with %d: this test has become too weak\n%s", res.code, res.stderr)
	}
	sendStalled(syscall.SIGSTOP)
	before := c.granted(t)
	if before >= orders {
		t.Fatal("all was done before one of them stood still: this test has become too weak")
	}
	awaitTrue(t, "the group gives the stalled one up", func() bool { return !has(c.members(t, true), "stalled") && !has(c.members(t, true), "killed") })
	awaitTrue(t, "the third one goes on", func() bool { return c.granted(t) > before+2000 || c.granted(t) >= orders*9/10 })
	sendStalled(syscall.SIGCONT)
	third, stalled := waitThird(), waitStalled()
	var done int64
	for name, res := range map[string]commandResult{"third": third, "stalled": stalled} {
		if res.code != exitDone {
			t.Errorf("the %s one: exit %d\n%s%s", name, res.code, res.stdout, res.stderr)
		}
		report := readConsumeReport(t, res)
		t.Logf("%s: %v", name, report.Handlers["coupon"])
		done += report.Handlers["coupon"]["executed"]
	}
	if done >= orders {
		t.Error("the one that was killed had done nothing: this test has become too weak")
	}
	c.check(t, orders)
}

// Four processes of a shared replay: one is killed, what it leaves is done by the others, and each ends when all is done. One
// more finds it done; another range, or a group that somebody else uses, is refused. hazard R6
func TestReplayGroup(t *testing.T) {
	t.Parallel()
	const orders = 20_000
	c := newConsumeCase(t, realKafka(t), 4, orders, 50)
	args := []string{"replay", c.topic, "--group", c.group, "--mode", "execute", "--session-timeout", "6s", "-o", "json"}
	waitKilled, sendKilled := c.startProcess(t, args...)
	wait1, _ := c.startProcess(t, args...)
	wait2, _ := c.startProcess(t, args...)
	c.awaitWork(t, 3, 1000)
	sendKilled(syscall.SIGKILL)
	if res := waitKilled(); res.code != -1 {
		t.Fatalf("the first one ended by itself, with %d: this test has become too weak\n%s", res.code, res.stderr)
	}
	// What is published from now on is not part of it: the range is pinned.
	produce(t, c.cluster, &kgo.Record{Topic: c.topic, Value: []byte(`{"orderId":"later"}`)})
	for _, wait := range []func() commandResult{wait1, wait2} {
		res := wait()
		if report := readConsumeReport(t, res); res.code != exitDone || report.Shared == nil || !report.Shared.Done || report.Shared.DoneBefore {
			t.Errorf("exit %d: %s%s", res.code, res.stdout, res.stderr)
		}
	}
	c.check(t, orders)

	res := c.must(t, exitDone, args...)
	if report := readConsumeReport(t, res); !report.Shared.DoneBefore || len(report.Handlers) > 0 {
		t.Errorf("done, and not said so: %s", res.stdout)
	}
	if got := text(t, c.schema, "SELECT COUNT(*) FROM t_idempotent_run WHERE command = 'replay pin' AND result = 'pinned'"); got != "1" {
		t.Errorf("%s pins", got)
	}
	for why, more := range map[string][]string{
		"replays range start of":             {"--range", "5:"},
		"does not go with --group":           {"--limit", "5"},
		"use it with --mode execute":         {"--mode", "verify"},
		"partitions [1]: use another --grou": {"-p", "1"},
	} {
		res := c.must(t, exitUsage, append(args, more...)...)
		checkJSON(t, "json", res)
		if !strings.Contains(res.stderr, why) {
			t.Errorf("%v: %s", more, res.stderr)
		}
	}
	// Somebody consumes on with the group: it is not ours any more.
	c.must(t, exitDone, "consume", c.topic, "--group", c.group, "--until-end")
	if res := c.must(t, exitUsage, args...); !strings.Contains(res.stderr, "outside the pinned range") {
		t.Errorf("the group was taken: %s", res.stderr)
	}
	// A group with offsets of its own was never ours, nor is one with members.
	c.must(t, exitDone, "consume", c.topic, "--group", c.group+"-live", "--until-end")
	args[3] = c.group + "-live"
	if res := c.must(t, exitUsage, args...); !strings.Contains(res.stderr, "it has committed offsets of") {
		t.Errorf("a live group was taken: %s", res.stderr)
	}
	args[3] = c.group + "-member"
	live := c.cluster.Client(t, kgo.ConsumerGroup(args[3]), kgo.ConsumeTopics(c.topic))
	awaitTrue(t, "a live member", func() bool {
		groups, err := c.admin.DescribeGroups(t.Context(), args[3])
		return err == nil && len(groups[args[3]].Members) == 1
	})
	if res := c.must(t, exitUsage, args...); !strings.Contains(res.stderr, "it has 1 member") {
		t.Errorf("a live group was taken: %s", res.stderr)
	}
	live.Close()
}

// Three processes that start at the same moment pin one range, on every database.
func TestReplayGroupPinsOnce(t *testing.T) {
	t.Parallel()
	for _, db := range testenv.Databases(t) {
		t.Run(db.Name, func(t *testing.T) {
			t.Parallel()
			c := newConsumeCaseOn(t, testenv.Kafka(t), db.Schema(t), 2, 300, 0)
			var waits []func() commandResult
			for range 3 {
				waits = append(waits, c.start(t, "replay", c.topic, "--group", c.group, "--mode", "execute"))
			}
			for _, wait := range waits {
				res := wait()
				if res.code != exitDone {
					t.Errorf("exit %d: %s%s", res.code, res.stdout, res.stderr)
				}
				checkTerminal(t, res.stdout)
			}
			c.check(t, 300)
			if got := text(t, c.schema, "SELECT COUNT(*) FROM t_idempotent_run WHERE command = 'replay pin'"); got != "1" {
				t.Errorf("%s pins", got)
			}
		})
	}
}
