package replay_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/idemctl/idemctl/pkg/replay"
)

// readCases reads the lines of a file of cases into values of type T.
func readCases[T any](t *testing.T, name string) []T {
	t.Helper()
	data, err := os.ReadFile(name)
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
	return cases
}

// atMost128 stands for the ledger's own check of an order id.
func atMost128(id string) error {
	if len(id) > 128 {
		return fmt.Errorf("%d bytes, at most 128", len(id))
	}
	return nil
}

// wantInvalid fails unless err is an *InvalidError whose text has the words.
func wantInvalid(t *testing.T, err error, words string) {
	t.Helper()
	if _, ok := errors.AsType[*replay.InvalidError](err); !ok {
		t.Fatalf("not invalid: %v", err)
	}
	if words != "" && !strings.Contains(err.Error(), words) {
		t.Errorf("the reason does not mention %q: %v", words, err)
	}
}

func aTime() time.Time { return time.Date(2026, 11, 11, 1, 2, 3, 456_789_000, time.UTC) }

// hazard R5, R9, R11: what is a key, and which values are no messages.
func TestExtractMessageCases(t *testing.T) {
	t.Parallel()
	type messageCase struct {
		Why      string  `json:"why"`
		KeyPath  string  `json:"key_path"`
		Value    *string `json:"value"`
		ValueHex *string `json:"value_hex"`
		Want     string  `json:"want"`
		WantKey  string  `json:"want_key"`
		Reason   string  `json:"reason_mentions"`
	}
	cases := readCases[messageCase](t, "testdata/messages.jsonl")
	if len(cases) != 38 {
		t.Errorf("the file has %d cases, not 38", len(cases))
	}
	for _, c := range cases {
		t.Run(c.Why, func(t *testing.T) {
			t.Parallel()
			x, err := replay.NewExtractor(replay.ExtractorConfig{Key: c.KeyPath, ValidateKey: atMost128})
			if err != nil {
				t.Fatal(err)
			}
			rec := replay.Record{Timestamp: aTime()}
			switch {
			case c.Value != nil:
				rec.Value = []byte(*c.Value)
			case c.ValueHex != nil:
				if rec.Value, err = hex.DecodeString(*c.ValueHex); err != nil {
					t.Fatal(err)
				}
			}
			before := bytes.Clone(rec.Value)
			item, err := x.Extract(rec)
			if !bytes.Equal(before, rec.Value) {
				t.Errorf("the value was changed to %q", rec.Value)
			}
			switch c.Want {
			case "invalid":
				if c.Reason == "" {
					t.Fatal("the case names no reason")
				}
				wantInvalid(t, err, c.Reason)
			case "executed":
				if err != nil || item.OrderID != c.WantKey {
					t.Errorf("the key is %q (%v), want %q", item.OrderID, err, c.WantKey)
				}
			default:
				t.Fatalf("unknown outcome %q", c.Want)
			}
		})
	}
}

// hazard R10: event times, to the millisecond, and the month they belong to.
func TestExtractTimeCases(t *testing.T) {
	t.Parallel()
	type timeCase struct {
		Why       string          `json:"why"`
		EventTime json.RawMessage `json:"event_time"`
		Format    string          `json:"event_time_format"`
		Zone      string          `json:"time_zone"`
		Want      string          `json:"want"`
		WantMonth string          `json:"want_month"`
		WantUTC   string          `json:"want_utc"`
	}
	cases := readCases[timeCase](t, "testdata/times.jsonl")
	if len(cases) != 27 {
		t.Errorf("the file has %d cases, not 27", len(cases))
	}
	for _, c := range cases {
		t.Run(c.Why, func(t *testing.T) {
			t.Parallel()
			zone := loadZone(t, c.Zone)
			cfg := replay.ExtractorConfig{Key: "id", EventTime: "at", EventTimeFormat: c.Format, Location: zone}
			value := fmt.Appendf(nil, `{"at":%s,"id":"A"}`, c.EventTime)
			item, err := extractWith(t, cfg, replay.Record{Value: value, Timestamp: aTime()})
			if c.Want == "invalid" {
				wantInvalid(t, err, "at ")
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want, err := time.Parse(time.RFC3339, c.WantUTC)
			if err != nil {
				t.Fatal(err)
			}
			if !item.Time.Equal(want) || item.Time.Location() != time.UTC || !item.BusinessTime {
				t.Errorf("the time is %v (business %v), want %v", item.Time, item.BusinessTime, want)
			}
			if got := item.Time.In(zone).Format("200601"); got != c.WantMonth {
				t.Errorf("the month is %s, want %s", got, c.WantMonth)
			}
		})
	}
}

func extractWith(t *testing.T, cfg replay.ExtractorConfig, rec replay.Record) (replay.Item, error) {
	t.Helper()
	x, err := replay.NewExtractor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return x.Extract(rec)
}
