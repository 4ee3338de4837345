package main

import (
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/idemctl/idemctl/internal/render"
	"github.com/idemctl/idemctl/pkg/purge"
)

// purgeResult is what `purge` says.
type purgeResult struct {
	Plan purge.Plan `json:"plan"`
	Risk replayRisk `json:"replay_risk"`
	// Report is missing where only the plan was asked for.
	Report *purge.Report `json:"report,omitempty"`
}

// textWidth is how wide a note is at most.
const textWidth = 80

func (r *purgeResult) render(opts *purgeOptions) render.Result {
	out := render.Result{Value: r}
	horizon := r.Plan.Horizon
	if r.Report != nil {
		out.Tables = append(out.Tables, r.reportTable())
		horizon = r.Report.Horizon
	} else {
		out.Tables = append(out.Tables, r.planTable())
	}
	if len(out.Tables[0].Rows) == 0 {
		out.Tables = nil
	}
	if len(horizon) > 0 {
		out.Tables = append(out.Tables, horizonTable(horizon))
	}
	var notes []string
	if r.Report != nil {
		notes = r.reportNotes(opts)
	} else {
		notes = r.planNotes()
	}
	for _, n := range notes {
		out.Notes = append(out.Notes, wrap(n, textWidth))
	}
	if r.Report != nil {
		out.Notes = append(out.Notes, archiveLines(r.Report)...)
	}
	return out
}

// archiveLines list the files, whose names are never broken.
func archiveLines(r *purge.Report) []string {
	var lines []string
	for i := range r.Months {
		m := &r.Months[i]
		if m.Archive == "" {
			continue
		}
		if len(lines) == 0 {
			lines = append(lines, "Archived in "+filepath.Dir(m.Archive)+":")
		}
		lines = append(lines, "  "+filepath.Base(m.Archive)+"  "+counted(m.ArchiveRows, "row"))
	}
	return lines
}

// planTable has a row for each window; what is kept whole is counted in a note.
func (r *purgeResult) planTable() render.Table {
	t := render.Table{Columns: []render.Column{
		{Name: "table", Shrink: true, Once: true}, {Name: "action", Once: true}, {Name: "expired from"}, {Name: "to"},
		{Name: "rows", Align: render.Right, Number: true},
	}}
	for i := range r.Plan.Months {
		m := &r.Plan.Months[i]
		if m.Action == purge.ActionKeep {
			continue
		}
		for _, w := range m.Windows {
			t.Add(m.Table.Name, string(m.Action), dayOf(w.From), dayOf(w.To), strconv.FormatInt(w.Rows, 10))
		}
		if len(m.Windows) == 0 {
			t.Add(m.Table.Name, string(m.Action), dayOf(time.Time{}), dayOf(time.Time{}), strconv.FormatInt(m.Rows, 10))
		}
	}
	return t
}

func (r *purgeResult) reportTable() render.Table {
	count := func(name string) render.Column {
		return render.Column{Name: name, Align: render.Right, Number: true}
	}
	t := render.Table{Columns: []render.Column{
		{Name: "table", Shrink: true}, {Name: "action"}, {Name: "outcome"}, count("planned"), count("deleted"), count("dropped"), count("skipped"),
	}}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	for i := range r.Report.Months {
		m := &r.Report.Months[i]
		if m.Outcome != purge.OutcomeKept {
			t.Add(m.Table.Name, string(m.Action), string(m.Outcome), number(m.Planned), number(m.Deleted), number(m.Dropped), number(m.Skipped))
		}
	}
	return t
}

func horizonTable(changes []purge.HorizonChange) render.Table {
	t := render.Table{Columns: []render.Column{
		{Name: "biz_type", Shrink: true}, {Name: "memory complete after (UTC)"}, {Name: "before"},
	}}
	for _, c := range changes {
		biz := c.BizType
		if biz == "" {
			biz = "(all)"
		}
		t.Add(biz, milliOf(c.After), milliOf(c.Before))
	}
	return t
}

