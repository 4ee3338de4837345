package ledger

import (
	"bufio"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
)

// hashList is a sorted list of 64-bit hashes: in memory while it is short, else in a file of which one block is read for a
// look-up. An index of the blocks' first hashes stays in memory (8 bytes for 64 hashes).
type hashList struct {
	memory []uint64
	file   *os.File // already removed from its folder
	count  int64
	index  []uint64
	blocks sync.Pool // of *[]byte
}

const (
	hashSize   = 8
	blockSize  = 64      // hashes of a block
	hashesHeld = 1 << 18 // hashes in memory: 2 MB
)

// has reports whether a hash is in the list.
func (l *hashList) has(h uint64) (bool, error) {
	if l.file == nil {
		_, found := slices.BinarySearch(l.memory, h)
		return found, nil
	}
	at, exact := slices.BinarySearch(l.index, h)
	if exact {
		return true, nil
	}
	if at == 0 {
		return false, nil
	}
	buf, ok := l.blocks.Get().(*[]byte)
	if !ok {
		b := make([]byte, blockSize*hashSize)
		buf = &b
	}
	defer l.blocks.Put(buf)
	n, err := l.file.ReadAt(*buf, int64(at-1)*blockSize*hashSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("temp file of the ledger's keys: %w", err)
	}
	low, high := 0, n/hashSize
	for low < high {
		mid := (low + high) / 2
		switch v := binary.LittleEndian.Uint64((*buf)[mid*hashSize:]); {
		case v == h:
			return true, nil
		case v < h:
			low = mid + 1
		default:
			high = mid
		}
	}
	return false, nil
}

func (l *hashList) close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

// hashBuilder sorts hashes in runs, and merges the runs.
type hashBuilder struct {
	buf  []uint64
	file *os.File // runs, one after the other; nil while all is in memory
	runs []int64  // their lengths in hashes
}

// newHashBuilder expects about so many hashes.
func newHashBuilder(expected int64) *hashBuilder {
	return &hashBuilder{buf: make([]uint64, 0, min(hashesHeld, max(blockSize, expected)))}
}

func (b *hashBuilder) add(h uint64) error {
	b.buf = append(b.buf, h)
	if len(b.buf) < hashesHeld {
		return nil
	}
	return b.spill()
}

// sortRun sorts what is in memory and drops repeats.
func (b *hashBuilder) sortRun() {
	slices.Sort(b.buf)
	b.buf = slices.Compact(b.buf)
}

func (b *hashBuilder) spill() error {
	b.sortRun()
	if b.file == nil {
		f, err := tempFile()
		if err != nil {
			return err
		}
		b.file = f
	}
	w := bufio.NewWriterSize(b.file, 1<<16)
	if err := writeHashes(w, b.buf); err != nil {
		return err
	}
	b.runs = append(b.runs, int64(len(b.buf)))
	b.buf = b.buf[:0]
	return nil
}

func writeHashes(w *bufio.Writer, hashes []uint64) error {
	var word [hashSize]byte
	for _, h := range hashes {
		binary.LittleEndian.PutUint64(word[:], h)
		if _, err := w.Write(word[:]); err != nil {
			return fmt.Errorf("temp file of the ledger's keys: %w", err)
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("temp file of the ledger's keys: %w", err)
	}
	return nil
}

// tempFile makes a file that goes away with the process, however that ends.
func tempFile() (*os.File, error) {
	f, err := os.CreateTemp("", "idemctl-keys-*")
	if err != nil {
		return nil, fmt.Errorf("temp file of the ledger's keys: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(fmt.Errorf("temp file of the ledger's keys: %w", err), f.Close())
	}
	return f, nil
}

func (b *hashBuilder) close() error {
	if b.file == nil {
		return nil
	}
	return b.file.Close()
}

// finish returns the list; the builder is done.
func (b *hashBuilder) finish() (_ *hashList, err error) {
	if b.file == nil {
		b.sortRun()
		return &hashList{memory: slices.Clip(b.buf), count: int64(len(b.buf))}, nil
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := b.spill(); err != nil {
		return nil, err
	}
	b.buf = nil
	out, err := tempFile()
	if err != nil {
		return nil, err
	}
	l := &hashList{file: out}
	if err := b.merge(l, bufio.NewWriterSize(out, 1<<16)); err != nil {
		return nil, errors.Join(err, out.Close())
	}
	return l, nil
}

func (b *hashBuilder) merge(l *hashList, w *bufio.Writer) error {
	streams := &hashStreams{}
	var from int64
	for _, n := range b.runs {
		s := &hashStream{r: bufio.NewReaderSize(io.NewSectionReader(b.file, from*hashSize, n*hashSize), 1<<15)}
		from += n
		if ok, err := s.next(); err != nil {
			return err
		} else if ok {
			*streams = append(*streams, s)
		}
	}
	heap.Init(streams)
	var last uint64
	one := make([]uint64, 0, blockSize)
	for streams.Len() > 0 {
		s := (*streams)[0]
		if h := s.head; l.count == 0 || h != last {
			if l.count%blockSize == 0 {
				l.index = append(l.index, h)
			}
			if one = append(one, h); len(one) == blockSize {
				if err := writeHashes(w, one); err != nil {
					return err
				}
				one = one[:0]
			}
			l.count++
			last = h
		}
		if ok, err := s.next(); err != nil {
			return err
		} else if ok {
			heap.Fix(streams, 0)
		} else {
			heap.Pop(streams)
		}
	}
	return writeHashes(w, one)
}

// hashStream reads a run.
type hashStream struct {
	r    *bufio.Reader
	head uint64
}

func (s *hashStream) next() (bool, error) {
	var word [hashSize]byte
	switch _, err := io.ReadFull(s.r, word[:]); {
	case errors.Is(err, io.EOF):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("temp file of the ledger's keys: %w", err)
	}
	s.head = binary.LittleEndian.Uint64(word[:])
	return true, nil
}

// hashStreams is a heap by the next hash.
type hashStreams []*hashStream

// Len implements sort.Interface, as do the two below.
func (s *hashStreams) Len() int           { return len(*s) }
func (s *hashStreams) Less(i, j int) bool { return (*s)[i].head < (*s)[j].head }
func (s *hashStreams) Swap(i, j int)      { (*s)[i], (*s)[j] = (*s)[j], (*s)[i] }

// Push implements heap.Interface.
func (s *hashStreams) Push(x any) {
	if stream, ok := x.(*hashStream); ok {
		*s = append(*s, stream)
	}
}

// Pop implements heap.Interface.
func (s *hashStreams) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}
