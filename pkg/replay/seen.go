package replay

import (
	"crypto/sha256"
	"fmt"
)

// keyHash stands for a business key: 128 bits of SHA-256, so that no two keys of any topic share one by accident, nor by
// the design of who names orders.
type keyHash [16]byte

// hashKey hashes a business key. A biz_type has no zero byte, so the pair is unambiguous.
func hashKey(bizType, orderID string) keyHash {
	buf := make([]byte, 0, 192)
	buf = append(buf, bizType...)
	buf = append(buf, 0)
	buf = append(buf, orderID...)
	sum := sha256.Sum256(buf)
	return keyHash(sum[:16])
}

// firstSeen is the record of this range that would execute a key.
type firstSeen struct {
	partition int32
	offset    int64
	hasPrint  bool
	print     [8]byte // of the fingerprint
}

func newFirstSeen(item *Item) firstSeen {
	return firstSeen{
		partition: item.Record.Partition, offset: item.Record.Offset,
		hasPrint: len(item.Fingerprint) > 0, print: shortPrint(item.Fingerprint),
	}
}

// shortPrint is as much of a fingerprint as the seen set keeps. It is compared for one key only, so 64 bits are plenty.
func shortPrint(fingerprint []byte) (p [8]byte) {
	copy(p[:], fingerprint)
	return p
}

// seenSet remembers the keys that a range would execute: the first so many in memory, the others in a temp file that is
// removed when the run ends (hazard R12). It is not safe for concurrent use.
type seenSet struct {
	dir   string
	bound int
	mem   map[keyHash]firstSeen
	file  *seenFile // nil until memory is full
}

func newSeenSet(dir string, bound int) *seenSet {
	return &seenSet{dir: dir, bound: bound, mem: map[keyHash]firstSeen{}}
}

func (s *seenSet) get(id keyHash) (firstSeen, bool, error) {
	if v, ok := s.mem[id]; ok || s.file == nil {
		return v, ok, nil
	}
	v, ok, err := s.file.get(id)
	if err != nil {
		return v, false, fmt.Errorf("look up a key in the temp file of keys seen: %w", err)
	}
	return v, ok, nil
}

// put adds a key that is not in the set.
func (s *seenSet) put(id keyHash, v firstSeen) error {
	if len(s.mem) < s.bound {
		s.mem[id] = v
		return nil
	}
	if s.file == nil {
		f, err := newSeenFile(s.dir, seenFirstBlocks)
		if err != nil {
			return fmt.Errorf("temp file of keys seen: %w", err)
		}
		s.file = f
	}
	if err := s.file.put(id, v); err != nil {
		return fmt.Errorf("add a key to the temp file of keys seen: %w", err)
	}
	return nil
}

func (s *seenSet) close() {
	if s.file != nil {
		s.file.close()
	}
	s.mem, s.file = nil, nil
}
