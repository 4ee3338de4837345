package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestLineForMachines(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	b := &bench{out: &out, opts: options{rounds: 3, length: time.Second, batchers: 4}}
	if err := b.report(guardFresh, 60_000.4, 2_400); err != nil {
		t.Fatal(err)
	}
	if want := "BENCH name=guard_fresh ours=60000 rival=2400 ratio=25.00 unit=msg/s\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	if err := b.report("nobody", 1, 1); err == nil {
		t.Error("a line that is not in the list was taken")
	}
}

func TestMetSaysWhichSideOfTheRatioIsGood(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name        string
		ours, rival float64
		want        string
		met         bool
	}{
		{guardFresh, 20, 1, "≥ 20", true},
		{guardFresh, 19.9, 1, "≥ 20", false},
		{replayMemory, 110, 100, "≤ 1.1", true},
		{replayMemory, 120, 100, "≤ 1.1", false},
		{startup, 3, 1, "≤ 3", true},
		{startup, 3.1, 1, "≤ 3", false},
	} {
		for _, l := range lines() {
			if l.name != tt.name {
				continue
			}
			r := result{line: l, oursValue: tt.ours, rivalValue: tt.rival}
			if r.met() != tt.met || r.want() != tt.want {
				t.Errorf("%s %v/%v: met %t, want %q", tt.name, tt.ours, tt.rival, r.met(), r.want())
			}
		}
	}
}

func TestTableKeepsTheListsOrderAndThePagesWidth(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	b := &bench{out: &out, opts: options{rounds: 3, length: time.Second, batchers: 4}}
	for _, name := range []string{startup, guardDuplicateLedger, guardFresh} { // as they are measured, not as they are shown
		if err := b.report(name, 123_456, 1_234_567); err != nil {
			t.Fatal(err)
		}
	}
	out.Reset()
	if err := b.table(); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	first, second, third := strings.Index(text, guardFresh), strings.Index(text, guardDuplicateLedger), strings.Index(text, startup)
	if first < 0 || second < first || third < second {
		t.Errorf("out of order:\n%s", text)
	}
	for line := range strings.Lines(text) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if strings.Contains(text, "…") {
		t.Errorf("cut:\n%s", text)
	}
}
