package replay

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeSource is a topic in memory. With step set it reads its partitions in turn from one goroutine, step records at a time;
// else each from a goroutine of its own.
type fakeSource struct {
	records map[int32][]Record
	ends    map[int32]int64 // where it lies behind the last record
	step    int
	heldBy  int64
	err     error // ends Read at its end
	early   bool  // ends Read before the end, without a word
	// ended is closed when a partition has ended a Read of several goroutines.
	ended chan struct{}
}

func (s *fakeSource) end(p int32) int64 {
	end := s.ends[p]
	if rs := s.records[p]; len(rs) > 0 {
		end = max(end, rs[len(rs)-1].Offset+1)
	}
	return end
}

func (s *fakeSource) Resolve(_ context.Context, topic string, partitions []int32, r Range) ([]Bounds, error) {
	if len(partitions) == 0 {
		for p := range s.records {
			partitions = append(partitions, p)
		}
	}
	logs := make([]PartitionLog, 0, len(partitions))
	for _, p := range partitions {
		logs = append(logs, PartitionLog{Partition: p, HighWatermark: s.end(p), LastStable: s.end(p)})
	}
	bounds, err := r.Resolve(topic, logs)
	if err == nil && s.heldBy > 0 {
		bounds[0].HeldBack = s.heldBy
	}
	return bounds, err
}

