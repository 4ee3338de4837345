package main

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/internal/testenv"
)

// scriptServers are the servers of one script.
type scriptServers struct {
	schema *testenv.Schema
	redis  *testenv.RedisSpace
	kafka  *kgo.Client
	id     string // ends every topic's name, so that scripts that run at once do not meet
}

// serversKey is where a script's servers are kept.
type serversKey struct{}

// serverSetup gives a script a schema, a Redis prefix and topics of its own, and the variables to use them:
//
//	DSN, MYSQL_ADDR, REDIS_URL, REDIS_PREFIX, BROKERS   what a script may want to name
//	ID                                           ends each topic's name: order-paid-$ID
//	IDEMCTL_LEDGER_DSN, IDEMCTL_REDIS_URL, IDEMCTL_REDIS_KEY, IDEMCTL_KAFKA_BROKERS
//	                                             so that a configuration file need only hold handlers
func serverSetup(env *testscript.Env) error {
	t, ok := env.T().(testing.TB)
	if !ok {
		return errors.New("the script runs outside a test")
	}
	s := &scriptServers{schema: testenv.MySQL(t), redis: testenv.Redis(t)}
	cluster := testenv.Kafka(t)
	s.kafka = cluster.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	s.id = strings.Trim(s.redis.Prefix, ":")
	brokers := strings.Join(cluster.Brokers, ",")
	env.Values[serversKey{}] = s
	for name, value := range map[string]string{
		"DSN": s.schema.DSN, "MYSQL_ADDR": mysqlx.Address(s.schema.DSN), "REDIS_URL": s.redis.URL, "REDIS_PREFIX": s.redis.Prefix, "BROKERS": brokers, "ID": s.id,
		"IDEMCTL_LEDGER_DSN":    s.schema.DSN,
		"IDEMCTL_REDIS_URL":     s.redis.URL,
		"IDEMCTL_REDIS_KEY":     s.redis.Prefix + "{biz_type}:{order_id}",
		"IDEMCTL_KAFKA_BROKERS": brokers,
	} {
		env.Setenv(name, value)
	}
	return nil
}

func scriptCommands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		"exits":   exitsCmd,
		"jsonok":  jsonCmd,
		"sql":     sqlCmd,
		"sqlexec": sqlExecCmd,
		"redis":   redisCmd,
		"produce": produceCmd,
		"topic":   topicCmd,
		"months":  monthsCmd,
		"seed":    seedCmd,
	}
}

// exitsCmd is exec with an expected exit status: exits 2 idemctl config sho.
func exitsCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS COMMAND ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	err = ts.Exec(args[1], args[2:]...)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// jsonCmd checks that a file, or stdout, is JSON in every line (jsonl) or as a whole: jsonok stdout; jsonok -lines stdout.
func jsonCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: jsonok [-lines] FILE")
	}
	text := ts.ReadFile(args[len(args)-1])
	docs := []string{text}
	if args[0] == "-lines" {
		docs = strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	}
	for _, doc := range docs {
		var v struct {
			Command *string `json:"command"`
			Version *string `json:"version"`
		}
		if err := json.Unmarshal([]byte(doc), &v); err != nil {
			ts.Fatalf("not JSON: %v\n%s", err, doc)
		}
		if v.Command == nil || v.Version == nil {
			ts.Fatalf("command and version are missing: %s", doc)
		}
	}
}

func servers(ts *testscript.TestScript) *scriptServers {
	s, ok := ts.Value(serversKey{}).(*scriptServers)
	if !ok {
		ts.Fatalf("this script has no servers: it belongs into testdata/script/server")
	}
	return s
}

// sqlCmd runs a query on the script's schema and prints its rows as TSV, without a header, NULL as NULL.
func sqlCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: sql 'SELECT …'")
	}
	ctx, cancel := scriptContext()
	defer cancel()
	ts.Check(printRows(ctx, servers(ts).schema.DB, args[0], ts.Stdout()))
}

func printRows(ctx context.Context, db *sql.DB, query string, w io.Writer) error {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	cells := make([]sql.NullString, len(columns))
	into := make([]any, len(columns))
	for i := range cells {
		into[i] = &cells[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return fmt.Errorf("%s: %w", query, err)
		}
		texts := make([]string, len(cells))
		for i, c := range cells {
			texts[i] = "NULL"
			if c.Valid {
				texts[i] = c.String
			}
		}
		if _, err := fmt.Fprintln(w, strings.Join(texts, "\t")); err != nil {
			return err
		}
	}
	return rows.Err()
}

