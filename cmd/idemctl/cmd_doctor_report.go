package main

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-sql-driver/mysql"

	"github.com/idemctl/idemctl/internal/doctor"
	"github.com/idemctl/idemctl/internal/metrics"
	"github.com/idemctl/idemctl/internal/render"
)

// The columns of a page of checks: status, name, and what was read. Why it matters and what mends it stand below, further
// left, since they are sentences.
const (
	doctorLine = "%-8s %-20s %s"
	doctorRead = 30
	doctorWhy  = 15
)

func doctorResult(rep *doctor.Report, strict bool, format render.Format) render.Result {
	if format == render.FormatTable {
		return render.Result{Notes: append(doctorPage(rep), "", wrap(doctorSummary(rep, strict), render.DefaultWidth))}
	}
	t := render.Table{Columns: []render.Column{{Name: "status"}, {Name: "check"}, {Name: "read"}, {Name: "why"}, {Name: "mend"}}}
	out := render.Result{Value: rep, Lines: []any{}}
	for i := range rep.Checks {
		r := &rep.Checks[i]
		t.Add(string(r.Status), r.Name, r.Read, r.Why, r.Mend)
		out.Lines = append(out.Lines, r)
	}
	out.Tables = []render.Table{t}
	return out
}

// doctorPage is the checks for people, within 80 columns.
func doctorPage(rep *doctor.Report) []string {
	page := []string{fmt.Sprintf(doctorLine, "status", "check", "what was read")}
	for i := range rep.Checks {
		r := &rep.Checks[i]
		page = append(page, fmt.Sprintf(doctorLine, r.Status, r.Name, hang(render.Text(r.Read), doctorRead)))
		for _, part := range []struct{ head, text string }{{"why", r.Why}, {"mend", r.Mend}} {
			if part.text != "" {
				page = append(page, fmt.Sprintf("%*s %s", doctorWhy-1, part.head, hang(render.Text(part.text), doctorWhy)))
			}
		}
	}
	return page
}

// hang wraps a text that begins at a column, and goes on there.
func hang(text string, column int) string {
	width := render.DefaultWidth - column
	return strings.ReplaceAll(wrap(breakWords(text, width), width), "\n", "\n"+strings.Repeat(" ", column))
}

// breakWords cuts words that are wider than a line: the list of an sql_mode, a path.
func breakWords(text string, width int) string {
	words := strings.Fields(text)
	for i, w := range words {
		if utf8.RuneCountInString(w) <= width {
			continue
		}
		var pieces []string
		for r := []rune(w); len(r) > 0; {
			n := min(width, len(r))
			if at := strings.LastIndexAny(string(r[:n]), ",/;"); at > 0 && n < len(r) {
				n = utf8.RuneCountInString(string(r[:n])[:at+1])
			}
			pieces, r = append(pieces, string(r[:n])), r[n:]
		}
		words[i] = strings.Join(pieces, " ")
	}
	return strings.Join(words, " ")
}

func doctorSummary(rep *doctor.Report, strict bool) string {
	var parts []string
	for _, s := range doctor.Statuses() {
		if n := rep.Count(s); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	text := count(int64(len(rep.Checks)), "check") + ": " + strings.Join(parts, ", ") + "."
	switch {
	case rep.Count(doctor.Unknown) > 0:
		text += " Not everything could be looked at."
	case strict && rep.Count(doctor.Fail) == 0 && rep.Count(doctor.Warn) > 0:
		text += " A warning is a finding (--strict)."
	}
	return text
}

// doctorMetrics writes how many checks ended how, and each check by itself.
func (a *app) doctorMetrics(rep *doctor.Report, path string, started time.Time, code int) error {
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	schema := "" // not configured: there is none
	if parsed, err := mysql.ParseDSN(cfg.Ledger.DSN); err == nil {
		schema = parsed.DBName
	}
	set := metrics.New(metrics.Label{Name: "command", Value: a.command},
		metrics.Label{Name: "schema", Value: schema}, metrics.Label{Name: "prefix", Value: cfg.Ledger.TablePrefix})
	set.Run(started, a.now(), code)
	for _, s := range doctor.Statuses() {
		set.Add("idemctl_doctor_checks", "How many checks ended with each status.", float64(rep.Count(s)), metrics.Label{Name: "status", Value: string(s)})
	}
	for i := range rep.Checks {
		r := &rep.Checks[i]
		set.Add("idemctl_doctor_check", "1 for the status that a check ended with.", 1,
			metrics.Label{Name: "check", Value: r.Name}, metrics.Label{Name: "status", Value: string(r.Status)})
	}
	return set.Write(path)
}
