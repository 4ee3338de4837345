package replay_test

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/idemctl/idemctl/pkg/replay"
)

// testdata/kcat.jsonl is the output of kcat -C -J (1.7.1) on a topic of six records.
func TestDecodeEnvelopeOfKcat(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/kcat.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	at := func(s int64) time.Time { return time.UnixMilli(1794326412345 + s*1000).UTC() }
	want := []replay.Record{
		{
			Topic: "order-paid", Timestamp: at(0), Key: []byte("20261111-8842"), Value: []byte(`{"orderId":"20261111-8842"}`),
			Headers: []replay.Header{{Key: "trace", Value: []byte("a1")}, {Key: "trace"}, {Key: "e", Value: []byte{}}},
		},
		{Topic: "order-paid", Offset: 1, Timestamp: at(1), Value: []byte("x")},
		{Topic: "order-paid", Offset: 2, Timestamp: at(2), Key: []byte{}, Value: []byte{}},
		{Topic: "order-paid", Offset: 3, Timestamp: at(3), Key: []byte("tomb")},
		{Topic: "order-paid", Partition: 1, Timestamp: at(4), Key: []byte("quote\"\\\n\x01\x7f/é😀"), Value: []byte("tab\t\u2028")},
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	for i, w := range want {
		got, err := replay.DecodeEnvelope(lines[i])
		if err != nil || !reflect.DeepEqual(got, w) {
			t.Errorf("line %d is %+v (%v), want %+v", i+1, got, err, w)
		}
		// What we write has the same members, but for the broker.
		var theirs, ours map[string]any
		mine, err := replay.AppendEnvelope(nil, w)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(lines[i], &theirs); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(mine, &ours); err != nil {
			t.Fatal(err)
		}
		theirs["broker"], ours["broker"] = nil, nil
		if !reflect.DeepEqual(ours, theirs) {
			t.Errorf("line %d of ours is %v, of kcat %v", i+1, ours, theirs)
		}
	}
	// kcat writes bytes that are not UTF-8 as they are, which is no JSON.
	if rec, err := replay.DecodeEnvelope(lines[5]); err == nil || !strings.Contains(err.Error(), "UTF-8") {
		t.Errorf("line 6 was read as %+v (%v)", rec, err)
	}
}

func TestAppendEnvelope(t *testing.T) {
	t.Parallel()
	rec := replay.Record{
		Topic: "t", Partition: 3, Offset: 10233, Timestamp: time.UnixMilli(1794326412345), Key: []byte("k\xff"), Value: []byte{0, 1},
		Headers: []replay.Header{{Key: "a", Value: []byte{0xff}}, {Key: "b"}, {Key: "", Value: []byte{}}},
	}
	got, err := replay.AppendEnvelope([]byte("before\n"), rec)
	want := "before\n" + `{"topic":"t","partition":3,"offset":10233,"tstype":"create","ts":1794326412345,"broker":-1,` +
		`"headers_b64":["YQ==","/w==","Yg==",null,"",""],"key":null,"key_b64":"a/8=","payload":"\u0000\u0001"}` + "\n"
	if err != nil || string(got) != want {
		t.Errorf("the line is %s (%v), want %s", got, err, want)
	}
	if got, err := replay.AppendEnvelope([]byte("before"), replay.Record{Topic: "\xff"}); err == nil || string(got) != "before" {
		t.Errorf("a topic that is not UTF-8 gives %q, %v", got, err)
	}
}

func TestDecodeEnvelopeRefuses(t *testing.T) {
	t.Parallel()
	const head = `{"topic":"t","partition":0,"offset":1,`
	for line, words := range map[string]string{
		`{}`:                          "lacks topic, partition or offset",
		`{"topic":"t","partition":0}`: "lacks",
		`{"topic":"t","partition":-1,"offset":1}`:         "negative",
		`{"topic":"t","partition":0,"offset":1.5}`:        `wrong type at "/offset"`,
		`{"topic":"t","partition":0,"offset":"1"}`:        `wrong type at "/offset"`,
		`{"topic":"t","partition":4294967296,"offset":1}`: "partition",
		head + `"payload":{"a":1}}`:                       `wrong type at "/payload"`,
		head + `"payload":"\ud800"}`:                      "surrogate",
		head + `"payload":"a","payload":"b"}`:             "twice",
		head + `"payload_b64":"%%"}`:                      "payload_b64 that is not base64",
		head + `"key_b64":"YQ"}`:                          "key_b64 that is not base64",
		head + `"headers":["a"]}`:                         "pairs",
		head + `"headers":[null,"a"]}`:                    "null name",
		head + `"headers_b64":["YQ==","a"]}`:              "headers_b64 that are not base64",
		head + `"payload":"a"`:                            "cut off",
		head + `"payload":"a"} x`:                         "JSON",
		`x`:                                               "JSON",
	} {
		if rec, err := replay.DecodeEnvelope([]byte(line)); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: want %q, got %+v, %v", line, words, rec, err)
		}
	}
}

// drawBytes gives null, empty, text, or any bytes.
func drawBytes(t *rapid.T, label string) []byte {
	switch rapid.IntRange(0, 3).Draw(t, label+" kind") {
	case 0:
		return nil
	case 1:
		return []byte(rapid.String().Draw(t, label))
	case 2:
		return []byte{}
	default:
		return append([]byte{}, rapid.SliceOf(rapid.Byte()).Draw(t, label)...)
	}
}

// A record comes back from its line as it was, byte for byte, null null and empty empty.
func TestEnvelopeRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rec := replay.Record{
			Topic:     rapid.StringMatching(`[a-zA-Z0-9._-]{1,20}`).Draw(t, "topic"),
			Partition: rapid.Int32Min(0).Draw(t, "partition"),
			Offset:    rapid.Int64Min(0).Draw(t, "offset"),
			Key:       drawBytes(t, "key"),
			Value:     drawBytes(t, "value"),
		}
		if rapid.Bool().Draw(t, "timed") {
			rec.Timestamp = time.UnixMilli(rapid.Int64Range(0, 1<<45).Draw(t, "ts")).UTC()
		}
		for range rapid.IntRange(0, 3).Draw(t, "headers") {
			rec.Headers = append(rec.Headers, replay.Header{Key: string(drawBytes(t, "name")), Value: drawBytes(t, "header")})
		}
		line, err := replay.AppendEnvelope(nil, rec)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Count(line, []byte("\n")) != 1 || !json.Valid(line) {
			t.Fatalf("not one line of JSON: %q", line)
		}
		back, err := replay.DecodeEnvelope(line)
		if err != nil || !reflect.DeepEqual(back, rec) {
			t.Fatalf("%s is %+v (%v), was %+v", line, back, err, rec)
		}
	})
}
