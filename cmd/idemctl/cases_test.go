package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/partition"
	"github.com/idemctl/idemctl/pkg/replay"
)

// Every line of testdata/cases goes through the real command, on real servers.

func readCases[T any](t *testing.T, name string) []T {
	t.Helper()
	data, err := os.ReadFile("testdata/cases/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var cases []T
	for line := range bytes.Lines(data) {
		var c T
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatalf("%s: %v in %s", name, err, line)
		}
		cases = append(cases, c)
	}
	if len(cases) == 0 {
		t.Fatalf("%s is empty", name)
	}
	return cases
}

type messageCase struct {
	Why            string  `json:"why"`
	KeyPath        string  `json:"key_path"`
	Value          *string `json:"value"`
	ValueHex       string  `json:"value_hex"`
	Want           string  `json:"want"`
	WantKey        string  `json:"want_key"`
	WantRedisKey   string  `json:"want_redis_key"`
	ReasonMentions string  `json:"reason_mentions"`
}

func (c messageCase) bytes(t *testing.T) []byte {
	t.Helper()
	switch {
	case c.ValueHex != "":
		b, err := hex.DecodeString(c.ValueHex)
		if err != nil {
			t.Fatal(err)
		}
		return b
	case c.Value != nil:
		return []byte(*c.Value)
	}
	return nil
}

// grantSQL leaves one row for each time an effect ran.
const grantSQL = "INSERT INTO granted (part, order_id, at) VALUES (:_partition, :_order_id, :_event_time)"

const grantedDDL = "CREATE TABLE granted (part INT, order_id VARBINARY(128), at DATETIME(3)) ENGINE=InnoDB"

func TestMessageCases(t *testing.T) {
	t.Parallel()
	cluster := testenv.Kafka(t)
	cmd, schema, redis := newCommand(t, cluster.Brokers)
	exec1(t, schema, grantedDDL)
	cmd.write(t, "grant.sql", grantSQL)
	cases := readCases[messageCase](t, "messages.jsonl")
	topic := cluster.Topic(t, int32(len(cases)), nil)
	records := make([]*kgo.Record, len(cases))
	for i, c := range cases {
		records[i] = &kgo.Record{Topic: topic, Partition: int32(i), Value: c.bytes(t)}
	}
	produce(t, cluster, records...)

	for i, c := range cases {
		t.Run(fmt.Sprintf("%02d", i), func(t *testing.T) {
			t.Parallel()
			// Each line stands alone: a ledger and a Redis prefix of its own.
			prefix := fmt.Sprintf("line%d", i)
			space := fmt.Sprintf("%s%d:", redis.Prefix, i)
			cmd := cmd.with("IDEMCTL_LEDGER_TABLE_PREFIX="+prefix, "IDEMCTL_REDIS_KEY="+space+"idempotent:{biz_type}:{order_id}")
			config := fmt.Sprintf("%d.yaml", i)
			cmd.write(t, config, fmt.Sprintf("handlers:\n  coupon: {topic: %s, biz_type: COUPON, key: '%s', effect: grant.sql, memory_since: 2020-01-01}\n", topic, c.KeyPath))
			cmd.must(t, 0, "partition", "create", "--ahead", "0", "--execute")
			replayArgs := []string{"replay", topic, "--config", config, "-p", strconv.Itoa(i)}
			code := map[string]int{"executed": exitDone, "invalid": exitIncomplete}[c.Want]
			res := cmd.must(t, code, append(replayArgs, "--mode", "execute", "--list", "-o", "jsonl")...)
			var line replay.Line
			if err := json.Unmarshal([]byte(res.stdout), &line); err != nil {
				t.Fatalf("%v: %s", err, res.stdout)
			}
			if line.Outcome != c.Want || !strings.Contains(line.Reason, c.ReasonMentions) {
				t.Errorf("%s: %s, %q; want %s, mentioning %q", c.Why, line.Outcome, line.Reason, c.Want, c.ReasonMentions)
			}
			checkExactKey(t, schema, prefix, i, c)
			checkMarkers(t, redis, space, c)

			// What people see: the key escaped, 80 columns, and everything absorbed the second time.
			again := map[string]int{"executed": exitDone, "invalid": exitFinding}[c.Want]
			res = cmd.must(t, again, append(replayArgs, "--keys", "--list")...)
			list, report, _ := strings.Cut(res.stdout, "\n\n")
			if strings.IndexFunc(strings.ReplaceAll(list, "\n", ""), unicode.IsControl) >= 0 {
				t.Errorf("a control byte reaches the terminal: %q", list)
			}
			checkTerminal(t, report)
		})
	}
}

