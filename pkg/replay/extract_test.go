package replay_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/idemctl/idemctl/pkg/replay"
)

// hazard R5: repeated headers, null against empty; the record's own key is taken byte for byte.
func TestExtractKeySources(t *testing.T) {
	t.Parallel()
	h := func(kv ...string) []replay.Header {
		var hs []replay.Header
		for i := 0; i < len(kv); i += 2 {
			hs = append(hs, replay.Header{Key: kv[i], Value: []byte(kv[i+1])})
		}
		return hs
	}
	for _, c := range []struct {
		why, source string
		rec         replay.Record
		want        string
		invalid     string
	}{
		{why: "record key", source: "key", rec: replay.Record{Key: []byte("A\xff\x00"), Value: []byte("not JSON")}, want: "A\xff\x00"},
		{why: "null record key", source: "key", rec: replay.Record{Value: []byte("{}")}, invalid: "key is null"},
		{why: "empty record key", source: "key", rec: replay.Record{Key: []byte{}, Value: []byte("{}")}, invalid: "key is empty"},
		{why: "tombstone with a record key", source: "key", rec: replay.Record{Key: []byte("A")}, invalid: "tombstone"},
		{why: "header", source: "header:id", rec: replay.Record{Headers: h("x", "1", "id", "A-1"), Value: []byte{}}, want: "A-1"},
		{why: "header's case counts", source: "header:id", rec: replay.Record{Headers: h("ID", "A-1"), Value: []byte{}}, invalid: "header:id is missing"},
		{why: "header twice alike", source: "header:id", rec: replay.Record{Headers: h("id", "A-1", "id", "A-1"), Value: []byte{}}, want: "A-1"},
		{why: "header twice, different", source: "header:id", rec: replay.Record{Headers: h("id", "A-1", "id", "A-2"), Value: []byte{}}, invalid: "header:id is given twice"},
		{why: "null header", source: "header:id", rec: replay.Record{Headers: []replay.Header{{Key: "id"}}, Value: []byte{}}, invalid: "header:id is null"},
		{why: "null and empty header", source: "header:id", rec: replay.Record{Headers: []replay.Header{{Key: "id"}, {Key: "id", Value: []byte{}}}, Value: []byte{}}, invalid: "twice"},
		{why: "empty header", source: "header:id", rec: replay.Record{Headers: h("id", ""), Value: []byte{}}, invalid: "header:id is empty"},
		{why: "member called key", source: "value:key", rec: replay.Record{Key: []byte("B"), Value: []byte(`{"key":"A"}`)}, want: "A"},
	} {
		t.Run(c.why, func(t *testing.T) {
			t.Parallel()
			c.rec.Timestamp = aTime()
			item, err := extractWith(t, replay.ExtractorConfig{Key: c.source}, c.rec)
			if c.invalid != "" {
				wantInvalid(t, err, c.invalid)
				return
			}
			if err != nil || item.OrderID != c.want {
				t.Errorf("the key is %q (%v), want %q", item.OrderID, err, c.want)
			}
		})
	}
}

// hazard R9, R11: what a path reaches, and what is said where it ends early.
func TestExtractPaths(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ path, value, want, invalid string }{
		{path: "data.id", value: `{"id":"1","data":{"id":"2"}}`, want: "2"},
		{path: "0", value: `["a","b"]`, want: "a"},
		{path: "o.1", value: `{"o":{"1":"member"}}`, want: "member"},
		{path: "o.1", value: `{"o":["x","element"]}`, want: "element"},
		{path: "o.01", value: `{"o":["x","element"]}`, invalid: `o is an array, and "01" is no index`},
		{path: "o.01", value: `{"o":{"01":"member"}}`, want: "member"},
		{path: "o.2", value: `{"o":["x","y"]}`, invalid: "o has 2 elements"},
		{path: `a\.b.c\\d`, value: `{"a.b":{"c\\d":"x"}}`, want: "x"},
		{path: "é", value: `{"\u00e9":"x"}`, want: "x"},
		{path: "a.b.c", value: `{"a":{}}`, invalid: "a.b.c is missing: there is no a.b"},
		{path: "a.b.c", value: `{"a":{"b":7}}`, invalid: "a.b is a number"},
		{path: `a\.b.c`, value: `{"a.b":null}`, invalid: `a\.b is null`},
		{path: "a.b", value: `"text"`, invalid: "the value is a text"},
		{path: "id", value: " \n", invalid: "white space only"},
		{path: "id", value: `{"id":-0.50e+1}`, want: "-0.50e+1"},
		{path: "id", value: "\xef\xbb\xbf {\"id\":\"A\"} \n", want: "A"},
		{path: "id", value: "\xef\xbb\xbf", invalid: "empty"},
		{path: "id", value: "\xef\xbb\xbf\xef\xbb\xbf{}", invalid: "JSON at byte 3"},
	} {
		item, err := extractWith(t, replay.ExtractorConfig{Key: c.path}, replay.Record{Value: []byte(c.value), Timestamp: aTime()})
		if c.invalid != "" {
			wantInvalid(t, err, c.invalid)
			continue
		}
		if err != nil || item.OrderID != c.want {
			t.Errorf("%s of %s is %q (%v), want %q", c.path, c.value, item.OrderID, err, c.want)
		}
	}
}

