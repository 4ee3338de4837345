package replay

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// oddZones have clocks that change at midnight, by half an hour, by a whole day, across the year's end, or by law at odd times.
func oddZones(tb testing.TB) []*time.Location {
	tb.Helper()
	var zones []*time.Location
	for _, name := range []string{
		"UTC", "Asia/Shanghai", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "America/Sao_Paulo", "Asia/Beirut",
		"America/Havana", "Africa/Casablanca", "Asia/Pyongyang", "America/Caracas", "Antarctica/Troll", "Asia/Kathmandu",
	} {
		loc, err := time.LoadLocation(name)
		if err != nil {
			tb.Fatalf("loading the zone %s: %v", name, err)
		}
		zones = append(zones, loc)
	}
	return zones
}

func civilOf(t time.Time) civil {
	return civil{year: t.Year(), month: int(t.Month()), day: t.Day(), hour: t.Hour(), minute: t.Minute(), second: t.Second(), nano: t.Nanosecond()}
}

// firstByTrial tries every offset in force within two days of the wall time.
func firstByTrial(c civil, loc *time.Location) (first time.Time, found bool) {
	wall := c.asUTC()
	for d := -48 * time.Hour; d <= 48*time.Hour; d += 15 * time.Minute {
		_, offset := wall.Add(d).In(loc).Zone()
		t := wall.Add(-time.Duration(offset) * time.Second)
		if civilOf(t.In(loc)) == c && (!found || t.Before(first)) {
			first, found = t, true
		}
	}
	return first, found
}

// hazard R10: a local time is the first instant with that reading of the clock, or none.
func TestCivilInstantByTrial(t *testing.T) {
	t.Parallel()
	zones := oddZones(t)
	rapid.Check(t, func(t *rapid.T) {
		loc := rapid.SampledFrom(zones).Draw(t, "zone")
		at := time.Unix(rapid.Int64Range(946684800, 2145916800).Draw(t, "at"), 0).In(loc)
		// Close to a change of the clock, where there is one.
		if _, end := at.ZoneBounds(); !end.IsZero() && rapid.Bool().Draw(t, "at a change") {
			at = end.Add(time.Duration(rapid.IntRange(-180, 180).Draw(t, "minutes")) * time.Minute)
		}
		_, offset := at.Zone()
		c := civilOf(at.In(time.FixedZone("", offset+60*rapid.SampledFrom([]int{0, 0, 30, 60, -60, 720}).Draw(t, "shift"))))
		want, exists := firstByTrial(c, loc)
		got, err := c.instant(loc)
		if exists != (err == nil) || (exists && !got.Equal(want)) {
			t.Fatalf("%+v in %s is %v (%v), want %v (%v)", c, loc, got, err, want, exists)
		}
		if err != nil && !errors.Is(err, errNoSuchHour) {
			t.Fatal(err)
		}
	})
}

func TestStartOfDayIsItsFirstInstant(t *testing.T) {
	t.Parallel()
	for _, loc := range oddZones(t) {
		for day := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC); day.Year() < 2030; day = day.AddDate(0, 0, 1) {
			got := startOfDay(civilOf(day), loc).In(loc)
			date, before := got.Format(time.DateOnly), got.Add(-1).Format(time.DateOnly)
			// A date that a zone left out begins with the next one.
			if want := day.Format(time.DateOnly); date < want || before >= want {
				t.Errorf("%s in %s begins at %v", want, loc, got)
			}
		}
	}
}
