package main

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/replay"
)

// rangeLog is a topic's partition as the test knows it: a record's offset is its index.
type rangeLog []time.Time

func (l rangeLog) after(at time.Time) int64 {
	for i, ts := range l {
		if !ts.Before(at) {
			return int64(i)
		}
	}
	return int64(len(l))
}

func TestRangeCases(t *testing.T) {
	t.Parallel()
	cluster := testenv.Kafka(t)
	cmd, _, _ := newCommand(t, cluster.Brokers)
	now := time.Now()
	topic := cluster.Topic(t, 2, nil)
	logs := make([]rangeLog, 2)
	var records []*kgo.Record
	for p := range logs {
		for i := range 600 {
			// Half an hour apart around the times of the file, the last ones around now.
			at := time.Date(2026, 11, 10, 12, 0, 0, 0, time.UTC).Add(time.Duration(i+p) * 30 * time.Second)
			if i >= 580 {
				at = now.Add(time.Duration(i-590) * 20 * time.Minute)
			}
			logs[p] = append(logs[p], at.Truncate(time.Millisecond))
			records = append(records, &kgo.Record{Topic: topic, Partition: int32(p), Timestamp: at, Value: []byte(`{"orderId":"A-1"}`)})
		}
	}
	produce(t, cluster, records...)
	cmd.write(t, "idemctl.yaml", "ledger: {time_zone: Asia/Shanghai}\nhandlers:\n  coupon: {topic: "+topic+", biz_type: COUPON, key: orderId}\n")
	cmd.must(t, 0, "partition", "create", "--ahead", "0", "--execute")

	accepted, refused := rangeForms(t)
	for _, form := range accepted {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			checkAccepted(t, cmd, topic, form, logs)
		})
	}
	for i, form := range refused {
		t.Run("refused "+strconv.Quote(form), func(t *testing.T) {
			t.Parallel()
			commands := [][]string{{"replay", topic}, {"capture", topic, "out.jsonl"}}
			for _, args := range commands[:min(len(commands), 2-i%2)] { // one reader of ranges serves both
				res := cmd.must(t, exitUsage, append(args, "--range", form)...)
				if want := "idemctl: --range: range " + strconv.Quote(form) + ": "; !strings.HasPrefix(res.stderr, want) || !strings.Contains(res.stderr, "N:M (M exclusive)") {
					t.Errorf("the error names neither range nor forms: %s", res.stderr)
				}
				if strings.Count(res.stderr, "\n") != 1 || res.stdout != "" {
					t.Errorf("not one line on stderr: %q, %q", res.stderr, res.stdout)
				}
			}
		})
	}
}

// rangeForms are the forms of ranges.tsv.
func rangeForms(t *testing.T) (accepted, refused []string) {
	t.Helper()
	data, err := os.ReadFile("testdata/cases/ranges.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		form, meaning, ok := strings.Cut(line, "\t")
		switch {
		case strings.HasPrefix(line, "#"):
		case !ok:
			t.Fatalf("ranges.tsv: %q", line)
		case meaning == "refused":
			refused = append(refused, strings.TrimSuffix(strings.TrimPrefix(form, `"`), `"`))
		default:
			accepted = append(accepted, form)
		}
	}
	if len(accepted) == 0 || len(refused) == 0 {
		t.Fatal("ranges.tsv is empty")
	}
	return accepted, refused
}

// rangeMeaning is what an accepted form means, by hand: [start, end) of a log with 600 records.
func rangeMeaning(form string, log rangeLog, started, ended time.Time) (start, end [2]int64, ok bool) {
	at := func(t time.Time) [2]int64 { return [2]int64{log.after(t), log.after(t)} }
	ago := func(d time.Duration) [2]int64 { return [2]int64{log.after(started.Add(-d)), log.after(ended.Add(-d))} }
	fixed := func(n int64) [2]int64 { return [2]int64{n, n} }
	all := fixed(600)
	eleventh := time.Date(2026, 11, 10, 16, 0, 0, 0, time.UTC) // midnight in Shanghai
	switch form {
	case "100", "100:":
		return fixed(100), all, true
	case "100:200":
		return fixed(100), fixed(200), true
	case ":200":
		return fixed(0), fixed(200), true
	case "start":
		return fixed(0), all, true
	case "end":
		return all, all, true
	case "-500":
		return fixed(100), all, true
	case "+500":
		return fixed(0), fixed(500), true
	case "@2026-11-11T00:00:00+08:00", "@2026-11-11":
		return at(eleventh), all, true
	case "@1794326412345":
		return at(eleventh.Add(12345 * time.Millisecond)), all, true
	case "@1794326412":
		return at(eleventh.Add(12 * time.Second)), all, true
	case "@-1h":
		return ago(time.Hour), all, true
	case "@2026-11-11T00:00:00+08:00:@2026-11-11T00:47:00+08:00":
		return at(eleventh), at(eleventh.Add(47 * time.Minute)), true
	case "@-2h:@-1h":
		return ago(2 * time.Hour), ago(time.Hour), true
	case "100:100":
		return fixed(100), fixed(100), true
	}
	return start, end, false
}

func checkAccepted(t *testing.T, cmd command, topic, form string, logs []rangeLog) {
	t.Helper()
	started := time.Now()
	res := cmd.run(t, "replay", topic, "--range", form, "-o", "json")
	var doc struct {
		Result replay.Report `json:"result"`
	}
	if err := json.Unmarshal([]byte(res.stdout), &doc); err != nil || len(doc.Result.Partitions) != 2 {
		t.Fatalf("exit %d, %v: %s%s", res.code, err, res.stdout, res.stderr)
	}
	for p, log := range logs {
		start, end, ok := rangeMeaning(form, log, started, time.Now())
		if !ok {
			t.Fatalf("the test does not know what %q means", form)
		}
		got := doc.Result.Partitions[p].Bounds
		if got.Start < start[0] || got.Start > start[1] || got.End < end[0] || got.End > end[1] {
			t.Errorf("partition %d: %d:%d, want %v:%v", p, got.Start, got.End, start, end)
		}
		if p, n := doc.Result.Partitions[p], max(0, got.End-got.Start); p.Records != n {
			t.Errorf("partition %d: %d records, want %d", p.Partition, p.Records, n)
		}
	}
	want := exitFinding
	if doc.Result.Total.Offsets == 0 {
		want = exitDone
		if shown := cmd.must(t, want, "replay", topic, "--range", form); !strings.Contains(shown.stdout, "there is nothing to read") {
			t.Errorf("nothing to read, and not said so: %s", shown.stdout)
		}
	}
	if res.code != want {
		t.Errorf("exit %d, want %d: %s", res.code, want, res.stderr)
	}
}
