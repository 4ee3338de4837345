package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func TestCount(t *testing.T) {
	t.Parallel()
	text := strings.Join([]string{
		`{"Action":"start","Package":"p"}`,
		`{"Action":"output","Package":"p","Test":"TestA/x","Output":"fine\n"}`,
		`{"Action":"pass","Package":"p","Test":"TestA/x"}`,
		`{"Action":"output","Package":"p","Test":"TestA/y","Output":"broken\n"}`,
		`{"Action":"fail","Package":"p","Test":"TestA/y"}`,
		`{"Action":"fail","Package":"p","Test":"TestA"}`,
		`{"Action":"pass","Package":"p","Test":"TestB"}`,
		`{"Action":"skip","Package":"p","Test":"TestC"}`,
		`{"Action":"pass","Package":"p","Test":"TestD/z"}`,
		`{"Action":"fail","Package":"p","Test":"TestD"}`,
		`{"Action":"fail","Package":"p"}`,
		`{"Action":"pass","Package":"q","Test":"TestA"}`,
		`{"Action":"skip","Package":"r"}`,
	}, "\n")
	var shown bytes.Buffer
	got, err := count(strings.NewReader(text), &shown)
	if err != nil {
		t.Fatal(err)
	}
	// Passed: A/x, B, D/z and q's A. Failed: A/y, and D by itself.
	if want := (tally{passed: 4, failed: 2, skipped: 1}); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
	if shown.String() != "broken\n" {
		t.Errorf("shown: %q, want what the failed test printed", shown.String())
	}
	if _, err := count(strings.NewReader("no JSON"), &shown); err == nil {
		t.Error("output that is no JSON is accepted")
	}
}

func TestTableAndVerdict(t *testing.T) {
	t.Parallel()
	servers := []string{"MariaDB 10.11.19", "Redis 7.0.15", "kfake (embedded)"}
	for _, c := range []struct {
		row    row
		result string
		code   int
	}{
		{row{tally: tally{passed: 3}}, "3 passed", 0},
		{row{tally: tally{passed: 3, skipped: 1}}, "3 passed, 1 skipped", 0},
		{row{tally: tally{passed: 3, failed: 1}}, "1 of 4 failed", exitFailed},
		{row{}, "no test", exitFailed},
		{row{err: errors.New("away")}, "not run", exitServer},
	} {
		c.row.servers = servers
		want := "| database | Redis | Kafka | conformance suites |\n|---|---|---|---|\n" +
			"| MariaDB 10.11.19 | Redis 7.0.15 | kfake (embedded) | " + c.result + " |\n"
		if got := table([]row{c.row}); got != want {
			t.Errorf("table:\n%s\nwant:\n%s", got, want)
		}
		if got := verdict([]row{c.row}); got != c.code {
			t.Errorf("%s: exit code %d, want %d", c.result, got, c.code)
		}
	}
}
