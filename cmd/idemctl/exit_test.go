package main

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/internal/render"
	"github.com/idemctl/idemctl/pkg/replay"
)

func testResult() render.Result {
	t := render.Table{Columns: []render.Column{{Name: "biz_type"}}}
	t.Add("COUPON")
	return render.Result{Tables: []render.Table{t}}
}

func TestExitCode(t *testing.T) {
	t.Parallel()
	plain := errors.New("disk on fire")
	tests := map[string]struct {
		err  error
		want int
	}{
		"nothing":                        {nil, 0},
		"no status":                      {exitStatus(0), 0},
		"an unknown error":               {plain, 3},
		"a wrapped unknown error":        {fmt.Errorf("write: %w", plain), 3},
		"a finding":                      {exitStatus(exitFinding), 1},
		"usage":                          {usageErrorf("no"), 2},
		"usage made of a file error":     {usageErrorf("config: %w", os.ErrNotExist), 2},
		"wrapped usage":                  {fmt.Errorf("handler: %w", usageErrorf("no")), 2},
		"lock held":                      {fmt.Errorf("purge: %w", mysqlx.ErrLockHeld), 5},
		"a bad range":                    {fmt.Errorf("replay: %w", &replay.RangeSyntaxError{}), 2},
		"an unusable effect":             {&replay.EffectError{}, 2},
		"a bad mode":                     {&replay.ModeError{}, 2},
		"interrupted":                    {withStatus(exitInterrupted, errInterrupted), 130},
		"a status of its own holds":      {withStatus(exitIncomplete, plain), 4},
		"a status of nothing":            {withStatus(exitIncomplete, nil), 0},
		"interrupted before usage":       {errors.Join(usageErrorf("no"), errInterrupted), 130},
		"usage before could not":         {errors.Join(plain, usageErrorf("no")), 2},
		"could not before busy":          {errors.Join(mysqlx.ErrLockHeld, plain), 3},
		"busy before incomplete":         {errors.Join(exitStatus(exitIncomplete), mysqlx.ErrLockHeld), 5},
		"incomplete before finding":      {errors.Join(exitStatus(exitFinding), exitStatus(exitIncomplete)), 4},
		"finding before done":            {errors.Join(exitStatus(exitFinding), withStatus(exitDone, plain)), 1},
		"joined below a wrap":            {fmt.Errorf("run: %w", errors.Join(exitStatus(exitFinding), plain)), 3},
		"two verbs":                      {fmt.Errorf("%w: %w", exitStatus(exitFinding), exitStatus(exitIncomplete)), 4},
		"a panic":                        {withStatus(exitFailure, &panicError{value: "x"}), 3},
		"an unreachable server":          {&unreachableError{What: "Redis", Err: plain}, 3},
		"no answer is no interruption":   {&unreachableError{What: "Redis", Err: noAnswerError{1}}, 3},
		"a typed nil between two others": {errors.Join(nil, exitStatus(exitFinding), nil), 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := exitCode(tt.err); got != tt.want {
				t.Errorf("exitCode(%v) = %d, want %d", tt.err, got, tt.want)
			}
		})
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	plain := errors.New("disk on fire")
	tests := map[string]struct {
		err  error
		want string
	}{
		"nothing":                  {nil, ""},
		"a bare status":            {exitStatus(exitFinding), ""},
		"an error":                 {plain, "disk on fire"},
		"a status with words":      {withStatus(exitIncomplete, plain), "disk on fire"},
		"a status beside an error": {errors.Join(exitStatus(exitFinding), plain), "disk on fire"},
		"two errors":               {errors.Join(plain, usageErrorf("no")), "disk on fire; no"},
		"two verbs keep the text":  {fmt.Errorf("a %w b %w", plain, plain), "a disk on fire b disk on fire"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := words(tt.err); got != tt.want {
				t.Errorf("words(%v) = %q, want %q", tt.err, got, tt.want)
			}
		})
	}
}
