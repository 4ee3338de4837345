package replay_test

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/idemctl/idemctl/pkg/replay"
)

// rangeNow and rangeZone are what the cases are read with.
func rangeNow() time.Time { return time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC) }

func rangeZone(tb testing.TB) *time.Location {
	tb.Helper()
	return loadZone(tb, "Asia/Shanghai")
}

func loadZone(tb testing.TB, name string) *time.Location {
	tb.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		tb.Fatalf("loading the zone %s: %v", name, err)
	}
	return loc
}

// Every line of the file is read, or refused with an error that names it and shows the forms.
func TestParseRangeCases(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/ranges.tsv")
	if err != nil {
		t.Fatal(err)
	}
	read, refused := 0, 0
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") {
			continue
		}
		input, meaning, _ := strings.Cut(line, "\t")
		if meaning != "refused" {
			read++
			r, err := replay.ParseRange(input, rangeNow(), rangeZone(t))
			if err != nil {
				t.Errorf("%q (%s): %v", input, meaning, err)
			}
			if got, want := r.Empty(), strings.HasPrefix(meaning, "nothing"); got != want {
				t.Errorf("%q (%s): empty is %v", input, meaning, got)
			}
			continue
		}
		refused++
		if input, err = strconv.Unquote(input); err != nil {
			t.Fatal(err)
		}
		_, err := replay.ParseRange(input, rangeNow(), rangeZone(t))
		if _, ok := errors.AsType[*replay.RangeSyntaxError](err); !ok {
			t.Errorf("%q was read: %v", input, err)
			continue
		}
		for _, want := range []string{strconv.Quote(input), "N:M", "@TIME"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("the error about %q does not show %s: %v", input, want, err)
			}
		}
	}
	if read != 16 || refused != 16 {
		t.Errorf("the file has %d ranges and %d refusals, not 16 of each", read, refused)
	}
}

func TestParseRangeMeaning(t *testing.T) {
	t.Parallel()
	start, end := replay.Bound{Kind: replay.BoundLogStart}, replay.Bound{Kind: replay.BoundLogEnd}
	offset := func(n int64) replay.Bound { return replay.Bound{Kind: replay.BoundOffset, N: n} }
	at := func(s string) replay.Bound {
		tm, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return replay.Bound{Kind: replay.BoundTime, Time: tm.UTC()}
	}
	for _, c := range []struct {
		in        string
		from, to  replay.Bound
		canonical string
	}{
		{"100", offset(100), end, "100"},
		{"0100", offset(100), end, "100"},
		{"100:", offset(100), end, "100"},
		{"100:200", offset(100), offset(200), "100:200"},
		{":200", start, offset(200), ":200"},
		{"9223372036854775807", offset(9223372036854775807), end, "9223372036854775807"},
		{"start", start, end, "start"},
		{"end", end, end, "end"},
		{"-500", replay.Bound{Kind: replay.BoundLast, N: 500}, end, "-500"},
		{"+500", start, replay.Bound{Kind: replay.BoundFirst, N: 500}, "+500"},
		{"@2026-11-11", at("2026-11-10T16:00:00Z"), end, "@2026-11-10T16:00:00Z"},
		{"@2026-11-11T00:00:00", at("2026-11-10T16:00:00Z"), end, "@2026-11-10T16:00:00Z"},
		{"@1794326412345", at("2026-11-10T16:00:12.345Z"), end, "@2026-11-10T16:00:12.345Z"},
		{"@1794326412", at("2026-11-10T16:00:12Z"), end, "@2026-11-10T16:00:12Z"},
		{"@-1h", at("2026-11-11T11:00:00Z"), end, "@2026-11-11T11:00:00Z"},
		{"@-1d12h", at("2026-11-10T00:00:00Z"), end, "@2026-11-10T00:00:00Z"},
		// A record's timestamp is at or after 12.3456 s exactly when it is at or after 12.346 s.
		{"@2026-11-11T00:00:12.3456Z", at("2026-11-11T00:00:12.346Z"), end, "@2026-11-11T00:00:12.346Z"},
		{"@2026-11-11T00:00:00+08:00:@2026-11-11T00:47:00+08:00", at("2026-11-10T16:00:00Z"), at("2026-11-10T16:47:00Z"), "@2026-11-10T16:00:00Z:@2026-11-10T16:47:00Z"},
		{"@2026-11-11T00:00:00+08:00:2026-11-11T00:47:00+08:00", at("2026-11-10T16:00:00Z"), at("2026-11-10T16:47:00Z"), "@2026-11-10T16:00:00Z:@2026-11-10T16:47:00Z"},
		{"@2026-11-11:2026-11-12", at("2026-11-10T16:00:00Z"), at("2026-11-11T16:00:00Z"), "@2026-11-10T16:00:00Z:@2026-11-11T16:00:00Z"},
		{"@1794326412:-1h", at("2026-11-10T16:00:12Z"), at("2026-11-11T11:00:00Z"), "@2026-11-10T16:00:12Z:@2026-11-11T11:00:00Z"},
		{"@-2h:@-1h", at("2026-11-11T10:00:00Z"), at("2026-11-11T11:00:00Z"), "@2026-11-11T10:00:00Z:@2026-11-11T11:00:00Z"},
	} {
		r, err := replay.ParseRange(c.in, rangeNow(), rangeZone(t))
		if err != nil {
			t.Errorf("%q: %v", c.in, err)
			continue
		}
		if r.From != c.from || r.To != c.to {
			t.Errorf("%q is %+v to %+v, want %+v to %+v", c.in, r.From, r.To, c.from, c.to)
		}
		if r.String() != c.canonical {
			t.Errorf("%q is written %q, want %q", c.in, r, c.canonical)
		}
	}
}

