package replay

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
)

// The file is a hash table with open addressing: blocks of slots, a key goes into the first free slot from the start of its
// block on, and a full block overflows into the next. A look-up reads one block, rarely two.
const (
	seenSlot        = 40 // 16 hash, 8 print, 8 offset, 4 partition, 1 flags, 3 free
	seenPerBlock    = 102
	seenBlock       = 4096
	seenFirstBlocks = 1 << 12 // 16 MiB: a file comes when a million keys have filled the memory

	seenUsed  = 1
	seenPrint = 2
)

type seenFile struct {
	dir    string
	file   *os.File
	blocks uint64 // a power of two
	count  uint64
	block  [seenBlock]byte // the block last read
	at     uint64          // which one
	loaded bool
}

func newSeenFile(dir string, blocks uint64) (*seenFile, error) {
	f, err := tempFile(dir, "idemctl-seen-")
	if err != nil {
		return nil, err
	}
	if err := f.Truncate(int64(blocks) * seenBlock); err != nil { //nolint:gosec // blocks stay far below 2^51: a disk ends before
		return nil, errors.Join(err, discard(f))
	}
	return &seenFile{dir: dir, file: f, blocks: blocks}, nil
}

// tempFile makes a temp file that nobody finds: it has no name any more, where the system allows that.
func tempFile(dir, prefix string) (*os.File, error) {
	f, err := os.CreateTemp(dir, prefix+"*")
	if err != nil {
		return nil, err
	}
	_ = os.Remove(f.Name()) // also gone when this process is killed; else discard removes it
	return f, nil
}

// discard closes a temp file and removes it where it still has its name.
func discard(f *os.File) error {
	err := f.Close()
	if rerr := os.Remove(f.Name()); rerr != nil && !errors.Is(rerr, os.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	return err
}

func (t *seenFile) close() { _ = discard(t.file) }

func (t *seenFile) load(block uint64) error {
	if t.loaded && t.at == block {
		return nil
	}
	t.loaded = false
	n, err := t.file.ReadAt(t.block[:], int64(block)*seenBlock) //nolint:gosec // see newSeenFile
	if err != nil && (!errors.Is(err, io.EOF) || n != seenBlock) {
		return err
	}
	t.at, t.loaded = block, true
	return nil
}

// find returns the slot of id, or the free one where it would go.
func (t *seenFile) find(id keyHash) (block uint64, slot int, found bool, err error) {
	block = binary.BigEndian.Uint64(id[:8]) & (t.blocks - 1)
	for {
		if err := t.load(block); err != nil {
			return 0, 0, false, err
		}
		for slot = range seenPerBlock {
			s := t.block[slot*seenSlot:]
			if s[36]&seenUsed == 0 {
				return block, slot, false, nil
			}
			if keyHash(s[:16]) == id {
				return block, slot, true, nil
			}
		}
		block = (block + 1) & (t.blocks - 1) // never all full: see put
	}
}

func (t *seenFile) get(id keyHash) (firstSeen, bool, error) {
	_, slot, found, err := t.find(id)
	if err != nil || !found {
		return firstSeen{}, false, err
	}
	return decodeSeen(t.block[slot*seenSlot:]), true, nil
}

func decodeSeen(s []byte) firstSeen {
	return firstSeen{
		print:     [8]byte(s[16:24]),
		offset:    int64(binary.BigEndian.Uint64(s[24:])),   //nolint:gosec // as it was encoded
		partition: int32(binary.BigEndian.Uint32(s[32:36])), //nolint:gosec // as it was encoded
		hasPrint:  s[36]&seenPrint != 0,
	}
}

func (t *seenFile) put(id keyHash, v firstSeen) error {
	// Three quarters full: blocks begin to overflow.
	if (t.count+1)*4 > t.blocks*seenPerBlock*3 {
		if err := t.grow(); err != nil {
			return err
		}
	}
	block, slot, found, err := t.find(id)
	if err != nil {
		return err
	}
	s := t.block[slot*seenSlot : (slot+1)*seenSlot]
	copy(s, id[:])
	copy(s[16:24], v.print[:])
	binary.BigEndian.PutUint64(s[24:], uint64(v.offset))    //nolint:gosec // decoded the same way
	binary.BigEndian.PutUint32(s[32:], uint32(v.partition)) //nolint:gosec // decoded the same way
	s[36] = seenUsed
	if v.hasPrint {
		s[36] |= seenPrint
	}
	if !found {
		t.count++
	}
	if _, err := t.file.WriteAt(s, int64(block)*seenBlock+int64(slot)*seenSlot); err != nil { //nolint:gosec // see newSeenFile
		t.loaded = false
		return err
	}
	return nil
}

// grow moves everything into a file of twice the blocks.
func (t *seenFile) grow() error {
	bigger, err := newSeenFile(t.dir, t.blocks*2)
	if err != nil {
		return err
	}
	for block := range t.blocks {
		if err := t.load(block); err != nil {
			return errors.Join(err, discard(bigger.file))
		}
		for slot := range seenPerBlock {
			s := t.block[slot*seenSlot:]
			if s[36]&seenUsed == 0 {
				break // slots fill from the front and are never emptied
			}
			if err := bigger.put(keyHash(s[:16]), decodeSeen(s)); err != nil {
				return errors.Join(err, discard(bigger.file))
			}
		}
	}
	t.close()
	*t = *bigger
	return nil
}
