// Package doctor looks at a setup, its servers and its configuration, for what would lose orders or do them twice.
//
// A check is a value: a name, what it needs, and a function that reads and judges. It changes nothing anywhere. The caller
// owns the servers it is given; what several checks read is read once (Facts).
package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Status is what came of one check.
type Status string

// The statuses.
const (
	OK      Status = "ok"
	Warn    Status = "warn"    // it may cost something, or is known only in part
	Fail    Status = "fail"    // orders may be lost or done twice, or are held now
	Skipped Status = "skipped" // there is nothing to look at here: a server that is not configured, for example
	Unknown Status = "unknown" // it could not be looked at
)

// Statuses lists them in the order in which reports count them.
func Statuses() []Status { return []Status{OK, Warn, Fail, Skipped, Unknown} }

// Result is one check and what it found.
type Result struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	// Read is what was read, with its numbers; for Skipped and Unknown, why nothing was.
	Read string `json:"read"`
	// Why it matters for orders, and the command or setting that mends it. Empty where there is nothing to mend.
	Why  string `json:"why,omitempty"`
	Mend string `json:"mend,omitempty"`
}

// Server is something that a check must ask.
type Server string

// The servers.
const (
	MySQL Server = "MySQL"
	Redis Server = "Redis"
	Kafka Server = "Kafka"
)

// Check is one question.
type Check struct {
	// Name is short and stable: scripts name it. Group and subject, joined by a dot.
	Name string
	// About says in a few words what is looked at.
	About string
	// Needs are the servers without which there is nothing to look at; Uses those that it asks where they are there.
	Needs, Uses []Server
	// Run reads and judges. Name is filled in by the caller. An error means that the question could not be answered.
	Run func(ctx context.Context, f *Facts) (Result, error)
}

// Report is what all checks found.
type Report struct {
	Checks []Result       `json:"checks"`
	Counts map[Status]int `json:"counts"`
}

// Count is how many checks ended in a status.
func (r *Report) Count(s Status) int { return r.Counts[s] }

// Looked is how many checks were answered, well or badly.
func (r *Report) Looked() int { return r.Counts[OK] + r.Counts[Warn] + r.Counts[Fail] }

// checkTimeout bounds one check: a server that answers slowly must not keep the other answers back.
const checkTimeout = 30 * time.Second

// Run carries out checks, one after the other. The error is that of ctx, beside the report as far as it came.
func Run(ctx context.Context, f *Facts, checks []Check) (Report, error) {
	rep := Report{Checks: []Result{}, Counts: map[Status]int{}}
	for _, s := range Statuses() {
		rep.Counts[s] = 0
	}
	for _, c := range checks {
		res := f.run(ctx, c)
		if ctx.Err() != nil {
			return rep, ctx.Err()
		}
		rep.Checks = append(rep.Checks, res)
		rep.Counts[res.Status]++
	}
	return rep, nil
}

func (f *Facts) run(ctx context.Context, c Check) Result {
	res, able := f.able(c.Needs)
	if able {
		bounded, cancel := context.WithTimeout(ctx, checkTimeout)
		defer cancel()
		var err error
		if res, err = c.Run(bounded, f); err != nil {
			res = Result{Status: Unknown, Read: "could not be looked at: " + oneLine(err)}
		}
	}
	res.Name = c.Name
	return res
}

// Wants says whether a check asks a server at all.
func (c *Check) Wants(s Server) bool {
	return slices.Contains(c.Needs, s) || slices.Contains(c.Uses, s)
}

// able says whether what a check needs is there, and else what to report instead.
func (f *Facts) able(needs []Server) (Result, bool) {
	for _, s := range needs {
		configured, err := f.server(s)
		switch {
		case err != nil:
			return Result{Status: Unknown, Read: "could not be looked at: " + err.Error()}, false
		case !configured:
			return skipped("%s is not configured", s), false
		}
	}
	return Result{}, true
}

func ok(format string, args ...any) Result {
	return Result{Status: OK, Read: fmt.Sprintf(format, args...)}
}

func skipped(format string, args ...any) Result {
	return Result{Status: Skipped, Read: fmt.Sprintf(format, args...)}
}

// finding is a Warn or a Fail.
func finding(s Status, read, why, mend string) Result {
	return Result{Status: s, Read: read, Why: why, Mend: mend}
}

// mergedAtMost is how many findings of one check are told in full.
const mergedAtMost = 5

// merge makes one result of several findings: the worst status, each reason and each remedy once. Without a finding it is
// what was read otherwise.
func merge(well Result, findings []Result) Result {
	if len(findings) == 0 {
		return well
	}
	findings = slices.Clone(findings)
	slices.SortStableFunc(findings, func(a, b Result) int { return strings.Compare(string(a.Status), string(b.Status)) }) // fail comes first
	res := Result{Status: Warn}
	var reads, whys, mends []string
	for i, f := range findings {
		if f.Status == Fail {
			res.Status = Fail
		}
		if i < mergedAtMost {
			reads = append(reads, f.Read)
			whys, mends = addOnce(whys, f.Why), addOnce(mends, f.Mend)
		}
	}
	if more := len(findings) - mergedAtMost; more > 0 {
		reads = append(reads, fmt.Sprintf("and %d more", more))
	}
	res.Read, res.Why, res.Mend = strings.Join(reads, "; "), strings.Join(whys, " "), strings.Join(mends, "; ")
	return res
}

func addOnce(list []string, s string) []string {
	if s == "" || slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}