// checkExactKey compares the ledger and the effect, byte by byte.
func checkExactKey(t *testing.T, schema *testenv.Schema, prefix string, part int, c messageCase) {
	t.Helper()
	want := ""
	if c.Want == "executed" {
		want = hex.EncodeToString([]byte(c.WantKey))
	}
	month := partition.MonthOf(time.Now(), time.UTC).Digits()
	query := fmt.Sprintf("SELECT IFNULL(GROUP_CONCAT(LOWER(HEX(order_id)), IF(biz_type = 'COUPON', '', '?') SEPARATOR ' '), '') FROM %s_%s", prefix, month)
	if got := text(t, schema, query); got != want {
		t.Errorf("%s: the ledger holds %q, want %q", c.Why, got, want)
	}
	query = fmt.Sprintf("SELECT IFNULL(GROUP_CONCAT(LOWER(HEX(order_id)) SEPARATOR ' '), '') FROM granted WHERE part = %d", part)
	if got := text(t, schema, query); got != want {
		t.Errorf("%s: granted to %q, want %q", c.Why, got, want)
	}
}

// checkMarkers compares the keys in Redis.
func checkMarkers(t *testing.T, redis *testenv.RedisSpace, space string, c messageCase) {
	t.Helper()
	want := "[]"
	if c.Want == "executed" {
		name := c.WantRedisKey
		if name == "" {
			name = "idempotent:COUPON:" + c.WantKey
		}
		want = fmt.Sprintf("%q", []string{space + name})
	}
	keys, err := redis.Client.Keys(t.Context(), space+"*").Result()
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%q", keys); got != want {
		t.Errorf("%s: Redis has %s, want %s", c.Why, got, want)
	}
}

