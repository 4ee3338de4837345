package replay

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
)

// FileSource is a Source over a capture: lines of AppendEnvelope or of kcat -J. A partition's log is what the file holds of
// it: from the lowest offset to the highest, so that ranges mean the offsets of the topic it came from. Within a partition
// the lines must be in order of offset, each once, as captures are; partitions may be mixed.
//
// A line that cannot be read is set aside and the others are replayed: Read ends with a *BadLinesError, after everything
// else was delivered, so that no caller takes the file for whole. Resolve gives no error for it; BadLines tells.
//
// The file is read once by Resolve and once more by Read, and never held in memory.
type FileSource struct {
	name string
	open func() (io.ReadCloser, error)
}

// NewFileSource makes a source from a file's name, for error texts, and how to open it from its beginning.
func NewFileSource(name string, open func() (io.ReadCloser, error)) *FileSource {
	return &FileSource{name: name, open: open}
}

// LineError says why a line of a capture cannot be read.
type LineError struct {
	Line int64 // from 1
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d %s", e.Line, e.Err) }

// Unwrap gives the reason.
func (e *LineError) Unwrap() error { return e.Err }

// BadLinesError says that lines of a capture were set aside, and nothing is known of what they held. All the others were
// delivered.
type BadLinesError struct {
	Name  string
	Count int64
	First []*LineError // the first ten
}

func (e *BadLinesError) Error() string {
	texts := make([]string, len(e.First))
	for i, l := range e.First {
		texts[i] = l.Error()
	}
	more := ""
	if e.Count > int64(len(e.First)) {
		more = "; …"
	}
	return fmt.Sprintf("reading %s: %d lines set aside: %s%s", e.Name, e.Count, strings.Join(texts, "; "), more)
}

// Unwrap gives the lines' own errors.
func (e *BadLinesError) Unwrap() []error {
	errs := make([]error, len(e.First))
	for i, l := range e.First {
		errs[i] = l
	}
	return errs
}

func (e *BadLinesError) add(l *LineError) {
	const shown = 10
	e.Count++
	if len(e.First) < shown {
		e.First = append(e.First, l)
	}
}

// OrderError says that a capture does not hold a partition's records in order of offset, each once.
type OrderError struct {
	Name          string
	Line          int64
	Partition     int32
	Offset, After int64
}

func (e *OrderError) Error() string {
	return fmt.Sprintf("reading %s: line %d has offset %d of partition %d after offset %d: sort the lines by offset, and drop repeated ones",
		e.Name, e.Line, e.Offset, e.Partition, e.After)
}

// Resolve implements Source. The partitions of a capture are those it has a line of.
func (s *FileSource) Resolve(ctx context.Context, topic string, partitions []int32, r Range) ([]Bounds, error) {
	logs, err := s.survey(ctx, topic, r)
	if err != nil {
		return nil, err
	}
	has := make([]int32, len(logs))
	for i, l := range logs {
		has[i] = l.Partition
	}
	if len(logs) == 0 {
		return nil, &TopicError{Topic: topic, Where: s.name}
	}
	if len(partitions) == 0 {
		return r.Resolve(topic, logs)
	}
	var wanted []PartitionLog
	var missing []int32
	asked := slices.Clone(partitions)
	slices.Sort(asked)
	for _, p := range slices.Compact(asked) {
		if i, ok := slices.BinarySearch(has, p); ok {
			wanted = append(wanted, logs[i])
		} else {
			missing = append(missing, p)
		}
	}
	if len(missing) > 0 {
		return nil, &TopicError{Topic: topic, Missing: missing, Partitions: has, Where: s.name}
	}
	return r.Resolve(topic, wanted)
}

// BadLines reads the file and gives the lines that would be set aside, or nil.
func (s *FileSource) BadLines(ctx context.Context) (*BadLinesError, error) {
	bad, err := s.eachRecord(ctx, func(int64, Record) error { return nil })
	if err != nil || bad.Count == 0 {
		return nil, err
	}
	return bad, nil
}

// survey learns what the file has of a topic, in order of partition.
func (s *FileSource) survey(ctx context.Context, topic string, r Range) ([]PartitionLog, error) {
	logs := make(map[int32]*PartitionLog)
	_, err := s.eachRecord(ctx, func(line int64, rec Record) error {
		if rec.Topic != topic {
			return nil
		}
		l := logs[rec.Partition]
		if l == nil {
			l = &PartitionLog{Partition: rec.Partition, LogStart: rec.Offset, HighWatermark: rec.Offset, FromTime: -1, ToTime: -1}
			logs[rec.Partition] = l
		}
		if rec.Offset < l.HighWatermark {
			return &OrderError{Name: s.name, Line: line, Partition: rec.Partition, Offset: rec.Offset, After: l.HighWatermark - 1}
		}
		l.HighWatermark = rec.Offset + 1
		l.LastStable = l.HighWatermark
		noteTime(&l.FromTime, r.From, rec)
		noteTime(&l.ToTime, r.To, rec)
		return nil
	})
	if err != nil {
		return nil, err
	}
	sorted := make([]PartitionLog, 0, len(logs))
	for _, l := range logs {
		sorted = append(sorted, *l)
	}
	slices.SortFunc(sorted, func(a, b PartitionLog) int { return int(a.Partition) - int(b.Partition) })
	return sorted, nil
}

// noteTime keeps the first offset whose timestamp is at or after the bound's. A record without a timestamp has none.
func noteTime(at *int64, bound Bound, rec Record) {
	if *at < 0 && bound.Kind == BoundTime && !rec.Timestamp.IsZero() && !rec.Timestamp.Before(bound.Time) {
		*at = rec.Offset
	}
}

// Read implements Source. fn is called from one goroutine.
func (s *FileSource) Read(ctx context.Context, topic string, bounds []Bounds, fn func(ctx context.Context, b Batch) error) error {
	p := newFilePages(bounds, fn)
	var bad *BadLinesError
	var err error
	if p.open > 0 {
		// On to the file's end: a line that cannot be read may be one of the range, wherever it stands.
		bad, err = s.eachRecord(ctx, func(line int64, rec Record) error {
			if rec.Topic != topic {
				return nil
			}
			return p.add(ctx, line, s.name, rec)
		})
	}
	if err == nil {
		err = p.finish(ctx)
	}
	if err != nil {
		return err
	}
	if bad != nil && bad.Count > 0 {
		return bad
	}
	return nil
}
