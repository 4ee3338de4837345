package main

import (
	"bytes"
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
	again  string // the command line to go on with, but for partition and range
	headed bool
}

func newListing(a *app, on bool, again string) *listing {
	return &listing{app: a, on: on, again: again}
}

// each is what the runner calls for every record; nil where nobody asked.
func (l *listing) each() func(replay.Line) error {
	if !l.on {
		return nil
	}
	return l.line
}

// listedFormat are the columns of --list. Widths are fixed, since lines are written before the next is known.
const listedFormat = "%-12s  %-19s  %-15s  "

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
		if _, err := fmt.Fprintf(a.streams.Out, listedFormat+"%s\n", "record", "time (UTC)", "outcome", "key, and what executed it"); err != nil {
			return err
		}
	}
	head := fmt.Sprintf(listedFormat, offsetOf(&line.Position), line.Time.UTC().Format(time.DateTime), line.Outcome)
	_, err := fmt.Fprintln(a.streams.Out, strings.TrimRight(head+l.keyAndBy(&line, len(head)), " "))
	return err
}

// keyAndBy is a listed record's key, and which record executed it or why nothing did: cut to what a terminal's line has
// left, and whole where no terminal is, for those who search in it.
func (l *listing) keyAndBy(line *replay.Line, used int) string {
	const leastKey = 13
	key, by := "-", listedBy(line)
	if line.Key != "" {
		key = render.Key([]byte(line.Key))
	}
	if l.app.streams.Width == 0 {
		return key + by
	}
	left := max(l.app.streams.Width-used, 2*leastKey)
	return render.Cut(render.Cut(key, max(leastKey, left-len(by)))+by, left)
}

// listedBy says which record executed the key, or why nothing did.
func listedBy(line *replay.Line) string {
	switch {
	case line.By != nil && line.InRange:
		return " by " + offsetOf(line.By) + " in range"
	case line.By != nil && line.By.Topic != line.Topic:
		return " by " + place(line.By)
	case line.By != nil:
		return " by " + offsetOf(line.By)
	case line.Reason != "":
		return ": " + render.Text(line.Reason)
	}
	return ""
}

func place(p *replay.Position) string { return render.Text(p.Topic) + offsetOf(p) }

// offsetOf is a record where the topic is plain.
func offsetOf(p *replay.Position) string { return fmt.Sprintf("[%d]@%d", p.Partition, p.Offset) }

func (l *listing) tsv(line replay.Line) error {
	by := ""
	if line.By != nil {
		by = place(line.By)
	}
	t := render.Table{Columns: []render.Column{
		{Name: "partition"}, {Name: "offset"}, {Name: "time"}, {Name: "key"}, {Name: "outcome"}, {Name: "by"}, {Name: "reason"},
	}}
	t.Add(strconv.Itoa(int(line.Partition)), strconv.FormatInt(line.Offset, 10), line.Time.UTC().Format(time.RFC3339Nano), line.Key, line.Outcome, by, line.Reason)
	var row bytes.Buffer
	if err := t.WriteTSV(&row); err != nil {
		return err
	}
	if l.headed {
		_, _ = row.ReadBytes('\n') // the header, which stands there already
	}
	l.headed = true
	_, err := row.WriteTo(l.app.streams.Out)
	return err
}

// finish prints the report. Beside listed lines in a format for programs it would be another kind of row: its words go to
// stderr there, and so do those that TSV has no place for.
func (l *listing) finish(r *replay.Report) error {
	a := l.app
	if l.on && a.flags.output != render.FormatTable {
		return l.toStderr(replayNotes(r, l.again))
	}
	if l.on && l.headed {
		if _, err := io.WriteString(a.streams.Out, "\n"); err != nil {
			return err
		}
	}
	if err := a.Print(renderReplay(r, l.again)); err != nil || a.flags.output != render.FormatTSV {
		return err
	}
	return l.toStderr(stopNotes(r, l.again))
}

func (l *listing) toStderr(notes []string) error {
	for _, n := range notes {
		if _, err := fmt.Fprintln(l.app.streams.Err, render.Lines(n)); err != nil {
			return err
		}
	}
	return nil
}

func renderReplay(r *replay.Report, again string) render.Result {
	t := render.Table{Columns: []render.Column{
		{Name: "partition", Once: true}, {Name: "range read", Once: true}, {Name: "outcome"},
		{Name: "records", Align: render.Right, Number: true}, {Name: "meaning", Shrink: true},
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
			t.Add(name, read, o.Outcome, strconv.FormatInt(o.Count, 10), meaning(o.Outcome))
		}
	}
	if len(r.Partitions) > 1 {
		for _, o := range r.Total.Outcomes.Rows() {
			t.Add("all", "", o.Outcome, strconv.FormatInt(o.Count, 10), meaning(o.Outcome))
		}
	}
	out := render.Result{Value: r, Lines: []any{r}, Tables: []render.Table{t}, Notes: replayNotes(r, again)}
	if r.Keys != nil && len(r.Keys.Top) > 0 {
		out.Tables = append(out.Tables, replayKeys(r.Keys, r.Mode))
	}
	return out
}

// meaning says in a few words what an outcome means for the orders. They fit beside the numbers in 80 columns.
func meaning(outcome string) string {
	switch outcome {
	case replay.OutcomeWouldExecute:
		return "not done yet"
	case replay.OutcomeExecuted:
		return "done now, once"
	case replay.OutcomeAbsorbedFilter:
		return "duplicate, Redis agrees"
	case replay.OutcomeAbsorbedLedger:
		return "duplicate"
	case replay.OutcomeInFlight:
		return "another owner is at it"
	case replay.OutcomeConflict:
		return "same key, other content"
	case replay.OutcomeOutsideHorizon:
		return "before the ledger's memory"
	case replay.OutcomePhantom:
		return "marked done, not in ledger"
	case replay.OutcomeInvalid:
		return "no usable key or value"
	case replay.OutcomeFailed:
		return "rolled back, nothing done"
	}
	return ""
}

func replayKeys(k *replay.KeyReport, mode replay.Mode) render.Table {
	by := "executed by"
	if !mode.Writes() {
		by = "by" // it may be a record that execute would run
	}
	t := render.Table{Title: "Keys that came most often", Columns: []render.Column{
		{Name: "key", Shrink: true}, {Name: "times", Align: render.Right}, {Name: "again", Align: render.Right},
		{Name: "re-published", Align: render.Right}, {Name: "first to last", Align: render.Right}, {Name: by, Shrink: true},
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
