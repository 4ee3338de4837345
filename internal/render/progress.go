package render

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// PlainEvery is how often progress is written where there is no terminal: often enough to see that a nightly job lives,
// seldom enough for a log file.
const PlainEvery = 30 * time.Second

// refresh is how often a bar is drawn and a plain line is considered, also while nothing new is reported.
const refresh = 250 * time.Millisecond

// ProgressOptions shape a Progress.
type ProgressOptions struct {
	// W is where progress goes: the diagnostic stream, never the one of results.
	W io.Writer
	// Terminal draws a bar; otherwise a plain line is written every PlainEvery.
	Terminal bool
	// Quiet writes nothing at all.
	Quiet bool
	// Now is the clock.
	Now func() time.Time
	// Label says what goes on, in front of the numbers.
	Label string
	// Unit is what is counted: "records".
	Unit string
}

// Progress shows how far a job is. Its methods may be called from several goroutines.
type Progress struct {
	opts    ProgressOptions
	mu      sync.Mutex
	bar     *progressbar.ProgressBar
	started time.Time
	printed time.Time
	done    int64
	total   int64
	detail  string
	ended   bool
	stop    chan struct{}
	stopped chan struct{}
}

// NewProgress starts showing progress; Finish ends it and must be called.
func NewProgress(opts ProgressOptions) *Progress {
	p := &Progress{opts: opts, stop: make(chan struct{}), stopped: make(chan struct{})}
	p.started = opts.Now()
	p.printed = p.started
	if opts.Quiet {
		close(p.stopped)
		return p
	}
	go p.tickUntilStopped()
	return p
}

func (p *Progress) tickUntilStopped() {
	defer close(p.stopped)
	t := time.NewTicker(refresh)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			p.Tick()
		case <-p.stop:
			return
		}
	}
}

// Update says how far the job is: done of total (0: not known), and a detail such as a rate or what is being waited for.
func (p *Progress) Update(done, total int64, detail string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done, p.total, p.detail = done, total, detail
}

// Tick shows what Update said last, if it is time to. It is called by itself several times a second.
func (p *Progress) Tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || p.opts.Quiet {
		return
	}
	if p.opts.Terminal {
		p.draw()
		return
	}
	now := p.opts.Now()
	if now.Sub(p.printed) < PlainEvery {
		return
	}
	p.printed = now
	// Progress that cannot be written is no reason to end the job it is about.
	_, _ = io.WriteString(p.opts.W, p.plainLine(now)+"\n")
}

// Around clears the bar, runs write and leaves the bar to be drawn again: for whatever else writes to the terminal.
func (p *Progress) Around(write func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Clear()
	}
	write()
}

// Finish clears the bar, so that what follows starts on a line of its own (T3). Calling it again does nothing.
func (p *Progress) Finish() {
	p.mu.Lock()
	if p.ended {
		p.mu.Unlock()
		return
	}
	p.ended = true
	if p.bar != nil {
		_ = p.bar.Clear()
	}
	close(p.stop)
	p.mu.Unlock()
	<-p.stopped
}

func (p *Progress) draw() {
	total := p.total
	if total <= 0 {
		total = -1
	}
	if p.bar == nil {
		p.bar = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(p.opts.W),
			progressbar.OptionSetWidth(24), //nolint:mnd // leaves room for label, numbers and detail in 80 cells
			progressbar.OptionShowCount(),
			progressbar.OptionSetPredictTime(true),
			progressbar.OptionClearOnFinish(),
			progressbar.OptionEnableColorCodes(false),
		)
	}
	if p.bar.GetMax64() != total {
		p.bar.ChangeMax64(total)
	}
	label := Text(p.opts.Label)
	if p.detail != "" {
		label += " " + Text(p.detail)
	}
	p.bar.Describe(label)
	_ = p.bar.Set64(max(0, p.done))
}

func (p *Progress) plainLine(now time.Time) string {
	elapsed := now.Sub(p.started)
	line := fmt.Sprintf("%s: %d", Text(p.opts.Label), p.done)
	if p.total > 0 {
		line += fmt.Sprintf(" of %d", p.total)
	}
	if p.opts.Unit != "" {
		line += " " + p.opts.Unit
	}
	if p.total > 0 {
		line += fmt.Sprintf(" (%d%%)", percent(p.done, p.total))
	}
	line += " after " + elapsed.Round(time.Second).String()
	if p.detail != "" {
		line += ", " + Text(p.detail)
	}
	return line
}

func percent(done, total int64) int64 {
	const whole = 100
	return min(whole, int64(float64(done)/float64(total)*whole))
}
