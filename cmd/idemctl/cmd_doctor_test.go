package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/idemctl/idemctl/internal/doctor"
)

func TestDoctorStatus(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		counts map[doctor.Status]int
		strict bool
		want   int
	}{
		{map[doctor.Status]int{doctor.OK: 9}, true, exitDone},
		{map[doctor.Status]int{doctor.OK: 9, doctor.Skipped: 3}, false, exitDone},
		{map[doctor.Status]int{doctor.Skipped: 3}, false, exitDone},
		{map[doctor.Status]int{doctor.OK: 9, doctor.Warn: 1}, false, exitDone},
		{map[doctor.Status]int{doctor.OK: 9, doctor.Warn: 1}, true, exitFinding},
		{map[doctor.Status]int{doctor.OK: 9, doctor.Fail: 1}, false, exitFinding},
		{map[doctor.Status]int{doctor.OK: 9, doctor.Fail: 1, doctor.Unknown: 1}, false, exitIncomplete},
		{map[doctor.Status]int{doctor.Warn: 1, doctor.Unknown: 1}, false, exitIncomplete},
		{map[doctor.Status]int{doctor.Skipped: 1, doctor.Unknown: 1}, false, exitFailure},
	} {
		if got := exitCode(doctorStatus(&doctor.Report{Counts: c.counts}, c.strict)); got != c.want {
			t.Errorf("%v, strict %v: %d, want %d", c.counts, c.strict, got, c.want)
		}
	}
}

func TestDoctorChecksByName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		only, skip []string
		want       string // the names, or a piece of the error
	}{
		{[]string{"mysql.binlog"}, nil, "mysql.binlog"},
		{[]string{"time", "config.key"}, nil, "time.clocks time.zones config.key"},
		{[]string{"time"}, []string{"time.zones"}, "time.clocks"},
		{[]string{"time"}, []string{"time"}, "--only and --skip leave no check"},
		{[]string{"mysql.bilnog"}, nil, `--only: there is no check "mysql.bilnog"; did you mean "mysql.binlog"?`},
		{nil, []string{"redsi"}, `--skip: there is no check "redsi"; did you mean "redis"?`},
		{nil, []string{"zzzzzzzz"}, "groups of them are ledger, mysql, redis, topic, time, config"},
	} {
		checks, err := (&doctorOptions{only: c.only, skip: c.skip}).checks()
		var names []string
		for i := range checks {
			names = append(names, checks[i].Name)
		}
		got := strings.Join(names, " ")
		if err != nil {
			if got = err.Error(); exitCode(err) != exitUsage {
				t.Errorf("%v: exit %d", err, exitCode(err))
			}
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%q %q: %s, want %s", c.only, c.skip, got, c.want)
		}
	}
	if all, err := (&doctorOptions{}).checks(); err != nil || len(all) != len(doctor.Checks()) {
		t.Errorf("%d checks, %v", len(all), err)
	}
}

// A page keeps to 80 columns, whatever was read.
func TestDoctorPage(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 200)
	rep := doctor.Report{Checks: []doctor.Result{
		{Name: "config.completed-ttl", Status: doctor.Unknown, Read: long + " " + strings.Repeat("STRICT_TRANS_TABLES,", 20)},
		{Name: "a", Status: doctor.Fail, Read: "a \x1b[2J key", Why: strings.Repeat("word ", 50), Mend: "/" + strings.Repeat("dir/", 60)},
	}}
	page := strings.Join(doctorPage(&rep), "\n")
	for line := range strings.Lines(page) {
		if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > 80 {
			t.Errorf("wider than 80: %s", line)
		}
	}
	if strings.Contains(page, "\x1b") {
		t.Error("a control byte reaches the terminal") // hazard T2
	}
	if squeezed := strings.NewReplacer(" ", "", "\n", "").Replace(page); !strings.Contains(squeezed, long) {
		t.Error("something was cut")
	}
}
