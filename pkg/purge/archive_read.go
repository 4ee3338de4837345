package purge

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"time"

	"github.com/klauspost/compress/zstd"
)

// ArchiveRows reads an archive's rows in the order of the file, in bounded memory. What it returned before an error is not
// to be relied on; without one, the end comes only when file and lines were found to be what the manifest says.
type ArchiveRows struct {
	ctx     context.Context //nolint:containedctx // the reader is one job; Next is a step of it
	archive *Archive
	file    *os.File
	zst     *zstd.Decoder
	in      *bufio.Reader
	long    []byte // a line longer than the reader's buffer

	fileSum, lineSum hash.Hash
	bytes, rows      int64
	lines            *lineDecoder
	keys             keyColumns
	lastBiz          string
	ended            bool
}

// Rows begins to read the archive. The caller closes what it returns.
func (a *Archive) Rows(ctx context.Context) (*ArchiveRows, error) {
	keys, err := a.manifest.keyColumns()
	if err != nil {
		return nil, &ArchiveError{Path: a.ManifestPath(), Fault: FaultManifest, Detail: "it cannot be relied on", Err: err}
	}
	f, err := a.open()
	if err != nil {
		return nil, err
	}
	r := &ArchiveRows{ctx: ctx, archive: a, file: f, fileSum: sha256.New(), lineSum: sha256.New(), keys: keys, lines: newLineDecoder(a.manifest.Columns)}
	r.zst, err = zstd.NewReader(io.TeeReader(bufio.NewReaderSize(f, outputBuffer), r.fileSum), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read archive %s: %w", a.path, err), f.Close())
	}
	r.in = bufio.NewReaderSize(r.zst, outputBuffer)
	return r, nil
}

// Close ends the reading.
func (r *ArchiveRows) Close() error {
	r.zst.Close()
	return r.file.Close()
}

// Next returns up to n rows, and io.EOF when there are no more and all of the archive was what its manifest says. Other
// errors are *ArchiveError, or those of the file system and of ctx.
func (r *ArchiveRows) Next(n int) ([]Victim, error) {
	victims := make([]Victim, 0, n)
	for len(victims) < n {
		values, err := r.values()
		if errors.Is(err, io.EOF) && len(victims) > 0 {
			return victims, nil
		}
		if err != nil {
			return nil, err
		}
		v, err := r.victim(values)
		if err != nil {
			return nil, r.broken(fmt.Errorf("line %d: %w", r.rows, err))
		}
		victims = append(victims, v)
	}
	return victims, nil
}

// drain reads to the end, for what is found on the way.
func (r *ArchiveRows) drain() error {
	for {
		if _, err := r.values(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// values reads one line. They are valid until the next call. io.EOF is returned once everything has been compared.
func (r *ArchiveRows) values() ([]lineValue, error) {
	line, err := r.line()
	if err != nil {
		return nil, err
	}
	values, err := r.lines.decode(line)
	if err != nil {
		return nil, r.broken(fmt.Errorf("line %d: %w", r.rows, err))
	}
	return values, nil
}

// checkEvery is after how many lines the context is asked.
const checkEvery = 4096

func (r *ArchiveRows) line() ([]byte, error) {
	if r.ended {
		return nil, io.EOF
	}
	if r.rows%checkEvery == 0 {
		if err := r.ctx.Err(); err != nil {
			return nil, err
		}
	}
	line, err := r.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		r.long = append(r.long[:0], line...)
		for errors.Is(err, bufio.ErrBufferFull) {
			line, err = r.in.ReadSlice('\n')
			r.long = append(r.long, line...)
		}
		line = r.long
	}
	_, _ = r.lineSum.Write(line) // never fails, by its documentation
	r.bytes += int64(len(line))
	switch {
	case err == nil:
		r.rows++
		return line, nil
	case errors.Is(err, io.EOF) && len(line) == 0:
		return nil, r.end()
	case errors.Is(err, io.EOF):
		return nil, r.bad("the last line has no end")
	}
	return nil, r.broken(fmt.Errorf("it cannot be decompressed: %w", err))
}

// broken says why the file cannot be read on: that it is not the one that was written comes first.
func (r *ArchiveRows) broken(cause error) error {
	if err := r.archive.verifyFile(r.ctx); err != nil {
		return err
	}
	return r.bad("%w", cause)
}

// end compares what was read with the manifest.
func (r *ArchiveRows) end() error {
	m := &r.archive.manifest
	if hex.EncodeToString(r.fileSum.Sum(nil)) != m.SHA256 {
		if err := r.archive.verifyFile(r.ctx); err != nil {
			return err
		}
		return r.bad("it changed while it was read")
	}
	switch {
	case r.rows != m.Rows:
		return r.bad("it has %d rows, the manifest says %d", r.rows, m.Rows)
	case r.bytes != m.ContentBytes || hex.EncodeToString(r.lineSum.Sum(nil)) != m.ContentSHA256:
		return r.bad("the checksum of its lines is not the one in the manifest")
	}
	r.ended = true
	return io.EOF
}

func (r *ArchiveRows) bad(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &ArchiveError{Path: r.archive.path, Fault: FaultContent, Detail: err.Error(), Err: nil}
}

// keyColumns are the places of what a Victim holds; -1: there is none.
type keyColumns struct {
	order, biz, create, expire int
	retention                  time.Duration
}

func (m *Manifest) keyColumns() (keyColumns, error) {
	l := tableLayout{columns: m.Columns}
	for _, c := range m.Columns {
		l.kinds = append(l.kinds, kindOf(c.Type))
	}
	if err := l.find(m.ColumnMap.columns()); err != nil {
		return keyColumns{}, err
	}
	return keyColumns{order: l.order, biz: l.biz, create: l.create, expire: l.expire, retention: m.Retention}, nil
}

func (r *ArchiveRows) victim(values []lineValue) (v Victim, err error) {
	v.OrderID = string(values[r.keys.order].bytes)
	if r.keys.biz >= 0 {
		if biz := values[r.keys.biz].bytes; string(biz) != r.lastBiz {
			r.lastBiz = string(biz)
		}
		v.BizType = r.lastBiz
	}
	if v.CreateTime, err = parseServerTime(values[r.keys.create].bytes); err != nil {
		return v, err
	}
	if r.keys.expire < 0 {
		v.Expiry = v.CreateTime.Add(r.keys.retention)
		return v, nil
	}
	v.Expiry, err = parseServerTime(values[r.keys.expire].bytes)
	return v, err
}
