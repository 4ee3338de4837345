package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"

	"github.com/idemctl/idemctl/pkg/replay"
)

// newCapture is a capture file as a source of records.
func newCapture(path string) *replay.FileSource {
	return replay.NewFileSource(path, func() (io.ReadCloser, error) { return os.Open(path) }) //nolint:gosec // the user names the file
}

var errNoRecord = errors.New("it holds no record")

// captureTopic is the topic of the first record that can be read.
func captureTopic(ctx context.Context, path string) (topic string, err error) {
	f, err := os.Open(path) //nolint:gosec // the user names the file
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r := bufio.NewReader(f)
	for ctx.Err() == nil {
		line, rerr := r.ReadBytes('\n')
		if rec, derr := replay.DecodeEnvelope(line); derr == nil {
			return rec.Topic, nil
		}
		if errors.Is(rerr, io.EOF) {
			return "", errNoRecord
		}
		if rerr != nil {
			return "", rerr
		}
	}
	return "", ctx.Err()
}
