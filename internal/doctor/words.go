package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

const day = 24 * time.Hour

// Short writes a duration for people, without the units that are zero: 2m, not 2m0s; days from two on.
func Short(d time.Duration) string {
	if d >= 2*day {
		return strings.TrimSuffix(fmt.Sprintf("%.1f", d.Hours()/24), ".0") + "d"
	}
	switch {
	case d >= time.Minute:
		d = d.Round(time.Second)
	case d >= time.Second:
		d = d.Round(100 * time.Millisecond) //nolint:mnd // a tenth of a second is as much as anyone reads
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// count is a number of things, in words.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