// checkTerminal wants text of at most 80 columns, commands to copy aside, without control bytes.
func checkTerminal(t *testing.T, shown string) {
	t.Helper()
	for line := range strings.Lines(shown) {
		line = strings.TrimSuffix(line, "\n")
		if strings.IndexFunc(line, unicode.IsControl) >= 0 {
			t.Errorf("a control byte reaches the terminal: %q", line)
		}
		if n := len([]rune(line)); n > 80 && !strings.Contains(line, "idemctl ") {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

type timeCase struct {
	EventTime       json.RawMessage `json:"event_time"`
	TimeZone        string          `json:"time_zone"`
	EventTimeFormat string          `json:"event_time_format"`
	Want            string          `json:"want"`
	WantMonth       string          `json:"want_month"`
	WantUTC         time.Time       `json:"want_utc"`
	Why             string          `json:"why"`
}

// Each zone has a ledger of its own with the months that its lines want. A line's order id is its number, so that it stands
// alone.
func TestTimeCases(t *testing.T) {
	t.Parallel()
	type group struct{ zone, format string }
	groups := map[group][]int{}
	cases := readCases[timeCase](t, "times.jsonl")
	for i, c := range cases {
		g := group{c.TimeZone, c.EventTimeFormat}
		groups[g] = append(groups[g], i)
	}
	for g, lines := range groups {
		t.Run(g.zone+g.format, func(t *testing.T) {
			t.Parallel()
			cmd, schema, _ := newCommand(t, nil)
			cmd = cmd.with("IDEMCTL_LEDGER_TIME_ZONE=" + g.zone)
			exec1(t, schema, grantedDDL)
			cmd.write(t, "grant.sql", grantSQL)
			format := ""
			if g.format != "" {
				format = ", event_time_format: '" + g.format + "'"
			}
			cmd.write(t, "idemctl.yaml", "handlers:\n  coupon: {topic: order-paid, biz_type: COUPON, key: id, event_time: at, effect: grant.sql"+format+"}\n")

			var months []string
			var capture []byte
			for _, i := range lines {
				if m := cases[i].WantMonth; m != "" {
					months = append(months, m)
				}
				var err error
				capture, err = replay.AppendEnvelope(capture, replay.Record{
					Topic: "order-paid", Offset: int64(i), Timestamp: time.UnixMilli(1), Value: fmt.Appendf(nil, `{"id":"line-%d","at":%s}`, i, cases[i].EventTime),
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			cmd.write(t, "lines.jsonl", string(capture))
			makeMonths(t, cmd, schema, g.zone, months)

			res := cmd.run(t, "replay", "--input", "lines.jsonl", "--mode", "execute", "--list", "-o", "jsonl")
			outcomes := map[int64]replay.Line{}
			for out := range strings.Lines(res.stdout) {
				var line replay.Line
				if err := json.Unmarshal([]byte(out), &line); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				outcomes[line.Offset] = line
			}
			if len(outcomes) != len(lines) {
				t.Fatalf("%d outcomes for %d lines, exit %d: %s", len(outcomes), len(lines), res.code, res.stderr)
			}
			for _, i := range lines {
				checkTime(t, schema, i, cases[i], outcomes[int64(i)])
			}
		})
	}
}

// makeMonths makes a ledger that remembers everything and has these months beside the current one, in whatever year the
// test runs.
func makeMonths(t *testing.T, cmd command, schema *testenv.Schema, zone string, months []string) {
	t.Helper()
	loc, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	current := partition.MonthOf(time.Now(), loc)
	create := []string{"partition", "create", "--from", current.String(), "--ahead", "0", "--memory-since", "2000-01-02", "--execute"}
	cmd.must(t, 0, create...)
	for _, m := range months {
		if m == current.Digits() {
			continue
		}
		exec1(t, schema, fmt.Sprintf("CREATE TABLE IF NOT EXISTS t_idempotent_flow_%s LIKE t_idempotent_flow_%s", m, current.Digits()))
	}
	cmd.must(t, 0, create...)
}

func checkTime(t *testing.T, schema *testenv.Schema, i int, c timeCase, got replay.Line) {
	t.Helper()
	id := fmt.Sprintf("line-%d", i)
	at := text(t, schema, "SELECT IFNULL(GROUP_CONCAT(at SEPARATOR ' '), '') FROM granted WHERE order_id = '"+id+"'")
	if c.Want == "invalid" {
		if got.Outcome != "invalid" || !strings.HasPrefix(got.Reason, "at ") || at != "" {
			t.Errorf("%s: %s, %q, granted at %q; want invalid, naming at", c.Why, got.Outcome, got.Reason, at)
		}
		return
	}
	if got.Outcome != "executed" {
		t.Errorf("%s: %s, %q; want executed", c.Why, got.Outcome, got.Reason)
		return
	}
	if want := c.WantUTC.Format("2006-01-02 15:04:05.000"); at != want {
		t.Errorf("%s: read as %s, want %s", c.Why, at, want)
	}
	if n := text(t, schema, fmt.Sprintf("SELECT COUNT(*) FROM t_idempotent_flow_%s WHERE order_id = '%s'", c.WantMonth, id)); n != "1" {
		t.Errorf("%s: %s rows in %s, want 1", c.Why, n, c.WantMonth)
	}
}

func produce(t *testing.T, cluster *testenv.Cluster, records ...*kgo.Record) {
	t.Helper()
	client := cluster.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func exec1(t *testing.T, schema *testenv.Schema, statement string) {
	t.Helper()
	if _, err := schema.DB.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func text(t *testing.T, schema *testenv.Schema, query string) string {
	t.Helper()
	var s string
	if err := schema.DB.QueryRowContext(t.Context(), query).Scan(&s); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return s
}