// hazard R9: whatever two readers could understand differently is refused, wherever in the value it stands.
func TestExtractRefusesUnsoundValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ value, words string }{
		{`{"id":"A","x":[[{"a":1,"b":{"k":1,"k":1}}]]}`, `the member "k" twice in one object, within "/x/0/0/b"`},
		{`{"id":"A","\u0069d":"A"}`, `the member "id" twice in one object`},
		{`{"id":"A","d":{"x":1},"d":{"x":1}}`, `the member "d" twice`},
		{`{"id":"A","x":"\ud800"}`, `lone surrogate \ud800 at byte 15`},
		{`{"id":"A","x":"\ude00\ud83d"}`, "surrogate"},
		{`{"id":"A","x":"\ud83d\u0041"}`, "surrogate"},
		{`{"id":"A","\uDBFF":1}`, "surrogate"},
		{"{\"id\":\"A\",\"x\":\"\xed\xa0\x80\"}", "UTF-8"},
		{"{\"id\":\"A\",\"\xc0\xaf\":1}", "UTF-8 at byte 11"},
		{"{\"id\":\"A\",\"x\":\"\xe8\xae", "cut off"},
		{`{"id":"A","x":"\ud83d`, "cut off"},
		{`{"id":"A"`, "cut off at byte 9"},
		{`{"id":"A"} {}`, "another one follows"},
		{`{"id":"A"}x`, "JSON"},
		{`{"id":"A",}`, "JSON"},
		{`{"id":"A","x":01}`, "JSON"},
		{`{"id":"A","x":NaN}`, "JSON"},
		{`{'id':'A'}`, "JSON"},
		{"{\"id\":\"A\tB\"}", "JSON"},
		{"\x00", "zero byte"},
		{"\x00\x00\x00\x01\x02{}", "schema id 258"},
		{strings.Repeat("[", 20000) + strings.Repeat("]", 20000), "JSON"},
	} {
		_, err := extractWith(t, replay.ExtractorConfig{Key: "id"}, replay.Record{Value: []byte(c.value), Timestamp: aTime()})
		var invalid *replay.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != "value" || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%.60q: want %q, got: %v", c.value, c.words, err)
		}
	}
}

// No byte of a message reaches an error text unescaped, and a long value does not fill the screen.
func TestInvalidErrorIsPrintable(t *testing.T) {
	t.Parallel()
	esc := "\\u001b[31m" + strings.Repeat("x", 1000)
	for _, c := range []struct{ key, value string }{
		{"id", `{"id":"A","at":"` + esc + `"}`},
		{"id", `{"id":"A","` + esc + `":1,"` + esc + `":1}`},
		{"id", "{\"id\":\"A\",\x1b[31m}"},
		{"id", `{"id":"A","at":"` + strings.Repeat("9", 1000) + `"}`},
	} {
		_, err := extractWith(t, replay.ExtractorConfig{Key: c.key, EventTime: "at"}, replay.Record{Value: []byte(c.value), Timestamp: aTime()})
		wantInvalid(t, err, "")
		if text := err.Error(); strings.ContainsRune(text, 0x1b) || len(text) > 300 {
			t.Errorf("the reason is %q", text)
		}
	}
}

