package render_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idemctl/idemctl/internal/render"
)

// screen is a writer that two goroutines may use, and a clock that only moves when told to.
type screen struct {
	mu   sync.Mutex
	text strings.Builder
	now  time.Time
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) Text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (s *screen) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *screen) Advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

// hazard T3: no bar in a log file, and a line every 30 s, also while nothing new happens.
func TestPlainProgress(t *testing.T) {
	t.Parallel()
	s := &screen{now: time.Date(2026, 11, 11, 0, 0, 0, 0, time.UTC)}
	p := render.NewProgress(render.ProgressOptions{W: s, Now: s.Now, Label: "replay order-paid", Unit: "records"})
	p.Update(10, 100, "5/s")
	p.Tick()
	if got := s.Text(); got != "" {
		t.Errorf("written at once: %q", got)
	}
	s.Advance(render.PlainEvery)
	p.Tick()
	p.Tick()
	want := "replay order-paid: 10 of 100 records (10%) after 30s, 5/s\n"
	if got := s.Text(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	s.Advance(render.PlainEvery) // and no Update: it still lives
	p.Tick()
	want += "replay order-paid: 10 of 100 records (10%) after 1m0s, 5/s\n"
	if got := s.Text(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	p.Update(11, 0, "")
	p.Finish()
	p.Finish()
	s.Advance(render.PlainEvery)
	p.Tick()
	if got := s.Text(); got != want {
		t.Errorf("written after the end: %q", got)
	}
}

// hazard T3: what follows the bar, or comes in between, stands on a line of its own.
func TestBar(t *testing.T) {
	t.Parallel()
	s := &screen{now: time.Date(2026, 11, 11, 0, 0, 0, 0, time.UTC)}
	p := render.NewProgress(render.ProgressOptions{W: s, Now: s.Now, Terminal: true, Label: "replay"})
	p.Update(10, 100, "")
	p.Tick()
	if got := s.Text(); !strings.Contains(got, "replay") || !strings.Contains(got, "10%") {
		t.Errorf("no bar: %q", got)
	}
	p.Around(func() { _, _ = s.Write([]byte("a log line\n")) })
	p.Update(100, 100, "")
	p.Tick()
	p.Finish()
	_, _ = s.Write([]byte("summary\n"))
	if strings.ContainsAny(s.Text(), "\x1b") {
		t.Errorf("colour or control codes: %q", s.Text())
	}
	var shown []string
	for line := range strings.SplitSeq(s.Text(), "\n") {
		shown = append(shown, strings.TrimRight(overwrite(line), " "))
	}
	if got, want := strings.Join(shown, "|"), "a log line|summary|"; got != want {
		t.Errorf("the terminal shows %q, want %q; written %q", got, want, s.Text())
	}
}

// overwrite is what a terminal shows of a line with carriage returns in it.
func overwrite(line string) string {
	var cells []rune
	at := 0
	for _, r := range line {
		if r == '\r' {
			at = 0
			continue
		}
		if at < len(cells) {
			cells[at] = r
		} else {
			cells = append(cells, r)
		}
		at++
	}
	return string(cells)
}

func TestQuietProgress(t *testing.T) {
	t.Parallel()
	s := &screen{now: time.Date(2026, 11, 11, 0, 0, 0, 0, time.UTC)}
	for _, terminal := range []bool{true, false} {
		p := render.NewProgress(render.ProgressOptions{W: s, Now: s.Now, Terminal: terminal, Quiet: true, Label: "replay"})
		p.Update(10, 100, "")
		s.Advance(render.PlainEvery)
		p.Tick()
		p.Finish()
	}
	if got := s.Text(); got != "" {
		t.Errorf("written: %q", got)
	}
}
