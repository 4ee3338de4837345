package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// tally counts tests. A test that has subtests is counted by them.
type tally struct{ passed, failed, skipped int }

func (t tally) total() int { return t.passed + t.failed + t.skipped }

// event is a line of `go test -json`.
type event struct {
	Action  string `json:"Action"`
	Package string `json:"Package"`
	Test    string `json:"Test"`
	Output  string `json:"Output"`
}

type testID struct{ pkg, test string }

// count reads the output of `go test -json`, and writes to w what failed tests and packages have printed.
func count(r io.Reader, w io.Writer) (tally, error) {
	results, parents, printed := map[testID]string{}, map[testID]bool{}, map[testID][]string{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return tally{}, fmt.Errorf("reading go test's output: %w: %q", err, lines.Text())
		}
		id := testID{e.Package, e.Test}
		switch e.Action {
		case "output":
			printed[id] = append(printed[id], e.Output)
		case "pass", "fail", "skip":
			if e.Action == "fail" {
				for _, text := range printed[id] {
					if _, err := io.WriteString(w, text); err != nil {
						return tally{}, fmt.Errorf("showing a failed test: %w", err)
					}
				}
			}
			delete(printed, id)
			if e.Test == "" {
				continue // the package as a whole
			}
			results[id] = e.Action
			if i := strings.LastIndexByte(e.Test, '/'); i >= 0 {
				parents[testID{e.Package, e.Test[:i]}] = true
			}
		}
	}
	if err := lines.Err(); err != nil {
		return tally{}, fmt.Errorf("reading go test's output: %w", err)
	}
	var t tally
	for id, result := range results {
		switch {
		case result == "fail" && parents[id] && childFailed(results, id):
		case result == "fail":
			t.failed++
		case parents[id]:
		case result == "skip":
			t.skipped++
		default:
			t.passed++
		}
	}
	return t, nil
}

// childFailed reports that a failed test fails only by its subtests: it is counted by them. One that fails by itself, after
// its subtests have passed, counts.
func childFailed(results map[testID]string, parent testID) bool {
	for id, result := range results {
		if result == "fail" && id.pkg == parent.pkg && strings.HasPrefix(id.test, parent.test+"/") {
			return true
		}
	}
	return false
}