func TestParseRangeRefuses(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		":", "::", "100:-1", "-0", "+0", "-", "+", "start:", "start:end", "100:end", "100-200", "1_000", "+-1", "START",
		"@T", "@2026-11-11T00:00:00+08:00:", "@:@-1h", "@@-1h", "@-1h:@-2h", "@-h", "@--1h", "@-1d-1h", "@+1h", "@1h", "@-0",
		"@2026-02-29", "@2026-11-11T24:00:00Z", "@2026-11-11T00:00Z", "@1794326412345678", "@17943264", "@0", "@1999-12-31T00:00:00Z",
		"@-1000000h", "@2026-11-11 ", "@2026-11-12:@2026-11-11", "100\n", "100:200:", "@-9999999999d",
	} {
		if r, err := replay.ParseRange(in, rangeNow(), rangeZone(t)); err == nil {
			t.Errorf("%q was read as %s", in, r)
		}
	}
}

// A date whose midnight was skipped begins when the clock was put forward; a local time that was skipped does not exist.
func TestParseRangeSkippedMidnight(t *testing.T) {
	t.Parallel()
	beirut := loadZone(t, "Asia/Beirut") // 2024-03-31 began at 01:00
	r, err := replay.ParseRange("@2024-03-31", rangeNow(), beirut)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.String(); got != "@2024-03-30T22:00:00Z" {
		t.Errorf("the day begins at %s", got)
	}
	if r, err := replay.ParseRange("@2024-03-31T00:30:00", rangeNow(), beirut); err == nil {
		t.Errorf("half past midnight was read as %s", r)
	}
}

func FuzzParseRange(f *testing.F) {
	for _, seed := range []string{
		"100", "100:200", ":200", "start", "end", "-500", "+500", "@2026-11-11", "@-1h", "@-2d", "@1794326412345:@-1h",
		"@2026-11-11T00:00:00+08:00:@2026-11-11T00:47:00+08:00", "@2026-11-11 00:00:00.0001", "", "1:2:3", "@-1",
	} {
		f.Add(seed)
	}
	now, loc := rangeNow(), rangeZone(f)
	f.Fuzz(func(t *testing.T, in string) {
		r, err := replay.ParseRange(in, now, loc)
		if err != nil {
			var syntax *replay.RangeSyntaxError
			if !errors.As(err, &syntax) || syntax.Input != in {
				t.Fatalf("%q: %v", in, err)
			}
			return
		}
		// Read back with another now and zone: nothing relative is left.
		back, err := replay.ParseRange(r.String(), now.Add(time.Hour), time.UTC)
		if err != nil {
			t.Fatalf("%q is written %q, which is refused: %v", in, r, err)
		}
		if back != r {
			t.Fatalf("%q is written %q, which is read as %+v, not %+v", in, r, back, r)
		}
	})
}
