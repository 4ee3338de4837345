package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/internal/render"
	"github.com/idemctl/idemctl/pkg/replay"
)

// replaySummary is the run in one sentence.
func replaySummary(r *replay.Report) string {
	verb := "executed"
	if !r.Mode.Writes() {
		verb = "would execute"
	}
	s := fmt.Sprintf("%s of %s (%s), range %s: %s in %s: %d absorbed, %d %s", r.Mode, render.Text(r.Topic), r.BizType, r.Range,
		count(r.Total.Records, "record"), r.Finished.Sub(r.Started).Round(time.Millisecond), r.Total.Absorbed, r.Total.Executed, verb)
	if r.Total.Held > 0 {
		s += fmt.Sprintf(", %d held back", r.Total.Held)
	}
	if r.Total.Failed > 0 {
		s += fmt.Sprintf(", %d failed", r.Total.Failed)
	}
	return s + "."
}

// count is a number of things, in words.
func count(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func replayNotes(r *replay.Report, again string) []string {
	notes := []string{replaySummary(r)}
	if r.Total.Offsets == 0 {
		notes = append(notes, "The range is empty: there is nothing to read.")
	}
	if r.Total.InRange > 0 {
		notes = append(notes, fmt.Sprintf("%d of the duplicates repeat a record of this very range.", r.Total.InRange))
	}
	if k := r.Keys; k != nil {
		notes = append(notes, fmt.Sprintf("%s, %d of them more than once: %s again, %d published again under another offset.",
			count(k.Keys, "key"), k.Repeated, count(k.Redelivered, "record"), k.Republished))
	}
	if r.Total.Filtered > 0 {
		notes = append(notes, count(r.Total.Filtered, "record")+" of other keys left out.")
	}
	if r.Total.Degraded > 0 {
		notes = append(notes, fmt.Sprintf("Redis did not answer for %s: the ledger decided alone.", count(r.Total.Degraded, "record")))
	}
	if r.Total.Clipped {
		notes = append(notes, "The topic has less than the range asked for; what there is was read.")
	}
	if r.Total.HeldBack > 0 {
		notes = append(notes, count(r.Total.HeldBack, "offset")+" held back by an open transaction.")
	}
	for i, n := range notes {
		notes[i] = wrap(n, render.DefaultWidth)
	}
	return append(append(notes, stopNotes(r, again)...), exampleNotes(r)...)
}

// exampleNotes show some records of each outcome that wants someone to look, with the whole reason: it is what they came
// for.
func exampleNotes(r *replay.Report) []string {
	const indent, keyMost = "    ", 40
	var notes []string
	for i := range r.Examples {
		e := &r.Examples[i]
		switch e.Outcome {
		case replay.OutcomeExecuted, replay.OutcomeWouldExecute, replay.OutcomeAbsorbedFilter, replay.OutcomeAbsorbedLedger:
			continue
		}
		line := "  " + offsetOf(&e.Position) + " " + e.Outcome
		if e.Key != "" {
			line += " " + render.Cut(render.Key([]byte(e.Key)), keyMost)
		}
		if e.Reason != "" {
			line += ":\n" + indent + strings.ReplaceAll(wrap(render.Text(e.Reason), render.DefaultWidth-len(indent)), "\n", "\n"+indent)
		}
		notes = append(notes, line)
	}
	if len(notes) > 0 {
		notes = append([]string{"For example:"}, notes...)
	}
	return notes
}

// stopNotes say why the run left something out, and how to go on. The commands stand on lines of their own, to be copied.
func stopNotes(r *replay.Report, again string) []string {
	left := r.Resume()
	if r.Stop == replay.StopEnd && len(left) == 0 {
		return nil
	}
	why := "Not everything could be decided."
	if r.Stop != replay.StopEnd {
		if why = r.StopReason; why == "" {
			why = string(r.Stop)
		}
		if r.StoppedAt != nil {
			why += " at " + place(r.StoppedAt)
		}
		why = "Stopped early (" + render.Text(why) + ")."
	}
	if len(left) == 0 {
		return []string{wrap(why, render.DefaultWidth)}
	}
	notes := []string{wrap(why+" To go on:", render.DefaultWidth)}
	for _, l := range left {
		notes = append(notes, "  idemctl "+again+" "+l.String())
	}
	return notes
}

// againLine is the command line to go on with: as it was, but for the flags left out. Secrets are hidden in it.
func againLine(command string, args []string, fs *pflag.FlagSet, without ...string) string {
	words := strings.Fields(command)
	for _, arg := range args {
		words = append(words, asTyped(arg))
	}
	fs.Visit(func(f *pflag.Flag) {
		if slices.Contains(without, f.Name) {
			return
		}
		value := f.Value.String()
		switch {
		case f.Value.Type() == "bool" && value == "true":
			words = append(words, "--"+f.Name)
			return
		case f.Name == "dsn":
			value = mysqlx.Redact(value)
		case f.Name == "redis-url":
			value = redactURL(value)
		}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			value = strings.Join(list.GetSlice(), ",")
		}
		words = append(words, "--"+f.Name, asTyped(value))
	})
	return strings.Join(words, " ")
}
