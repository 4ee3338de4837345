package replay

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
)

// A page of a capture ends at whichever comes first. The limits bound what Read holds: one page per partition.
const (
	filePageRecords = 512
	filePageBytes   = 1 << 20
	// fileLineMost is the longest line that is read, in bytes: well above the largest message that a broker takes by any
	// sensible setting.
	fileLineMost = 256 << 20
)

var errLineTooLong = fmt.Errorf("is longer than %d bytes", fileLineMost)

// eachRecord calls fn with every readable line's record, in the file's order, and gives the others. An error of fn ends it.
func (s *FileSource) eachRecord(ctx context.Context, fn func(line int64, rec Record) error) (_ *BadLinesError, err error) {
	f, err := s.open()
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", s.name, err)
	}
	defer func() {
		if cerr := f.Close(); cerr != nil && err == nil {
			err = fmt.Errorf("closing %s: %w", s.name, cerr)
		}
	}()
	bad := &BadLinesError{Name: s.name}
	lines := lineReader{r: bufio.NewReaderSize(f, 1<<16), most: fileLineMost}
	for n := int64(1); ; n++ {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("reading %s: %w", s.name, err)
		}
		line, err := lines.next()
		switch {
		case errors.Is(err, io.EOF):
			return bad, nil
		case errors.Is(err, errLineTooLong):
			bad.add(&LineError{Line: n, Err: err})
			continue
		case err != nil:
			return nil, fmt.Errorf("reading %s at line %d: %w", s.name, n, err)
		}
		if n == 1 {
			line, _ = cutBOM(line)
		}
		if blankLine(line) {
			continue
		}
		rec, err := DecodeEnvelope(line)
		if err != nil {
			bad.add(&LineError{Line: n, Err: err})
			continue
		}
		if err := fn(n, rec); err != nil {
			return nil, err
		}
	}
}

// lineReader reads lines of any length up to most; what it returns is valid until the next call.
type lineReader struct {
	r    *bufio.Reader
	long []byte
	most int
}

// next gives a line without its line feed, io.EOF after the last one, or errLineTooLong, after which the next line follows.
func (l *lineReader) next() ([]byte, error) {
	l.long = l.long[:0]
	tooLong, some := false, false
	for {
		part, err := l.r.ReadSlice('\n')
		some = some || len(part) > 0
		switch {
		case err == nil && len(l.long) == 0 && !tooLong:
			return bytes.TrimSuffix(part, []byte("\n")), nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull) && !errors.Is(err, io.EOF):
			return nil, err
		}
		if tooLong = tooLong || len(l.long)+len(part) > l.most; !tooLong {
			l.long = append(l.long, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case !some:
			return nil, io.EOF
		case tooLong:
			l.long = nil
			return nil, errLineTooLong
		}
		return bytes.TrimSuffix(l.long, []byte("\n")), nil
	}
}

// filePages gathers records into batches, one partition at a time.
type filePages struct {
	fn    func(ctx context.Context, b Batch) error
	parts map[int32]*filePage
	order []*filePage // in order of the bounds
	open  int         // partitions with something to read
}

type filePage struct {
	bounds Bounds
	next   int64 // the offset that the next line may have
	sent   int64 // the offset that the handler was told to go on from
	batch  []Record
	bytes  int
}

func newFilePages(bounds []Bounds, fn func(ctx context.Context, b Batch) error) *filePages {
	p := &filePages{fn: fn, parts: make(map[int32]*filePage, len(bounds))}
	for _, b := range bounds {
		page := &filePage{bounds: b, sent: b.Start}
		p.parts[b.Partition] = page
		p.order = append(p.order, page)
		if b.Len() > 0 {
			p.open++
		}
	}
	return p
}

func (p *filePages) add(ctx context.Context, line int64, name string, rec Record) error {
	page := p.parts[rec.Partition]
	if page == nil {
		return nil
	}
	// Also for lines outside the bounds: the file may have been changed since it was surveyed.
	if rec.Offset < page.next {
		return &OrderError{Name: name, Line: line, Partition: rec.Partition, Offset: rec.Offset, After: page.next - 1}
	}
	page.next = rec.Offset + 1
	if rec.Offset < page.bounds.Start || rec.Offset >= page.bounds.End {
		return nil
	}
	page.batch = append(page.batch, rec)
	page.bytes += len(rec.Key) + len(rec.Value)
	if len(page.batch) < filePageRecords && page.bytes < filePageBytes {
		return nil
	}
	return p.flush(ctx, page, page.next)
}

// finish hands over what is left, and moves every partition to its end: offsets without a line hold no record.
func (p *filePages) finish(ctx context.Context) error {
	for _, page := range p.order {
		if page.bounds.Len() == 0 {
			continue
		}
		if page.next < min(page.bounds.End, page.bounds.HighWatermark) {
			return fmt.Errorf("partition %d of the capture ends at offset %d, and had offsets up to %d before: the file was changed while it was read",
				page.bounds.Partition, page.next, page.bounds.HighWatermark)
		}
		if page.sent < page.bounds.End {
			if err := p.flush(ctx, page, page.bounds.End); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *filePages) flush(ctx context.Context, page *filePage, next int64) error {
	b := Batch{Partition: page.bounds.Partition, Records: page.batch, Next: next}
	page.batch, page.bytes, page.sent = nil, 0, next // a new slice: the handler may keep the old one
	return p.fn(ctx, b)
}
