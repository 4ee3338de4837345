package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/idemctl/idemctl/internal/render"
	"github.com/idemctl/idemctl/pkg/ledger/reconcile"
)

// reconcileResult is what `reconcile` says.
type reconcileResult struct {
	Report *reconcile.Report `json:"report"`
	// Commands say, by kind, what mends a finding or where to look next.
	Commands map[reconcile.Kind]string `json:"commands"`
	// Plan is missing without --fix, Fix without --execute.
	Plan *reconcile.FixPlan   `json:"plan,omitempty"`
	Fix  *reconcile.FixReport `json:"fix,omitempty"`
}

// left reports whether there is a fault that was not repaired. A marker that changed underneath is not what was found any
// more; one that Fix leaves alone is.
func (r *reconcileResult) left() bool {
	if r.Fix == nil {
		return r.Report.Found()
	}
	repaired := map[reconcile.Kind]bool{}
	for i := range r.Fix.Kinds {
		repaired[r.Fix.Kinds[i].Kind] = r.Fix.Kinds[i].Left == 0
	}
	for i := range r.Report.Findings {
		if f := &r.Report.Findings[i]; f.Severity != reconcile.Info && !repaired[f.Kind] {
			return true
		}
	}
	return false
}

func (r *reconcileResult) render(opts *reconcileOptions) render.Result {
	t := render.Table{Columns: []render.Column{
		{Name: "finding"}, {Name: "severity"}, {Name: "count", Align: render.Right, Number: true}, {Name: "means", Shrink: true},
	}}
	r.Commands = map[reconcile.Kind]string{}
	var notes []string
	for i := range r.Report.Findings {
		f := &r.Report.Findings[i]
		r.Commands[f.Kind] = mendCommand(f, opts.again)
		t.Add(string(f.Kind), string(f.Severity), strconv.FormatInt(f.Count, 10), inShort(f.Kind))
		notes = append(notes, findingNotes(f, r.Commands[f.Kind])...)
	}
	out := render.Result{Value: r, Lines: []any{r}, Notes: append(notes, r.summary()...)}
	if len(t.Rows) > 0 {
		out.Tables = append(out.Tables, t)
	}
	if r.Fix != nil {
		out.Tables = append(out.Tables, fixTable(r.Fix))
	}
	return out
}

// inShort says in a few words what a kind means. They fit beside the numbers in 80 columns.
func inShort(k reconcile.Kind) string {
	switch k {
	case reconcile.Phantom:
		return "marked done, not in ledger: dropped"
	case reconcile.Twice:
		return "more than one row: may have run twice"
	case reconcile.FingerprintMismatch:
		return "two contents of one key, both \"done\""
	case reconcile.ForeignLedger:
		return "marked done, not by this ledger"
	case reconcile.Stuck:
		return "a lease that does not end in time"
	case reconcile.Abandoned:
		return "its owner has died, no row"
	case reconcile.StaleProcessing:
		return "in the ledger, not marked done"
	case reconcile.Immortal:
		return "marked done for ever"
	case reconcile.OutlivesEntry:
		return "marked done beyond the entry's expiry"
	case reconcile.Malformed:
		return "no marker at all"
	case reconcile.AlienKey:
		return "not of the key template"
	case reconcile.Unremembered:
		return "older than the ledger's memory"
	case reconcile.Cold:
		return "in the ledger, marker lost"
	}
	return k.Means()
}

// mendCommand is what to type next about a finding.
func mendCommand(f *reconcile.Finding, again string) string {
	kinds := string(f.Kind)
	if f.Kind == reconcile.Abandoned {
		// This very look has touched the marker: how old it is may not be known any more, and it counts as stuck the next time.
		kinds += "," + string(reconcile.Stuck)
	}
	if f.Repair != "" {
		return "idemctl " + again + " --fix " + kinds + " --execute"
	}
	if f.Kind == reconcile.AlienKey || f.Kind == reconcile.Cold || len(f.Examples) == 0 {
		return ""
	}
	return "idemctl inspect " + asTyped(string(f.Examples[0].OrderID)) + " --biz-type " + f.Examples[0].BizType
}

const noteIndent = "  "

// findingNotes are a paragraph about one kind: what it means, a few keys, and the command.
func findingNotes(f *reconcile.Finding, command string) []string {
	notes := []string{wrap(fmt.Sprintf("%s: %s. %s.", f.Kind, count(f.Count, "key"), sentence(f.Means)), render.DefaultWidth)}
	for i := range f.Examples {
		notes = append(notes, noteIndent+render.Cut(exampleText(&f.Examples[i]), render.DefaultWidth-len(noteIndent)))
	}
	switch {
	case f.Repair != "":
		notes = append(notes, wrap("To "+f.Repair+":", render.DefaultWidth), noteIndent+command)
	case command != "":
		notes = append(notes, "To see all that is known of the first:", noteIndent+command)
	}
	return append(notes, "")
}

