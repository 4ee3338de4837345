package partition_test

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/idemctl/idemctl/pkg/partition"
)

func location(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func month(t testing.TB, s string) partition.Month {
	t.Helper()
	m, err := partition.ParseMonth(s)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// hazard P1: months are numbers in a row; no day takes part.
func TestMonthArithmetic(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from string
		add  int
		want string
	}{
		{"2026-12", 1, "2027-01"},
		{"2027-01", -1, "2026-12"},
		{"2024-01", 1, "2024-02"},
		{"2024-02", 12, "2025-02"},
		{"2026-11", 14, "2028-01"},
		{"2000-01", 0, "2000-01"},
	} {
		if got := month(t, c.from) + partition.Month(c.add); got.String() != c.want {
			t.Errorf("%s %+d months = %s, want %s", c.from, c.add, got, c.want)
		}
	}
	// The 31st of January is in January, whatever a month later would be.
	last := time.Date(2026, 1, 31, 23, 59, 59, 0, time.UTC)
	if got := partition.MonthOf(last, time.UTC) + 1; got.String() != "2026-02" {
		t.Errorf("the month after that of %s is %s", last, got)
	}
}

// hazard P4
func TestParseMonth(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"2026-11", "202611"} {
		m := month(t, s)
		if m.String() != "2026-11" || m.Digits() != "202611" || m != partition.NewMonth(2026, time.November) {
			t.Errorf("%q is %s, %s", s, m, m.Digits())
		}
	}
	for _, s := range []string{
		"", "2026", "2026-13", "202613", "2026-00", "202600", "2026-1", "26-11", "1999-12", "2101-01", "2026-11-01", "2026-11 ", " 2026-11",
		"2026-11\n", "2026/11", "-2026-11", "+202611", "２０２６11", "2026--11", "--execute",
	} {
		if m, err := partition.ParseMonth(s); err == nil {
			t.Errorf("%q is taken for %s", s, m)
		}
	}
}

func TestMonthAsText(t *testing.T) {
	t.Parallel()
	b, err := json.Marshal(month(t, "2026-11"))
	if err != nil || string(b) != `"2026-11"` {
		t.Fatalf("%s, %v", b, err)
	}
	var m partition.Month
	if err := json.Unmarshal(b, &m); err != nil || m.String() != "2026-11" {
		t.Errorf("%s, %v", m, err)
	}
	if err := json.Unmarshal([]byte(`"202613"`), &m); err == nil {
		t.Error("202613 is taken for a month")
	}
	if m.String() != "2026-11" {
		t.Errorf("a refusal left %s behind", m)
	}
}

// hazard P1: boundaries are those of the configured zone, also where its clocks skip or repeat the midnight of a 1st.
func TestMonthBoundaries(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ zone, month, start, end string }{
		{"UTC", "2026-11", "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z"},
		{"UTC", "2026-12", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"UTC", "2024-02", "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z"},
		{"UTC", "2100-02", "2100-02-01T00:00:00Z", "2100-03-01T00:00:00Z"}, // no leap year
		{"Asia/Shanghai", "2026-11", "2026-10-31T16:00:00Z", "2026-11-30T16:00:00Z"},
		{"Asia/Kolkata", "2026-12", "2026-11-30T18:30:00Z", "2026-12-31T18:30:00Z"},
		{"America/New_York", "2026-11", "2026-11-01T04:00:00Z", "2026-12-01T05:00:00Z"},
		{"America/Asuncion", "2017-10", "2017-10-01T04:00:00Z", "2017-11-01T03:00:00Z"}, // 00:00 was skipped
		{"America/Asuncion", "2017-09", "2017-09-01T04:00:00Z", "2017-10-01T04:00:00Z"},
		{"America/Havana", "2026-11", "2026-11-01T04:00:00Z", "2026-12-01T05:00:00Z"}, // 00:00 to 01:00 comes twice
		{"Pacific/Apia", "2011-12", "2011-12-01T10:00:00Z", "2011-12-31T10:00:00Z"},   // the 30th was skipped
	} {
		loc, m := location(t, c.zone), month(t, c.month)
		if got := m.Start(loc).Format(time.RFC3339); got != c.start {
			t.Errorf("%s begins in %s at %s, want %s", m, c.zone, got, c.start)
		}
		if got := m.End(loc).Format(time.RFC3339); got != c.end {
			t.Errorf("%s ends in %s at %s, want %s", m, c.zone, got, c.end)
		}
	}
}

// hazard P1: every instant has one month, and a month is all that lies between its boundaries.
func TestMonthBoundariesHold(t *testing.T) {
	t.Parallel()
	zones := []string{
		"UTC", "Asia/Shanghai", "America/Asuncion", "America/Havana", "America/Sao_Paulo", "Asia/Amman", "Asia/Kathmandu", "Asia/Tehran",
		"Australia/Lord_Howe", "Europe/Berlin", "Pacific/Apia", "Pacific/Chatham",
	}
	locs := make([]*time.Location, len(zones))
	for i, z := range zones {
		locs[i] = location(t, z)
	}
	rapid.Check(t, func(t *rapid.T) {
		loc := rapid.SampledFrom(locs).Draw(t, "zone")
		m := partition.NewMonth(rapid.IntRange(2005, 2100).Draw(t, "year"), time.Month(rapid.IntRange(1, 12).Draw(t, "month")))
		start, end := m.Start(loc), m.End(loc)
		if got := partition.MonthOf(start, loc); got != m {
			t.Errorf("%s begins in %s", m, got)
		}
		if got := partition.MonthOf(start.Add(-1), loc); got != m-1 {
			t.Errorf("before %s comes %s", m, got)
		}
		if got := partition.MonthOf(end.Add(-1), loc); got != m {
			t.Errorf("%s ends in %s", m, got)
		}
		in := start.Add(time.Duration(rapid.Int64Range(0, int64(end.Sub(start))-1).Draw(t, "instant")))
		if got := partition.MonthOf(in, loc); got != m {
			t.Errorf("%s is in %s, not in %s", in, got, m)
		}
		if start.Location() != time.UTC {
			t.Errorf("the boundary is not in UTC: %s", start)
		}
	})
}
