package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/idemctl/idemctl/internal/testenv"
)

// everything is an environment in which there is nothing to start.
func everything(name string) string {
	switch name {
	case testenv.EnvMySQL, testenv.EnvRedis, testenv.EnvKafka:
		return "somewhere"
	}
	return ""
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{"--", "sh", "-c", "exit 7"}, 7},
		{[]string{"--", "true"}, 0},
		{[]string{"--"}, exitUsage},
		{[]string{"go", "test"}, exitUsage},
		{nil, exitUsage},
		{[]string{"--", "/no/such/program"}, exitServer},
	} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), c.args, &out, &errs, everything); code != c.code {
			t.Errorf("%q: exit code %d, want %d: %s", c.args, code, c.code, errs.String())
		}
		if out.Len() > 0 {
			t.Errorf("%q: it writes to the command's output: %q", c.args, out.String())
		}
	}
}

func TestWants(t *testing.T) {
	t.Parallel()
	only := func(vars map[string]string) string {
		var names []string
		for _, w := range wants(func(name string) string { return vars[name] }) {
			name := string(w.Kind)
			if w.Optional {
				name = "(" + name + ")"
			}
			names = append(names, name)
		}
		return strings.Join(names, ", ")
	}
	for _, c := range []struct {
		vars map[string]string
		want string
	}{
		{nil, "MariaDB, (MySQL), Redis, kfake (embedded), (Apache Kafka)"},
		{map[string]string{testenv.EnvRequireAll: "1"}, "MariaDB, MySQL, Redis, kfake (embedded), Apache Kafka"},
		{map[string]string{testenv.EnvMySQL: "x", testenv.EnvKafka: "y"}, "Redis"},
	} {
		if got := only(c.vars); got != c.want {
			t.Errorf("with %v it wants %s, should want %s", c.vars, got, c.want)
		}
	}
}
