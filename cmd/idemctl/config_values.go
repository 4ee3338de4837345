package main

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
)

const day = 24 * time.Hour

var errDuration = errors.New("expected a duration such as 250ms, 2m, 24h or 30d")

// parseDuration reads Go's durations and, in front of them or alone, a number of days: 30d, 1d12h. A day is 24 hours. A
// number without a unit is refused: 30 might mean seconds to one reader and days to another.
func parseDuration(s string) (time.Duration, error) {
	days, rest, found := strings.Cut(s, "d")
	if !found {
		d, err := time.ParseDuration(s)
		if err != nil || s == "0" || s == "+0" || s == "-0" {
			return 0, fmt.Errorf("%q: %w", s, errDuration)
		}
		return d, nil
	}
	const maxDays = 100_000 // time.Duration ends at 106,751 days
	n, err := strconv.ParseUint(days, 10, 32)
	if err != nil || n > maxDays {
		return 0, fmt.Errorf("%q: %w", s, errDuration)
	}
	total := time.Duration(n) * day
	if rest == "" {
		return total, nil
	}
	d, err := time.ParseDuration(rest)
	if err != nil || d < 0 || d >= day || strings.HasPrefix(rest, "+") {
		return 0, fmt.Errorf("%q: %w", s, errDuration)
	}
	return total + d, nil
}

// formatDuration writes a duration as parseDuration reads it and people write it: 30d, 2m, 24h.
func formatDuration(d time.Duration) string {
	if d >= 2*day && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
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

// decoder turns a file's or a variable's value into a field's. It converts text to what the field is, and nothing else
// silently: a number where text is expected is refused, since `0123` and `1e3` do not come out as they were written.
func decoder(into *Config) *mapstructure.DecoderConfig {
	return &mapstructure.DecoderConfig{
		Result:     into,
		TagName:    "koanf",
		DecodeHook: mapstructure.ComposeDecodeHookFunc(durationHook, textHook),
	}
}

func durationHook(_, to reflect.Type, v any) (any, error) {
	if to != reflect.TypeFor[time.Duration]() || v == nil {
		return v, nil
	}
	s, ok := v.(string)
	if !ok {
		return nil, fmt.Errorf("%v has no unit: %w", v, errDuration)
	}
	return parseDuration(s)
}

// textHook reads lists (separated by commas), numbers and booleans from text, which is all that a variable can hold.
func textHook(_, to reflect.Type, v any) (any, error) {
	s, ok := v.(string)
	if !ok {
		return v, nil
	}
	switch to.Kind() { //nolint:exhaustive // the other kinds are taken as they are
	case reflect.Slice:
		var list []string
		for item := range strings.SplitSeq(s, ",") {
			if item = strings.TrimSpace(item); item != "" {
				list = append(list, item)
			}
		}
		return list, nil
	case reflect.Int:
		n, err := strconv.Atoi(s)
		if err != nil {
			return nil, fmt.Errorf("%q is not a whole number", s)
		}
		return n, nil
	case reflect.Bool:
		switch s {
		case "true", "false":
			return s == "true", nil
		}
		return nil, fmt.Errorf("%q is neither true nor false", s)
	}
	return v, nil
}
