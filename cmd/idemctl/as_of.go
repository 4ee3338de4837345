package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
)

// asOfFlag is --as-of: the time that a command works with instead of the database's now. It is for rehearsals: what it
// shows is never executed.
type asOfFlag struct{ text string }

func (f *asOfFlag) addTo(fs *pflag.FlagSet) {
	fs.Var(f, "as-of", "rehearse as if it were `DATE`: a date in the ledger's zone, or RFC 3339; never with --execute")
}

func (f *asOfFlag) String() string { return f.text }

// Type implements pflag.Value.
func (f *asOfFlag) Type() string { return "date" }

// Set implements pflag.Value.
func (f *asOfFlag) Set(s string) error {
	if s == "" {
		return errors.New("the date is empty") // an unset variable must not mean now
	}
	f.text = s
	return nil
}

// The times that can be rehearsed are those that a ledger can have months of.
const (
	asOfFirst = 2000
	asOfLast  = 2100
)

// parse returns the time, UTC; zero where the flag is not given. A date is its midnight in loc.
func (f *asOfFlag) parse(loc *time.Location) (time.Time, error) {
	t, err := parseSince(f.text, loc)
	if err != nil {
		return t, usageErrorf("--as-of %w", err)
	}
	if y := t.In(loc).Year(); f.text != "" && (y < asOfFirst || y > asOfLast) {
		return t, usageErrorf("--as-of %s: expected a year from %d to %d", f.text, asOfFirst, asOfLast)
	}
	return t, nil
}

// refuse is the usage error of --as-of with --execute.
func (f *asOfFlag) refuse(execute bool) error {
	if f.text == "" || !execute {
		return nil
	}
	return usageErrorf("--as-of rehearses; it cannot be combined with --execute")
}

// asOfNote says under a result for which time it was made.
func asOfNote(t time.Time) string {
	return fmt.Sprintf("A rehearsal for %s: nothing was changed.", t.UTC().Format(time.RFC3339))
}