// hazard R10: where the time comes from, and when the record's own stands in.
func TestExtractTimeSources(t *testing.T) {
	t.Parallel()
	record := aTime().Truncate(time.Millisecond)
	shanghai := loadZone(t, "Asia/Shanghai")
	day := time.Date(2026, 11, 10, 16, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		why, source, format, fallback, id, at string
		unset                                 bool
		want                                  time.Time
		business                              bool
		invalid                               string
	}{
		{why: "none configured", id: "A", want: record},
		{why: "record", source: "record", id: "A", want: record},
		{why: "record without a timestamp", source: "record", id: "A", unset: true, invalid: "record timestamp"},
		{why: "absent", source: "paid", id: "A", invalid: "paid is missing"},
		{why: "absent, with fallback", source: "paid", fallback: "record", id: "A", want: record},
		{why: "unreadable, with fallback", source: "at", fallback: "record", id: "A", at: `"soon"`, want: record},
		{why: "readable, with fallback", source: "at", fallback: "record", id: "A", at: `1794326400`, want: day, business: true},
		{why: "unset record, with fallback", source: "at", fallback: "record", id: "A", at: `"soon"`, unset: true, invalid: "record timestamp"},
		{why: "date in the key", source: "key:20060102", id: "20261111-8842", want: day, business: true},
		{why: "date after a prefix", source: "key:20060102", id: "ORD20261111000012", want: day, business: true},
		{why: "time in the key", source: "key:20060102150405", id: "CP-20261111000000-1", want: day, business: true},
		{why: "month in the key", source: "key:200601", id: "202612/5", want: time.Date(2026, 11, 30, 16, 0, 0, 0, time.UTC), business: true},
		{why: "leftmost date", source: "key:20060102", id: "7-20261111-20261212", want: day, business: true},
		{why: "no date of that layout first", source: "key:20060102", id: "20261399-20261111", want: day, business: true},
		{why: "date inside a number", source: "key:20060102", id: "1020261111", invalid: "no date of the layout 20060102"},
		{why: "date anchored by what precedes", source: "key:-20060102", id: "20250101-20261111", want: day, business: true},
		{why: "year 2612", source: "key:20060102", id: "26121111", invalid: "no date"},
		{why: "key too short", source: "key:20060102", id: "A", invalid: "no date"},
		{why: "no date, with fallback", source: "key:20060102", fallback: "record", id: "A", want: record},
		{why: "layout, digits as a number", source: "at", format: "20060102150405", id: "A", at: `20261111000000`, want: day, business: true},
		{why: "layout with an offset", source: "at", format: "2006-01-02T15:04:05-0700", id: "A", at: `"2026-11-10T18:00:00+0200"`, want: day, business: true},
		{why: "layout, other text", source: "at", format: "2006-01-02", id: "A", at: `"11.11.2026"`, invalid: "not a time of the layout"},
		{why: "layout, array", source: "at", format: "2006-01-02", id: "A", at: `[2026,11,11,0,0]`, invalid: "array"},
		{why: "object", source: "at", id: "A", at: `{}`, invalid: "at is an object"},
		{why: "boolean", source: "at", id: "A", at: `true`, invalid: "at is a boolean"},
		{why: "space and offset", source: "at", id: "A", at: `"2026-11-11 00:00:00+08:00"`, want: day, business: true},
		{why: "no seconds, as Java prints them when zero", source: "at", id: "A", at: `"2026-11-11T00:00"`, want: day, business: true},
		{why: "date alone", source: "at", id: "A", at: `"2026-11-11"`, invalid: "not a time"},
		{why: "hour 24", source: "at", id: "A", at: `"2026-11-10T24:00:00"`, invalid: "not a time"},
		{why: "second 60", source: "at", id: "A", at: `"2026-11-10T23:59:60"`, invalid: "not a time"},
		{why: "exponent", source: "at", id: "A", at: `1.7943264E9`, want: day, business: true},
		{why: "exponent, milliseconds", source: "at", id: "A", at: `17943264e5`, want: day, business: true},
		{why: "huge exponent", source: "at", id: "A", at: `1e999999999`, invalid: "at"},
		{why: "tiny", source: "at", id: "A", at: `1e-400`, invalid: "outside the years"},
		{why: "fraction is cut off", source: "at", id: "A", at: `1794326400.0009`, want: day, business: true},
		{why: "milliseconds with a fraction", source: "at", id: "A", at: `1794326400000.9`, want: day, business: true},
		{why: "empty text", source: "at", id: "A", at: `""`, invalid: "not a time"},
		{why: "array of four", source: "at", id: "A", at: `[2026,11,11,0]`, invalid: "5 to 7"},
		{why: "array of eight", source: "at", id: "A", at: `[2026,11,11,0,0,0,0,0]`, invalid: "5 to 7"},
		{why: "array with a fraction", source: "at", id: "A", at: `[2026,11,11,0,0,0.5]`, invalid: "5 to 7"},
		{why: "array with a text", source: "at", id: "A", at: `[2026,11,11,0,0,"0"]`, invalid: "5 to 7"},
		{why: "29 February of no leap year in an array", source: "at", id: "A", at: `[2026,2,29,0,0]`, invalid: "does not exist"},
	} {
		t.Run(c.why, func(t *testing.T) {
			t.Parallel()
			cfg := replay.ExtractorConfig{Key: "id", EventTime: c.source, EventTimeFormat: c.format, Fallback: c.fallback, Location: shanghai}
			rec := replay.Record{Value: fmt.Appendf(nil, `{"id":%q}`, c.id), Timestamp: aTime()}
			if c.at != "" {
				rec.Value = fmt.Appendf(nil, `{"id":%q,"at":%s}`, c.id, c.at)
			}
			if c.unset {
				rec.Timestamp = time.UnixMilli(-1)
			}
			item, err := extractWith(t, cfg, rec)
			if c.invalid != "" {
				wantInvalid(t, err, c.invalid)
				if item.OrderID != c.id {
					t.Errorf("the item of an invalid time has the key %q", item.OrderID)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !item.Time.Equal(c.want) || item.BusinessTime != c.business || item.Time.Location() != time.UTC {
				t.Errorf("the time is %v (business %v), want %v (%v)", item.Time, item.BusinessTime, c.want, c.business)
			}
		})
	}
}

// hazard R10: clocks that are put forward and back, over an hour, half an hour and a whole day.
func TestExtractLocalTimes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ zone, local, want string }{
		{"America/New_York", "2026-11-01 00:59:59", "2026-11-01T04:59:59Z"},
		{"America/New_York", "2026-11-01 01:00:00", "2026-11-01T05:00:00Z"},
		{"America/New_York", "2026-11-01 01:59:59", "2026-11-01T05:59:59Z"},
		{"America/New_York", "2026-11-01 02:00:00", "2026-11-01T07:00:00Z"},
		{"America/New_York", "2026-03-08 01:59:59", "2026-03-08T06:59:59Z"},
		{"America/New_York", "2026-03-08 02:00:00", ""},
		{"America/New_York", "2026-03-08 02:59:59", ""},
		{"America/New_York", "2026-03-08 03:00:00", "2026-03-08T07:00:00Z"},
		{"Australia/Lord_Howe", "2026-04-05 01:45:00", "2026-04-04T14:45:00Z"},
		{"Australia/Lord_Howe", "2026-10-04 02:15:00", ""},
		{"Pacific/Apia", "2011-12-30 12:00:00", ""},
		{"Pacific/Apia", "2011-12-31 00:00:00", "2011-12-30T10:00:00Z"},
		{"Asia/Kolkata", "2026-11-11 00:00:00", "2026-11-10T18:30:00Z"},
		{"UTC", "2026-11-11 00:00:00", "2026-11-11T00:00:00Z"},
	} {
		cfg := replay.ExtractorConfig{Key: "id", EventTime: "at", Location: loadZone(t, c.zone)}
		item, err := extractWith(t, cfg, replay.Record{Value: fmt.Appendf(nil, `{"id":1,"at":%q}`, c.local)})
		if c.want == "" {
			wantInvalid(t, err, "does not exist")
			continue
		}
		if got := item.Time.Format(time.RFC3339); err != nil || got != c.want {
			t.Errorf("%s in %s is %s (%v), want %s", c.local, c.zone, got, err, c.want)
		}
	}
}