// sentence begins with a capital.
func sentence(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// exampleText is one key on one line.
func exampleText(e *reconcile.Example) string {
	const keyMost = 34
	key := render.Key([]byte(e.RedisKey)) // of an alien
	if e.BizType != "" {
		key = e.BizType + " " + render.Key([]byte(e.OrderID))
	}
	s := render.Cut(key, keyMost)
	if e.Value != "" {
		s += "  " + render.Text(string(e.Value))
	}
	if e.TTLMS != nil {
		ttl := "no TTL"
		if *e.TTLMS >= 0 {
			ttl = "TTL " + (time.Duration(*e.TTLMS) * time.Millisecond).Round(time.Second).String()
		}
		s += "  " + ttl
	}
	if len(e.Tables) > 1 {
		s += "  in " + strings.Join(e.Tables, ", ")
	}
	return s
}

func fixTable(r *reconcile.FixReport) render.Table {
	right := func(name string) render.Column {
		return render.Column{Name: name, Align: render.Right, Number: true}
	}
	t := render.Table{Title: "Repaired", Columns: []render.Column{
		{Name: "finding"}, right("applied"), right("changed meanwhile"), right("gone"), right("left alone"),
	}}
	for i := range r.Kinds {
		k := &r.Kinds[i]
		t.Add(string(k.Kind), strconv.FormatInt(k.Applied, 10), strconv.FormatInt(k.Changed, 10), strconv.FormatInt(k.Gone, 10), strconv.FormatInt(k.Left, 10))
	}
	return t
}

// summary says what was looked at, what was not, and what was done.
func (r *reconcileResult) summary() []string {
	rep := r.Report
	part := ""
	if rep.Sample < 100 { //nolint:mnd // percent
		part = fmt.Sprintf(" A sample of %v%% of the keys: the numbers are of those.", rep.Sample)
	}
	if len(rep.BizTypes) > 0 {
		part += " Only " + strings.Join(rep.BizTypes, ", ") + "."
	}
	if !rep.Since.IsZero() {
		part += " Only what was written since " + rep.Since.UTC().Format(time.RFC3339) + "."
	}
	notes := []string{fmt.Sprintf("Compared %s of %s with the ledger, and %s with Redis, in %s.%s",
		count(rep.KeysChecked, "key"), count(int64(len(rep.Masters)), "Redis master"), count(rep.RowsScanned, "row"),
		rep.Finished.Sub(rep.Started).Round(time.Millisecond), part)}
	if rep.Legacy {
		notes = append(notes, "A ledger made by someone else (ledger.columns). Not looked for, since it cannot be told:")
		for _, u := range rep.Untold {
			notes = append(notes, underneath(string(u.Kind)+": "+u.Why))
		}
	}
	if !rep.Complete {
		notes = append(notes, "Incomplete:")
		for _, g := range rep.Gaps {
			notes = append(notes, noteIndent+render.Text(g.Text))
		}
	} else if !rep.Found() {
		notes = append(notes, "Nothing is wrong.")
	}
	notes = append(notes, r.fixNotes()...)
	for i, n := range notes {
		if !strings.HasPrefix(n, noteIndent) {
			notes[i] = wrap(n, render.DefaultWidth)
		}
	}
	return notes
}

// underneath is a text of several lines under a heading.
func underneath(s string) string {
	lines := strings.Split(wrap(s, render.DefaultWidth-len(noteIndent)), "\n")
	return noteIndent + strings.Join(lines, "\n"+noteIndent)
}

func (r *reconcileResult) fixNotes() []string {
	switch {
	case r.Fix != nil && r.Fix.Undo != "":
		return []string{"To undo the repair:", noteIndent + "idemctl reconcile undo " + asTyped(r.Fix.Undo) + " --execute"}
	case r.Fix != nil:
		return []string{"Nothing was changed."}
	case r.Plan != nil:
		notes := []string{"The plan:"}
		for _, s := range r.Plan.Steps {
			notes = append(notes, fmt.Sprintf("%s%s: %s: %s", noteIndent, s.Kind, count(s.Count, "marker"), s.Repair))
		}
		return append(notes, "Nothing was changed. Add --execute to do it.")
	}
	return nil
}
