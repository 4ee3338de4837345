package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestFlags(t *testing.T) {
	t.Parallel()
	var errs bytes.Buffer
	o, err := parse([]string{"-run", "startup,guard_fresh", "-rounds", "2", "-seconds", "0.5"}, &errs)
	if err != nil {
		t.Fatal(err)
	}
	if !o.wants(startup) || !o.wants(guardFresh) || o.wants(replayVerify) || o.rounds != 2 || o.length != 500*time.Millisecond {
		t.Errorf("got %+v", o)
	}
	if o, err = parse(nil, &errs); err != nil || !o.wants(replayVerify) {
		t.Errorf("without -run: %+v, %v", o, err)
	}
	for _, args := range [][]string{
		{"-run", "guard_frehs"}, {"extra"}, {"-rounds", "0"}, {"-seconds", "0"}, {"-batchers", "0"}, {"-records", "10"}, {"-nothing"},
	} {
		errs.Reset()
		if _, err := parse(args, &errs); err == nil || errs.Len() == 0 {
			t.Errorf("%s was taken, or refused without a word", strings.Join(args, " "))
		}
	}
}
