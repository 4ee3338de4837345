package replay

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"
)

// keyRuns is a temp file of sorted runs of deliveries, one after the other.
type keyRuns struct {
	file   *os.File
	size   int64
	starts []int64
	buf    []byte
}

func newKeyRuns(dir string) (*keyRuns, error) {
	f, err := tempFile(dir, "idemctl-keys-")
	if err != nil {
		return nil, err
	}
	return &keyRuns{file: f}, nil
}

func (r *keyRuns) close() { _ = discard(r.file) }

// write appends one sorted run.
func (r *keyRuns) write(entries []delivery) error {
	start := r.size
	w := bufio.NewWriterSize(io.NewOffsetWriter(r.file, start), 1<<16)
	for i := range entries {
		r.buf = appendDelivery(r.buf[:0], &entries[i])
		n, err := w.Write(r.buf)
		r.size += int64(n)
		if err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	r.starts = append(r.starts, start)
	return nil
}

// streams returns a reader of each run, oldest first.
func (r *keyRuns) streams() []deliveryStream {
	out := make([]deliveryStream, 0, len(r.starts)+1)
	for i, start := range r.starts {
		end := r.size
		if i+1 < len(r.starts) {
			end = r.starts[i+1]
		}
		section := io.NewSectionReader(r.file, start, end-start)
		out = append(out, &runStream{r: bufio.NewReaderSize(section, 1<<15)})
	}
	return out
}

func appendDelivery(b []byte, d *delivery) []byte {
	b = binary.AppendUvarint(b, uint64(len(d.key)))
	b = append(b, d.key...)
	b = binary.AppendVarint(b, int64(d.partition))
	b = binary.AppendVarint(b, d.offset)
	b = binary.AppendVarint(b, d.millis)
	by := byte(0)
	if d.hasBy {
		by = 1
		if d.byInRange {
			by = 2
		}
	}
	b = append(b, d.outcome, byte(d.class), by)
	if d.hasBy {
		b = binary.AppendUvarint(b, uint64(d.byTopic))
		b = binary.AppendVarint(b, int64(d.byPart))
		b = binary.AppendVarint(b, d.byOffset)
	}
	return b
}

// runStream reads one run.
type runStream struct{ r *bufio.Reader }

func (s *runStream) next() (delivery, error) {
	n, err := binary.ReadUvarint(s.r)
	if err != nil {
		return delivery{}, err // io.EOF between deliveries: the end of the run
	}
	d, err := s.rest(n)
	if err != nil {
		return delivery{}, fmt.Errorf("cut off: %w", unexpected(err))
	}
	return d, nil
}

func unexpected(err error) error {
	if err == io.EOF { //nolint:errorlint // bufio and binary return it bare; a wrapped one would be another's
		return io.ErrUnexpectedEOF
	}
	return err
}

func (s *runStream) rest(keyLen uint64) (d delivery, err error) {
	if keyLen > 1<<20 {
		return d, fmt.Errorf("a key of %d bytes", keyLen)
	}
	key := make([]byte, keyLen)
	if _, err := io.ReadFull(s.r, key); err != nil {
		return d, err
	}
	d.key = string(key)
	numbers := s.varints(3)
	var fixed [3]byte
	if len(numbers) < 3 {
		return d, io.ErrUnexpectedEOF
	}
	if _, err := io.ReadFull(s.r, fixed[:]); err != nil {
		return d, err
	}
	d.partition, d.offset, d.millis = int32(numbers[0]), numbers[1], numbers[2] //nolint:gosec // as it was written
	d.outcome, d.class = fixed[0], Class(fixed[1])
	d.hasBy, d.byInRange = fixed[2] > 0, fixed[2] == 2
	if !d.hasBy {
		return d, nil
	}
	topic, err := binary.ReadUvarint(s.r)
	if err != nil {
		return d, err
	}
	if numbers = s.varints(2); len(numbers) < 2 {
		return d, io.ErrUnexpectedEOF
	}
	d.byTopic, d.byPart, d.byOffset = uint16(topic), int32(numbers[0]), numbers[1] //nolint:gosec // as it was written
	return d, nil
}

// varints reads n numbers, or fewer at an error.
func (s *runStream) varints(n int) []int64 {
	out := make([]int64, 0, 3)
	for range n {
		v, err := binary.ReadVarint(s.r)
		if err != nil {
			return out
		}
		out = append(out, v)
	}
	return out
}
