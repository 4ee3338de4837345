package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemctl/idemctl/internal/testenv"
)

// Offsets behind an open transaction cannot be read: both commands say how many, do the rest, show how to go on, and end
// with 4. hazard R3
func TestOpenTransactionIsIncomplete(t *testing.T) {
	t.Parallel()
	cluster := testenv.Kafka(t)
	cmd, _, _ := newCommand(t, cluster.Brokers)
	topic := cluster.Topic(t, 1, nil)
	produce(t, cluster, &kgo.Record{Topic: topic, Value: []byte(`{"orderId":"A-1"}`)})
	open := cluster.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID(topic))
	if err := open.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := open.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte(`{"orderId":"A-2"}`)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	cmd.write(t, "idemctl.yaml", "handlers:\n  coupon: {topic: "+topic+", biz_type: COUPON, key: orderId}\n")
	cmd.must(t, 0, "partition", "create", "--ahead", "0", "--memory-since", "2020-01-01", "--execute")

	for _, args := range [][]string{{"capture", topic, "held.jsonl"}, {"replay", topic}} {
		res := cmd.must(t, exitIncomplete, args...)
		for _, want := range []string{"1 offset held back by an open transaction", "idemctl " + args[0] + " " + topic, "-p 0 --range 1:2"} {
			if !strings.Contains(res.stdout, want) {
				t.Errorf("%s does not say %q:\n%s", args[0], want, res.stdout)
			}
		}
		checkTerminal(t, res.stdout)
		if args[0] == "capture" {
			args = append(args, "--force")
		}
		if res = cmd.must(t, exitIncomplete, append(args, "-o", "json")...); !strings.Contains(res.stdout, `"held_back": 1`) {
			t.Errorf("not in JSON: %s", res.stdout)
		}
	}
}

