package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/idemctl/idemctl/internal/render"
	"github.com/idemctl/idemctl/pkg/replay"
)

// listing writes one line a record as the run goes, if asked to, and the report at the end.
type listing struct {
	app    *app
	on     bool
	headed bool
}

func newListing(a *app, on bool) *listing { return &listing{app: a, on: on} }

// each is what the runner calls for every record; nil where nobody asked.
func (l *listing) each() func(replay.Line) error {
	if !l.on {
		return nil
	}
	return l.line
}

// listedColumns are those of --list. Widths are fixed, since lines are written before the next is known.
const listedFormat = "%-9s %10s  %-23s  %-15s  %s"

func (l *listing) line(line replay.Line) error {
	a := l.app
	switch a.flags.output {
	case render.FormatJSONL:
		return render.JSONLine(a.streams.Out, a.command, version(), line)
	case render.FormatTSV:
		return l.tsv(line)
	case render.FormatJSON, render.FormatTable:
	}
	if !l.headed {
		l.headed = true
		if _, err := fmt.Fprintf(a.streams.Out, listedFormat+"\n", "partition", "offset", "time (UTC)", "outcome", "key, and what executed it"); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(a.streams.Out, listedFormat+"\n", strconv.Itoa(int(line.Partition)), strconv.FormatInt(line.Offset, 10),
		line.Time.UTC().Format("2006-01-02 15:04:05.000"), line.Outcome, strings.TrimRight(render.Key([]byte(line.Key))+listedBy(&line), " "))
	return err
}

// listedBy says which record executed the key, or why nothing did.
func listedBy(line *replay.Line) string {
	switch {
	case line.By != nil && line.InRange:
		return " by " + place(line.By) + " (in range)"
	case line.By != nil:
		return " by " + place(line.By)
	case line.Reason != "":
		return ": " + render.Text(line.Reason)
	}
	return ""
}

func place(p *replay.Position) string {
	return fmt.Sprintf("%s[%d]@%d", p.Topic, p.Partition, p.Offset)
}

func (l *listing) tsv(line replay.Line) error {
	if !l.headed {
		l.headed = true
		if _, err := io.WriteString(l.app.streams.Out, "partition\toffset\ttime\tkey\toutcome\tby\treason\n"); err != nil {
			return err
		}
	}
	by := ""
	if line.By != nil {
		by = place(line.By)
	}
	cells := []string{strconv.Itoa(int(line.Partition)), strconv.FormatInt(line.Offset, 10), line.Time.UTC().Format(time.RFC3339Nano), line.Key, line.Outcome, by, line.Reason}
	for i, c := range cells {
		cells[i] = render.Text(c)
	}
	_, err := io.WriteString(l.app.streams.Out, strings.Join(cells, "\t")+"\n")
	return err
}

// finish prints the report. Beside listed lines in a format for programs it would be another kind of row: it goes to
// stderr there.
func (l *listing) finish(r *replay.Report) error {
	a := l.app
	if l.on && a.flags.output != render.FormatTable {
		_, err := fmt.Fprintln(a.streams.Err, replaySummary(r))
		return err
	}
	if l.on && l.headed {
		if _, err := io.WriteString(a.streams.Out, "\n"); err != nil {
			return err
		}
	}
	return a.Print(renderReplay(r))
}

func renderReplay(r *replay.Report) render.Result {
	t := render.Table{Columns: []render.Column{
		{Name: "partition"}, {Name: "range read"}, {Name: "outcome"}, {Name: "records", Align: render.Right}, {Name: "meaning", Shrink: true},
	}}
	for i := range r.Partitions {
		p := &r.Partitions[i]
		name, read := strconv.Itoa(int(p.Partition)), fmt.Sprintf("%d:%d", p.Start, p.Next)
		if p.Next < p.End {
			read += fmt.Sprintf(" of :%d", p.End)
		}
		rows := p.Outcomes.Rows()
		if len(rows) == 0 {
			t.Add(name, read, "-", "0", "no record")
		}
		for _, o := range rows {
			t.Add(name, read, o.Outcome, strconv.FormatInt(o.Count, 10), meaning(r.Mode, o.Outcome))
			name, read = "", ""
		}
	}
	if len(r.Partitions) > 1 {
		name := "all"
		for _, o := range r.Total.Outcomes.Rows() {
			t.Add(name, "", o.Outcome, strconv.FormatInt(o.Count, 10), meaning(r.Mode, o.Outcome))
			name = ""
		}
	}
	out := render.Result{Value: r, Lines: []any{r}, Tables: []render.Table{t}, Notes: replayNotes(r)}
	if examples := replayExamples(r); len(examples.Rows) > 0 {
		out.Tables = append(out.Tables, examples)
	}
	if r.Keys != nil && len(r.Keys.Top) > 0 {
		out.Tables = append(out.Tables, replayKeys(r.Keys))
	}
	return out
}

// meaning says in a few words what an outcome means for the orders.
func meaning(mode replay.Mode, outcome string) string {
	switch outcome {
	case replay.OutcomeWouldExecute:
		return "not done yet; execute would do it"
	case replay.OutcomeExecuted:
		return "done now, once"
	case replay.OutcomeAbsorbedFilter:
		return "duplicate; Redis and ledger agree"
	case replay.OutcomeAbsorbedLedger:
		if mode.Writes() {
			return "duplicate; the ledger has it"
		}
		return "duplicate, of the ledger or this range"
	case replay.OutcomeInFlight:
		return "another owner is at it; again later"
	case replay.OutcomeConflict:
		return "same key, other content; look at it"
	case replay.OutcomeOutsideHorizon:
		return "older than the ledger remembers"
	case replay.OutcomePhantom:
		return "Redis says done, the ledger does not"
	case replay.OutcomeInvalid:
		return "no usable key, time or value"
	case replay.OutcomeFailed:
		return "rolled back, nothing done"
	}
	return ""
}

// replayExamples shows some records of each outcome that wants someone to look.
func replayExamples(r *replay.Report) render.Table {
	t := render.Table{Title: "Examples", Columns: []render.Column{
		{Name: "record"}, {Name: "outcome"}, {Name: "key", Shrink: true}, {Name: "reason", Shrink: true},
	}}
	for _, e := range r.Examples {
		switch e.Outcome {
		case replay.OutcomeExecuted, replay.OutcomeWouldExecute, replay.OutcomeAbsorbedFilter, replay.OutcomeAbsorbedLedger:
			continue
		}
		key := ""
		if e.Key != "" {
			key = render.Key([]byte(e.Key))
		}
		t.Add(fmt.Sprintf("[%d]@%d", e.Partition, e.Offset), e.Outcome, key, e.Reason)
	}
	return t
}

func replayKeys(k *replay.KeyReport) render.Table {
	t := render.Table{Title: "Keys that came most often", Columns: []render.Column{
		{Name: "key", Shrink: true}, {Name: "times", Align: render.Right}, {Name: "again", Align: render.Right},
		{Name: "re-published", Align: render.Right}, {Name: "first to last", Align: render.Right}, {Name: "executed by", Shrink: true},
	}}
	for i := range k.Top {
		l := &k.Top[i]
		by := "-"
		if l.By != nil {
			by = fmt.Sprintf("[%d]@%d", l.By.Partition, l.By.Offset)
		}
		t.Add(render.Key([]byte(l.Key)), strconv.FormatInt(l.Deliveries, 10), strconv.FormatInt(l.Redelivered, 10), strconv.FormatInt(l.Republished, 10),
			(time.Duration(l.GapMS) * time.Millisecond).Round(time.Millisecond).String(), by)
	}
	return t
}

// replaySummary is the run in one line.
func replaySummary(r *replay.Report) string {
	s := fmt.Sprintf("%s of %s (%s), range %s: %d records in %s", r.Mode, r.Topic, r.BizType, r.Range, r.Total.Records,
		r.Finished.Sub(r.Started).Round(time.Millisecond))
	verb := "executed"
	if !r.Mode.Writes() {
		verb = "would execute"
	}
	s += fmt.Sprintf(": %d absorbed, %d %s", r.Total.Absorbed, r.Total.Executed, verb)
	if r.Total.Held > 0 {
		s += fmt.Sprintf(", %d held back", r.Total.Held)
	}
	if r.Total.Failed > 0 {
		s += fmt.Sprintf(", %d failed", r.Total.Failed)
	}
	return s
}

func replayNotes(r *replay.Report) []string {
	notes := []string{replaySummary(r)}
	if r.Total.Offsets == 0 {
		notes = append(notes, "The range is empty: there is nothing to read.")
	}
	if r.Total.InRange > 0 {
		notes = append(notes, fmt.Sprintf("%d of the duplicates repeat a record of this very range.", r.Total.InRange))
	}
	if k := r.Keys; k != nil {
		notes = append(notes, fmt.Sprintf("%d keys, %d of them more than once: %d records again, %d published again under another offset.",
			k.Keys, k.Repeated, k.Redelivered, k.Republished))
	}
	if r.Total.Filtered > 0 {
		notes = append(notes, fmt.Sprintf("%d records of other keys were left out.", r.Total.Filtered))
	}
	if r.Total.Degraded > 0 {
		notes = append(notes, fmt.Sprintf("Redis did not answer for %d records: the ledger decided alone.", r.Total.Degraded))
	}
	if r.Total.Clipped {
		notes = append(notes, "The topic has less than the range asked for; what there is was read.")
	}
	if r.Total.HeldBack > 0 {
		notes = append(notes, fmt.Sprintf("%d offsets are held back by an open transaction.", r.Total.HeldBack))
	}
	return append(notes, stopNotes(r)...)
}

// stopNotes say why the run ended early, and how to go on.
func stopNotes(r *replay.Report) []string {
	if r.Stop == replay.StopEnd {
		return nil
	}
	why := string(r.Stop)
	if r.StopReason != "" {
		why += ": " + r.StopReason
	}
	if r.StoppedAt != nil {
		why += " at " + place(r.StoppedAt)
	}
	notes := []string{"Stopped early (" + why + "). To go on:"}
	for _, left := range r.Resume() {
		notes = append(notes, fmt.Sprintf("  idemctl replay %s %s --mode %s", r.Topic, left, r.Mode))
	}
	return notes
}
