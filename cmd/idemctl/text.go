package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/idemctl/idemctl/internal/render"
)

// byteSize writes a number of bytes for people.
func byteSize(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	v, units := float64(n), "KMGTP"
	i := -1
	for v >= unit && i < len(units)-1 {
		v /= unit
		i++
	}
	return fmt.Sprintf("%.1f %ciB", v, units[i])
}

// dayOf writes a time by its day; a zero time is a dash.
func dayOf(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.DateOnly)
}

// milliOf writes a time in UTC, to the millisecond as the ledger keeps it; a zero time is a dash.
func milliOf(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05.000")
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// asTyped is a word for a command line that can be typed as it is shown, whatever bytes it holds.
func asTyped(s string) string {
	if s != "" && strings.IndexFunc(s, notPlain) < 0 {
		return s
	}
	if shown := render.Key([]byte(s)); strings.HasPrefix(shown, "$'") && shown != s {
		return shown
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func notPlain(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_./:,@%+=-", r)
}

// wrap breaks a sentence into lines of at most width columns, at spaces. A longer word stays whole.
func wrap(s string, width int) string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(s) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}
	return strings.Join(append(lines, line), "\n")
}

// groupDigits writes 1234567 as 1,234,567.
func groupDigits(n int64) string {
	s := strconv.FormatInt(n, 10)
	var b strings.Builder
	for i, c := range s {
		if i > 0 && (len(s)-i)%3 == 0 && s[i-1] != '-' {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	return b.String()
}