func (r *purgeResult) planNotes() []string {
	kept, goes := 0, 0
	for i := range r.Plan.Months {
		if r.Plan.Months[i].Action == purge.ActionKeep {
			kept++
		} else {
			goes++
		}
	}
	notes := []string{fmt.Sprintf("Expired before %s UTC: %s in %s; %d kept whole.",
		r.Plan.Cutoff.Format(time.DateTime), counted(r.Plan.Rows, "row"), counted(int64(goes), "table"), kept)}
	for i := range r.Plan.Months {
		m := &r.Plan.Months[i]
		if m.Action == purge.ActionFinish {
			how := "a run that broke off left it renamed: it is checked again, then dropped"
			if m.PutBack {
				how = "a run that broke off left it renamed, and not all of it goes: it gets its name back"
			}
			notes = append(notes, m.Table.Name+": "+how+".")
		}
		notes = append(notes, tableNotes(m.Table.Name, m.Odd, m.Note)...)
	}
	notes = append(notes, r.Risk.notes()...)
	switch {
	case r.Plan.Rehearsal:
		notes = append(notes, "This is a rehearsal for another time; nothing was changed, and it cannot be executed.")
	case goes == 0:
		notes = append(notes, "Nothing to do.")
	default:
		notes = append(notes, "This is the plan; nothing was changed. Add --execute to do it.")
	}
	return notes
}

func tableNotes(table string, odd int64, note string) []string {
	var notes []string
	if odd > 0 {
		notes = append(notes, fmt.Sprintf("%s: %s created after the cutoff, by a wrong clock or business time: left alone.", table, counted(odd, "row")))
	}
	if note != "" {
		notes = append(notes, table+": "+note)
	}
	return notes
}

func (r *purgeResult) reportNotes(opts *purgeOptions) []string {
	rep := r.Report
	var notes []string
	for i := range rep.Months {
		m := &rep.Months[i]
		if m.Reason != "" {
			notes = append(notes, fmt.Sprintf("%s: %s: %s", m.Table.Name, m.Outcome, m.Reason))
		}
		if m.HeldAs != "" {
			notes = append(notes, fmt.Sprintf("%s: it waits as %s; the next run finishes or puts it back", m.Table.Name, m.HeldAs))
		}
		notes = append(notes, tableNotes(m.Table.Name, m.Odd, "")...)
	}
	notes = append(notes, r.Risk.notes()...)
	if rep.Skipped > 0 {
		notes = append(notes, fmt.Sprintf("Skipped %s: no longer expired, or gone, when they were to be deleted.", counted(rep.Skipped, "row")))
	}
	if rep.LagWaits > 0 {
		notes = append(notes, fmt.Sprintf("Waited %s for the replica, in %s.", rep.LagWaited.Round(time.Second), counted(rep.LagWaits, "pause")))
	}
	return append(notes, endedText(rep.Ended, opts), fmt.Sprintf("Deleted %s, dropped %s, in %s (%s a second).",
		counted(rep.Deleted, "row"), counted(rep.DroppedRows, "row"), rep.Elapsed.Round(time.Millisecond), counted(int64(rep.RowsPerSecond), "row")))
}

// endedText says why a run ended.
func endedText(e purge.Ended, opts *purgeOptions) string {
	switch e {
	case purge.EndedDone:
		return "Done: all that was planned."
	case purge.EndedDeferred:
		return "Incomplete: what was put off is left to the next run."
	case purge.EndedMaxRows:
		return fmt.Sprintf("Ended by --max-rows %d; the next run goes on.", opts.maxRows)
	case purge.EndedRunTime:
		return "Ended by --run-time " + opts.runTime.String() + "; the next run goes on."
	case purge.EndedStopFile:
		return "Ended by the stop file " + string(opts.stopFile) + ", which is still there; the next run goes on once it is removed."
	case purge.EndedInterrupted:
		return "Interrupted; the next run goes on."
	case purge.EndedLockLost:
		return "Stopped: the lock was lost; the next run goes on."
	case purge.EndedFailed:
	}
	return "Failed; what was done is above, the next run goes on."
}

// counted is a number with the word for what is counted: 1 row, 2 rows.
func counted(n int64, what string) string {
	text := groupDigits(n) + " " + what
	if n != 1 {
		text += "s"
	}
	return text
}