func (s *fakeSource) Read(ctx context.Context, _ string, bounds []Bounds, fn func(context.Context, Batch) error) error {
	if s.step > 0 {
		return s.readInTurn(ctx, bounds, fn)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	var once sync.Once
	for _, b := range bounds {
		group.Go(func() {
			if err := s.readOne(ctx, b, fn); err != nil {
				cancel(err)
				if s.ended != nil {
					once.Do(func() { close(s.ended) })
				}
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}

func (s *fakeSource) within(b Bounds) []Record {
	var out []Record
	for _, r := range s.records[b.Partition] {
		if r.Offset >= b.Start && r.Offset < b.End {
			out = append(out, r)
		}
	}
	return out
}

func (s *fakeSource) readOne(ctx context.Context, b Bounds, fn func(context.Context, Batch) error) error {
	return fn(ctx, Batch{Partition: b.Partition, Records: s.within(b), Next: b.End})
}

func (s *fakeSource) readInTurn(ctx context.Context, bounds []Bounds, fn func(context.Context, Batch) error) error {
	left := map[int32][]Record{}
	for _, b := range bounds {
		left[b.Partition] = s.within(b)
	}
	for open := true; open; {
		open = false
		for _, b := range bounds {
			if err := ctx.Err(); err != nil {
				return err
			}
			rs := left[b.Partition]
			if rs == nil {
				continue
			}
			open = true
			batch := Batch{Partition: b.Partition, Records: rs, Next: b.End}
			left[b.Partition] = nil
			if len(rs) > s.step {
				batch.Records = rs[:s.step]
				batch.Next = rs[s.step-1].Offset + 1
				left[b.Partition] = rs[s.step:]
			} else if s.early {
				return nil
			}
			if err := fn(ctx, batch); err != nil {
				return err
			}
		}
	}
	// A partition without records still has its end.
	for _, b := range bounds {
		if len(s.within(b)) == 0 {
			if err := fn(ctx, Batch{Partition: b.Partition, Next: b.End}); err != nil {
				return err
			}
		}
	}
	return s.err
}

// topicOf makes a partition's records from their keys; an empty key leaves a gap in the offsets.
func topicOf(partition int32, keys ...string) []Record {
	rs := make([]Record, 0, len(keys))
	for i, k := range keys {
		if k == "" {
			continue
		}
		rs = append(rs, Record{
			Topic: "orders", Partition: partition, Offset: int64(i), Value: []byte(k),
			Timestamp: time.Date(2026, 11, 11, 0, 0, i, 0, time.UTC),
		})
	}
	return rs
}

// fakeExtractor takes the value for the key: up to a slash, behind which the fingerprint stands. "bad…" has no usable time,
// "broken" is an error of another kind.
type fakeExtractor struct{}

var errBroken = errors.New("broken extractor")

func (fakeExtractor) Extract(r Record) (Item, error) {
	key, content, _ := strings.Cut(string(r.Value), "/")
	item := Item{Record: r, OrderID: key, Time: r.Timestamp}
	if content != "" {
		item.Fingerprint = []byte(content)
	}
	switch {
	case strings.HasPrefix(key, "bad"):
		return item, &InvalidError{Field: "paidAt", Reason: "is missing"}
	case key == "broken":
		return item, errBroken
	}
	return item, nil
}

// fakeLedger executes each key once. A verdict of script comes first, one per call, the last of them for good.
type fakeLedger struct {
	mode    Mode
	mu      sync.Mutex
	rows    map[string]Position
	runs    map[string]int
	script  map[string][]Verdict
	handled []Position
	pages   []int
	before  func(call int) error // an error is the page's
	calls   int
}

func (l *fakeLedger) Handle(_ context.Context, items []Item) ([]Verdict, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	l.pages = append(l.pages, len(items))
	if l.before != nil {
		if err := l.before(l.calls); err != nil {
			return nil, err
		}
	}
	out := make([]Verdict, 0, len(items))
	for i := range items {
		l.handled = append(l.handled, *position(&items[i].Record))
		v := l.decide(&items[i])
		out = append(out, v)
		if v.Stop != nil {
			break
		}
	}
	return out, nil
}

func (l *fakeLedger) decide(item *Item) Verdict {
	if vs := l.script[item.OrderID]; len(vs) > 0 {
		if len(vs) > 1 {
			l.script[item.OrderID] = vs[1:]
		}
		if vs[0].Outcome != "" {
			return vs[0]
		}
	}
	if by, ok := l.rows[item.OrderID]; ok {
		return Verdict{Outcome: OutcomeAbsorbedLedger, Class: Absorbed, By: &by}
	}
	if l.mode != ModeExecute {
		return Verdict{Outcome: OutcomeWouldExecute, Class: Executed}
	}
	if l.rows == nil {
		l.rows, l.runs = map[string]Position{}, map[string]int{}
	}
	l.rows[item.OrderID] = *position(&item.Record)
	l.runs[item.OrderID]++
	return Verdict{Outcome: OutcomeExecuted, Class: Executed}
}

// fakeClock stands still but for waits.
type fakeClock struct {
	mu    sync.Mutex
	now   time.Time
	waits []time.Duration
}

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) Wait(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.waits = append(c.waits, d)
	return ctx.Err()
}

// tb is what *testing.T and *rapid.T share.
type tb interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func newTestRunner(t tb, s Source, h Handler) (*Runner, *fakeClock) {
	t.Helper()
	clock := &fakeClock{now: time.Date(2026, 11, 12, 0, 0, 0, 0, time.UTC)}
	r, err := NewRunner(RunnerOptions{
		Source: s, Extractor: fakeExtractor{}, Handler: h, BizType: "COUPON", Now: clock.Now, Wait: clock.Wait,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r, clock
}

func wholeRange(t tb) Range {
	t.Helper()
	return rangeOf(t, "start")
}

func rangeOf(t tb, text string) Range {
	t.Helper()
	r, err := ParseRange(text, time.Time{}, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// replay plans and runs a request over the whole topic.
func replayAll(ctx context.Context, t tb, r *Runner, req Request) (Report, error) {
	t.Helper()
	if req.Topic == "" {
		req.Topic = "orders"
		req.Range = wholeRange(t)
	}
	plan, err := r.Plan(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	return r.Run(ctx, plan, nil)
}

func tallyText(t Tally) string {
	var b strings.Builder
	for _, row := range t.Rows() {
		fmt.Fprintf(&b, "%s=%d ", row.Outcome, row.Count)
	}
	return strings.TrimSpace(b.String())
}

func wantTally(t *testing.T, got Tally, want string) {
	t.Helper()
	if s := tallyText(got); s != want {
		t.Errorf("outcomes: got %q, want %q", s, want)
	}
}