// sqlExecCmd runs statements on the script's schema: sqlexec 'CREATE TABLE …', or sqlexec -f FILE with statements that
// end in ";" at the end of a line. With ! one of them must fail.
func sqlExecCmd(ts *testscript.TestScript, neg bool, args []string) {
	statements := args
	if len(args) == 2 && args[0] == "-f" {
		statements = strings.Split(ts.ReadFile(args[1]), ";\n")
	}
	ctx, cancel := scriptContext()
	defer cancel()
	var err error
	for _, s := range statements {
		if strings.TrimSpace(s) == "" {
			continue
		}
		if _, err = servers(ts).schema.DB.ExecContext(ctx, s); err != nil {
			break
		}
	}
	switch {
	case neg && err == nil:
		ts.Fatalf("unexpected success")
	case !neg:
		ts.Check(err)
	}
}

// redisCmd runs one Redis command and prints its reply: redis GET ${REDIS_PREFIX}COUPON:1.
func redisCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: redis COMMAND ARG...")
	}
	ctx, cancel := scriptContext()
	defer cancel()
	words := make([]any, len(args))
	for i, a := range args {
		words[i] = a
	}
	reply, err := servers(ts).redis.Client.Do(ctx, words...).Result()
	if errors.Is(err, redis.Nil) {
		reply, err = "(nil)", nil
	}
	ts.Check(err)
	_, err = fmt.Fprintln(ts.Stdout(), reply)
	ts.Check(err)
}

// topicCmd creates a topic, deleted at the end: topic order-paid-$ID 4 [config=value…].
func topicCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: topic NAME PARTITIONS [CONFIG=VALUE...]")
	}
	partitions, err := strconv.ParseInt(args[1], 10, 32)
	ts.Check(err)
	configs := map[string]*string{}
	for _, c := range args[2:] {
		name, value, _ := strings.Cut(c, "=")
		configs[name] = &value
	}
	admin := kadm.NewClient(servers(ts).kafka)
	ctx, cancel := scriptContext()
	defer cancel()
	_, err = admin.CreateTopic(ctx, int32(partitions), 1, configs, args[0])
	ts.Check(err)
	ts.Defer(func() {
		ctx, cancel := scriptContext()
		defer cancel()
		_, err := admin.DeleteTopics(ctx, args[0])
		ts.Check(err)
	})
}

// scriptRecord is one line of a file for produce. A missing key or value is null.
type scriptRecord struct {
	Key     *string         `json:"key"`
	Value   json.RawMessage `json:"value"`
	TS      int64           `json:"ts"` // ms
	Headers [][2]string     `json:"headers"`
}

// produceCmd writes records, JSON lines, to one partition: produce order-paid-$ID 0 records.jsonl. The value is a text, or
// an object that is sent as the JSON it is.
func produceCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: produce TOPIC PARTITION FILE")
	}
	partition, err := strconv.ParseInt(args[1], 10, 32)
	ts.Check(err)
	var records []*kgo.Record
	lines := bufio.NewScanner(strings.NewReader(ts.ReadFile(args[2])))
	for lines.Scan() {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		r, err := parseScriptRecord(lines.Bytes())
		if err != nil {
			ts.Fatalf("%s: %v: %s", args[2], err, lines.Text())
		}
		r.Topic, r.Partition = args[0], int32(partition)
		records = append(records, r)
	}
	ts.Check(lines.Err())
	ctx, cancel := scriptContext()
	defer cancel()
	ts.Check(servers(ts).kafka.ProduceSync(ctx, records...).FirstErr())
}

func parseScriptRecord(line []byte) (*kgo.Record, error) {
	var s scriptRecord
	if err := json.Unmarshal(line, &s); err != nil {
		return nil, err
	}
	r := &kgo.Record{}
	if s.Key != nil {
		r.Key = []byte(*s.Key)
	}
	var text string
	switch {
	case len(s.Value) == 0 || string(s.Value) == "null":
	case json.Unmarshal(s.Value, &text) == nil:
		r.Value = []byte(text)
	default:
		r.Value = s.Value
	}
	if s.TS != 0 {
		r.Timestamp = time.UnixMilli(s.TS)
	}
	for _, h := range s.Headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h[0], Value: []byte(h[1])})
	}
	return r, nil
}

// scriptContext bounds one step of a script: a server that does not answer fails the script instead of hanging it.
func scriptContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Minute)
}
