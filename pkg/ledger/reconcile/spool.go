package reconcile

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// spool keeps records in a temp file that goes away with the process, however that ends: what a scan suspects may be as much
// as what it scans, and memory must not grow with it. Records are added first, then read; add may be called from several
// goroutines.
type spool struct {
	mu   sync.Mutex
	file *os.File
	w    *bufio.Writer
	n    int64
}

const (
	spoolHead   = 12 // bytes before a record: its key's hash, its length
	spoolBuffer = 1 << 16
)

// add appends a record of a key with this hash.
func (s *spool) add(hash uint64, record []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		if err := s.open(); err != nil {
			return err
		}
	}
	var head [spoolHead]byte
	binary.LittleEndian.PutUint64(head[:], hash)
	binary.LittleEndian.PutUint32(head[8:], uint32(len(record))) //nolint:gosec // a record is a few hundred bytes
	if _, err := s.w.Write(head[:]); err != nil {
		return fmt.Errorf("temp file of suspects: %w", err)
	}
	if _, err := s.w.Write(record); err != nil {
		return fmt.Errorf("temp file of suspects: %w", err)
	}
	s.n++
	return nil
}

func (s *spool) open() error {
	f, err := os.CreateTemp("", "idemctl-suspects-*")
	if err != nil {
		return fmt.Errorf("temp file of suspects: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		return errors.Join(fmt.Errorf("temp file of suspects: %w", err), f.Close())
	}
	s.file, s.w = f, bufio.NewWriterSize(f, spoolBuffer)
	return nil
}

// each calls fn with the records whose hash is wanted, in the order in which they were added. fn keeps nothing of record.
func (s *spool) each(wanted func(hash uint64) bool, fn func(hash uint64, record []byte) error) error {
	if s.file == nil {
		return nil
	}
	if err := s.w.Flush(); err != nil {
		return fmt.Errorf("temp file of suspects: %w", err)
	}
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("temp file of suspects: %w", err)
	}
	r := bufio.NewReaderSize(s.file, spoolBuffer)
	var head [spoolHead]byte
	var record []byte
	for {
		if _, err := io.ReadFull(r, head[:]); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("temp file of suspects: %w", err)
		}
		hash, size := binary.LittleEndian.Uint64(head[:]), int(binary.LittleEndian.Uint32(head[8:]))
		if !wanted(hash) {
			if _, err := r.Discard(size); err != nil {
				return fmt.Errorf("temp file of suspects: %w", err)
			}
			continue
		}
		if cap(record) < size {
			record = make([]byte, size)
		}
		record = record[:size]
		if _, err := io.ReadFull(r, record); err != nil {
			return fmt.Errorf("temp file of suspects: %w", err)
		}
		if err := fn(hash, record); err != nil {
			return err
		}
	}
}

func (s *spool) close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}