// A file that appears while a capture runs is not replaced: commit looks once more, by the link itself.
func TestCaptureDoesNotReplaceWhatCameMeanwhile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "incident.jsonl")
	out := newCaptureOutput(nil, path, false)
	if err := out.check(); err != nil {
		t.Fatal(err)
	}
	if err := out.open(); err != nil {
		t.Fatal(err)
	}
	if err := out.write([]byte("{}\n")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("another's"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := out.commit(); exitCode(err) != exitUsage {
		t.Errorf("commit: %v", err)
	}
	out.discard()
	data, err := os.ReadFile(path)
	if err != nil || string(data) != "another's" {
		t.Errorf("the file holds %q, %v", data, err)
	}
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(files) != 1 {
		t.Errorf("the folder holds %v, %v", files, err)
	}
}

// Whatever the end, a program that asked for JSON can read stdout: one document, or one a line, each with command and
// version.
func TestJSONInEveryExit(t *testing.T) {
	t.Parallel()
	cluster := testenv.Kafka(t)
	cmd, _, _ := newCommand(t, cluster.Brokers)
	topic := cluster.Topic(t, 1, nil)
	produce(t, cluster, &kgo.Record{Topic: topic, Timestamp: time.UnixMilli(1), Value: []byte(`{"orderId":"A-1"}`)}, &kgo.Record{Topic: topic, Value: []byte("x")})
	cmd.write(t, "effect.sql", "INSERT INTO nosuch (a) VALUES (:_order_id)")
	cmd.write(t, "idemctl.yaml", "handlers:\n  coupon: {topic: "+topic+", biz_type: COUPON, key: orderId, effect: effect.sql}\n"+
		"  gone: {topic: gone, biz_type: GONE, key: orderId}\n")
	cmd.write(t, "typo.yaml", "leger: {}\n")
	cmd.must(t, 0, "partition", "create", "--ahead", "0", "--execute")
	for name, c := range map[string]struct {
		code int
		args []string
	}{
		"plan":              {exitDone, []string{"partition", "create"}},
		"list":              {exitDone, []string{"partition", "list"}},
		"nothing to read":   {exitDone, []string{"replay", topic, "-r", "end"}},
		"capture":           {exitDone, []string{"capture", topic, "--force", "NAME.jsonl"}},
		"finding":           {exitFinding, []string{"replay", topic}},
		"limit":             {exitIncomplete, []string{"replay", topic, "--limit", "1"}},
		"no command":        {exitUsage, []string{"repaly", topic}},
		"no flag":           {exitUsage, []string{"replay", topic, "--mood", "execute"}},
		"mode":              {exitUsage, []string{"replay", topic, "--mode", "x"}},
		"range":             {exitUsage, []string{"replay", topic, "-r", "x"}},
		"outside":           {exitUsage, []string{"replay", topic, "-r", "99"}},
		"handler":           {exitUsage, []string{"replay", "order-paid"}},
		"effect":            {exitUsage, []string{"replay", topic, "--mode", "execute"}},
		"no effect":         {exitUsage, []string{"replay", "gone", "--mode", "rehearse"}},
		"configuration":     {exitUsage, []string{"replay", topic, "--config", "typo.yaml"}},
		"no configuration":  {exitUsage, []string{"replay", topic, "--config", "gone.yaml"}},
		"stdout is taken":   {exitUsage, []string{"capture", topic, "-"}},
		"cap":               {exitUsage, []string{"partition", "create", "--from", "2001-01"}},
		"no topic":          {exitFailure, []string{"replay", "gone"}},
		"no topic to save":  {exitFailure, []string{"capture", "gone", "gone.jsonl"}},
		"no partition":      {exitFailure, []string{"replay", topic, "-p", "9"}},
		"no ledger":         {exitFailure, []string{"replay", topic, "--table-prefix", "other"}},
		"no ledger to list": {exitFailure, []string{"partition", "list", "--table-prefix", "other"}},
		"no MySQL":          {exitFailure, []string{"partition", "list", "--dsn", "u:hunter2@tcp(127.0.0.1:1)/s"}},
		"no Redis":          {exitFailure, []string{"replay", topic, "--redis-url", "redis://:hunter2@127.0.0.1:1"}},
		"no Kafka":          {exitFailure, []string{"replay", topic, "--brokers", "127.0.0.1:1", "--connect-timeout", "200ms"}},
		"no file":           {exitFailure, []string{"replay", "--input", "gone.jsonl"}},
		"no folder":         {exitFailure, []string{"capture", topic, "gone/x.jsonl"}},
	} {
		formats := []string{"json"}
		if c.code != exitUsage && c.code != exitFailure { // an error is one line, whichever of the two was asked for
			formats = append(formats, "jsonl")
		}
		for _, format := range formats {
			t.Run(name+" "+format, func(t *testing.T) {
				t.Parallel()
				args := append(append([]string{}, c.args...), "-o", format)
				for i := range args {
					args[i] = strings.ReplaceAll(args[i], "NAME", format)
				}
				checkJSON(t, format, cmd.must(t, c.code, args...))
			})
		}
	}
}

func checkJSON(t *testing.T, format string, res commandResult) {
	t.Helper()
	docs := []string{res.stdout}
	if format == "jsonl" {
		docs = strings.Split(strings.TrimSuffix(res.stdout, "\n"), "\n")
	}
	for _, doc := range docs {
		var v struct {
			Command, Version string
			Error            *string
		}
		if err := json.Unmarshal([]byte(doc), &v); err != nil {
			t.Fatalf("%v: %q", err, doc)
		}
		// A word that is no command has none.
		if v.Version == "" || v.Command == "" && !strings.Contains(doc, "unknown command") {
			t.Errorf("command or version is missing: %s", doc)
		}
		if wantError := res.code == exitUsage || res.code == exitFailure || res.code == exitBusy; (v.Error != nil) != wantError {
			t.Errorf("exit %d with %s", res.code, doc)
		}
	}
	if strings.Contains(res.stdout+res.stderr, "hunter2") {
		t.Errorf("a secret is shown: %s%s", res.stdout, res.stderr)
	}
}