func TestExtractArgs(t *testing.T) {
	t.Parallel()
	cfg := replay.ExtractorConfig{
		Key: "id", EventTime: "at", BizType: "COUPON",
		ArgPaths: []string{
			"id", "n", "big", "huge", "dec", "exp", "neg", "yes", "no", "nil", "text", "user.name", "_x", "n",
			"_order_id", "_biz_type", "_event_time", "_topic", "_partition", "_offset",
		},
	}
	value := `{"id":"A-1","at":1794326412345,"n":9007199254740993,"big":18446744073709551615,"huge":18446744073709551616,"dec":12.50,` +
		`"exp":1e2,"neg":-3,"yes":true,"no":false,"nil":null,"text":"\u4e2d\n","user":{"name":""},"_x":1}`
	item, err := extractWith(t, cfg, replay.Record{Topic: "order-paid", Partition: 3, Offset: 10233, Value: []byte(value)})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"id": "A-1", "n": int64(9007199254740993), "big": uint64(18446744073709551615), "huge": "18446744073709551616",
		"dec": "12.50", "exp": "1e2", "neg": int64(-3), "yes": true, "no": false, "nil": nil, "text": "中\n", "user.name": "", "_x": int64(1),
		"_order_id": "A-1", "_biz_type": "COUPON", "_event_time": time.UnixMilli(1794326412345).UTC(), "_topic": "order-paid",
		"_partition": int64(3), "_offset": int64(10233),
	}
	if item.Args.Len() != len(want) {
		t.Errorf("%d values, want %d", item.Args.Len(), len(want))
	}
	for name, w := range want {
		if got, ok := item.Args.Value(name); !ok || !reflect.DeepEqual(got, w) {
			t.Errorf("%s is %T %v (%v), want %T %v", name, got, got, ok, w, w)
		}
	}
	for _, name := range []string{"other", "user", ""} {
		if v, ok := item.Args.Value(name); ok {
			t.Errorf("%q has the value %v", name, v)
		}
	}
	for path, words := range map[string]string{
		"amount": "amount is missing; the effect needs it", "user.id": "user.id is missing", "user": "user is an object",
		"n.x": "n is a number", "list": "list is an array",
	} {
		cfg.ArgPaths = []string{path}
		_, err := extractWith(t, cfg, replay.Record{Value: []byte(strings.Replace(value, `"n"`, `"list":[],"n"`, 1))})
		wantInvalid(t, err, words)
	}
	if v, ok := replay.NewArgs(map[string]any{"a": nil}).Value("a"); !ok || v != nil {
		t.Errorf("a value of nil is %v, %v", v, ok)
	}
	if _, ok := (replay.Args{}).Value("a"); ok {
		t.Error("the zero Args has a value")
	}
}

func TestNewExtractorRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cfg     replay.ExtractorConfig
		setting string
	}{
		{replay.ExtractorConfig{}, "key"},
		{replay.ExtractorConfig{Key: "a..b"}, "key"},
		{replay.ExtractorConfig{Key: "a."}, "key"},
		{replay.ExtractorConfig{Key: ".a"}, "key"},
		{replay.ExtractorConfig{Key: `a\`}, "key"},
		{replay.ExtractorConfig{Key: `a\b`}, "key"},
		{replay.ExtractorConfig{Key: "header:"}, "key"},
		{replay.ExtractorConfig{Key: "value:"}, "key"},
		{replay.ExtractorConfig{Key: "id", EventTime: "key"}, "event_time"},
		{replay.ExtractorConfig{Key: "id", EventTime: "key:"}, "event_time"},
		{replay.ExtractorConfig{Key: "id", EventTime: "key:yyyyMMdd"}, "event_time"},
		{replay.ExtractorConfig{Key: "id", EventTime: "key:2006-1-2"}, "event_time"},
		{replay.ExtractorConfig{Key: "id", EventTime: "key:0102"}, "event_time"},
		{replay.ExtractorConfig{Key: "id", EventTime: "key:2006January02"}, "event_time"},
		{replay.ExtractorConfig{Key: "id", EventTime: "header:at"}, "event_time"},
		{replay.ExtractorConfig{Key: "id", EventTime: "a..b"}, "event_time"},
		{replay.ExtractorConfig{Key: "id", EventTimeFormat: "2006-01-02"}, "event_time_format"},
		{replay.ExtractorConfig{Key: "id", EventTime: "at", EventTimeFormat: "yyyy-MM-dd"}, "event_time_format"},
		{replay.ExtractorConfig{Key: "id", EventTime: "at", EventTimeFormat: "2006-01-02 03:04"}, "event_time_format"},
		{replay.ExtractorConfig{Key: "id", EventTime: "at", EventTimeFormat: "2006-01-02 15:04 MST"}, "event_time_format"},
		{replay.ExtractorConfig{Key: "id", EventTime: "at", EventTimeFormat: "15:04"}, "event_time_format"},
		{replay.ExtractorConfig{Key: "id", Fallback: "now"}, "fallback"},
		{replay.ExtractorConfig{Key: "id", Fingerprint: []string{"amount", ""}}, "fingerprint"},
		{replay.ExtractorConfig{Key: "id", ArgPaths: []string{"a..b"}}, "effect"},
	} {
		_, err := replay.NewExtractor(c.cfg)
		var ee *replay.ExtractorError
		if !errors.As(err, &ee) || ee.Setting != c.setting {
			t.Errorf("%+v: want a refusal of %s, got %v", c.cfg, c.setting, err)
		}
	}
}

// One extractor serves many goroutines, and what it gave stays what it was.
func TestExtractConcurrently(t *testing.T) {
	t.Parallel()
	x, err := replay.NewExtractor(replay.ExtractorConfig{Key: "id", EventTime: "at", Fingerprint: []string{"n"}, ArgPaths: []string{"s"}})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			items := make([]replay.Item, 200)
			for i := range items {
				var err error
				value := fmt.Appendf(nil, `{"id":"%d-%d","at":%d,"s":"\u0041%d","n":%d}`, g, i, 1794326400+i, i, g)
				if items[i], err = x.Extract(replay.Record{Value: value}); err != nil {
					t.Error(err)
				}
				clear(value) // a caller may reuse its buffer once it has the item's parts
			}
			for i, item := range items {
				s, _ := item.Args.Value("s")
				if item.OrderID != fmt.Sprintf("%d-%d", g, i) || item.Time.Unix() != int64(1794326400+i) || s != fmt.Sprintf("A%d", i) {
					t.Errorf("item %d of %d is %q %v %v", i, g, item.OrderID, item.Time, s)
				}
				if !bytes.Equal(item.Fingerprint, items[0].Fingerprint) {
					t.Error("the same content has two fingerprints")
				}
			}
		})
	}
	wg.Wait()
}

// Whatever the bytes: no panic; and what is accepted is JSON by another reader too, which finds the same key.
func FuzzExtract(f *testing.F) {
	for _, seed := range []string{
		`{"a":{"b":"A"}}`, `{"a":[{"b":1}]}`, `{"a":{"b":"\ud83d\ude00"},"a":1}`, "\xef\xbb\xbf{}", "", "\x00\x00\x00\x00\x01", `{"a":{"b":1e2}}x`,
		`{"a":{"b":"\ud800"}}`, `[[[`, `"`, `{"a":{"b":1794326400}}`,
	} {
		f.Add([]byte(seed))
	}
	x, err := replay.NewExtractor(replay.ExtractorConfig{Key: "a.b", EventTime: "a.b", Fallback: "record", Fingerprint: []string{"a"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		item, err := x.Extract(replay.Record{Value: value, Timestamp: aTime()})
		if err != nil {
			var invalid *replay.InvalidError
			if !errors.As(err, &invalid) || !utf8.ValidString(err.Error()) {
				t.Fatalf("%v", err)
			}
			return
		}
		dec := json.NewDecoder(strings.NewReader(strings.TrimPrefix(string(value), "\xef\xbb\xbf")))
		dec.UseNumber()
		var doc map[string]any // not a struct, whose members match in any case
		if err := dec.Decode(&doc); err != nil {
			t.Fatalf("accepted, but another reader says: %v", err)
		}
		inner, ok := doc["a"].(map[string]any)
		if !ok {
			t.Fatalf("accepted, but for another reader a is %v", doc["a"])
		}
		if got := fmt.Sprint(inner["b"]); got != item.OrderID {
			t.Fatalf("the key is %q, for another reader %q", item.OrderID, got)
		}
	})
}
