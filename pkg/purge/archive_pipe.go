package purge

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"
)

const (
	// chunkSize is how much is compressed at a time.
	chunkSize = 256 << 10
	// chunkCount is how many chunks are under way: one being filled, one compressed, one waiting.
	chunkCount = 3
	// windowSize is how far back zstd looks: rows resemble their neighbours, and memory is bounded by it.
	windowSize = 1 << 20
)

// archivePipe compresses and sums lines on a goroutine of its own, while the next rows are read.
type archivePipe struct {
	buf  []byte // being filled
	size int64
	hash hash.Hash
	full chan []byte
	free chan []byte
	done chan error
}

// start begins the compression into o. close must be called.
func (o *archiveOutput) start() *archivePipe {
	p := &archivePipe{
		hash: sha256.New(), full: make(chan []byte, chunkCount), free: make(chan []byte, chunkCount), done: make(chan error, 1),
	}
	for range chunkCount - 1 {
		p.free <- make([]byte, 0, chunkSize+chunkSize/4)
	}
	p.buf = make([]byte, 0, chunkSize+chunkSize/4)
	go func() { p.done <- p.compress(o) }()
	return p
}

// flush hands the buffer on when it holds at least so much.
func (p *archivePipe) flush(least int) error {
	if len(p.buf) < least {
		return nil
	}
	p.full <- p.buf
	buf, ok := <-p.free
	if !ok { // the other side has failed, and says why in close
		return errPipeEnded
	}
	p.buf = buf[:0]
	return nil
}

// errPipeEnded ends the reading of rows that can no longer be written.
var errPipeEnded = errors.New("the file cannot be written")

// close waits until all is compressed and handed to the file.
func (p *archivePipe) close() error {
	if len(p.buf) > 0 {
		p.full <- p.buf // there is room: it has as many places as there are chunks
	}
	close(p.full)
	return <-p.done
}

func (p *archivePipe) sum() string { return hex.EncodeToString(p.hash.Sum(nil)) }

func (p *archivePipe) compress(w io.Writer) error {
	defer close(p.free)
	zst, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(windowSize), zstd.WithZeroFrames(true))
	if err != nil {
		return fmt.Errorf("zstd: %w", err)
	}
	for chunk := range p.full {
		_, _ = p.hash.Write(chunk) // never fails, by its documentation
		p.size += int64(len(chunk))
		if _, err := zst.Write(chunk); err != nil {
			return err
		}
		p.free <- chunk
	}
	return zst.Close()
}
