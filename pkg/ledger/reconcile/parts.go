package reconcile

import (
	"errors"
	"fmt"
	"os"
	"sync"
)

// parts keeps records in a temp file, told apart by the first byte of their key's hash, so that all records of a key are in
// one part: each part is a 256th of the whole and is read back by itself. In memory there is one block of each part, however
// many records there are. Records are added first, then read; add may be called from several goroutines.
type parts struct {
	mu   sync.Mutex
	file *os.File // nil while all blocks are the first of their part
	next int64    // the number of the next block in the file
	open [partCount][]byte
	full [partCount][]int64 // the blocks of each part that are in the file, in order
}

const (
	partCount = 256
	partShift = 56 // of a hash, to the number of its part
	partBlock = 4096
)

// add appends a record of a key with this hash.
func (p *parts) add(hash uint64, record []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := hash >> partShift
	for len(record) > 0 {
		block := p.open[at]
		if block == nil {
			block = make([]byte, 0, partBlock)
		}
		n := min(len(record), partBlock-len(block))
		block, record = append(block, record[:n]...), record[n:]
		if len(block) == partBlock {
			if err := p.write(at, block); err != nil {
				return err
			}
			block = block[:0]
		}
		p.open[at] = block
	}
	return nil
}

func (p *parts) write(at uint64, block []byte) error {
	if p.file == nil {
		f, err := os.CreateTemp("", "idemctl-pairs-*")
		if err != nil {
			return fmt.Errorf("temp file of keys: %w", err)
		}
		if err := os.Remove(f.Name()); err != nil { // it goes away with the process, however that ends
			return errors.Join(fmt.Errorf("temp file of keys: %w", err), f.Close())
		}
		p.file = f
	}
	if _, err := p.file.WriteAt(block, p.next*partBlock); err != nil {
		return fmt.Errorf("temp file of keys: %w", err)
	}
	p.full[at] = append(p.full[at], p.next)
	p.next++
	return nil
}

// part returns the records of one part, one after the other, in buf where that is large enough.
func (p *parts) part(at int, buf []byte) ([]byte, error) {
	size := len(p.full[at])*partBlock + len(p.open[at])
	if cap(buf) < size {
		buf = make([]byte, 0, size+size/4)
	}
	buf = buf[:len(p.full[at])*partBlock]
	for i, block := range p.full[at] {
		if _, err := p.file.ReadAt(buf[i*partBlock:][:partBlock], block*partBlock); err != nil {
			return nil, fmt.Errorf("temp file of keys: %w", err)
		}
	}
	return append(buf, p.open[at]...), nil
}

func (p *parts) close() error {
	if p.file == nil {
		return nil
	}
	return p.file.Close()
}
