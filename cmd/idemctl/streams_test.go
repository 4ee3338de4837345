package main

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
)

// failingWriter takes some bytes, then fails.
type failingWriter struct {
	room int
	err  error
}

func (f *failingWriter) Write(p []byte) (int, error) {
	if len(p) <= f.room {
		f.room -= len(p)
		return len(p), nil
	}
	n := f.room
	f.room = 0
	return n, f.err
}

// hazard R8: what follows a reader gone away is dropped, and nothing fails.
func TestOutWriterReaderGone(t *testing.T) {
	t.Parallel()
	o := newOutWriter(&failingWriter{room: 3, err: fmt.Errorf("write |1: %w", syscall.EPIPE)})
	for _, s := range []string{"abc", "def", "ghi"} {
		if n, err := o.Write([]byte(s)); n != 3 || err != nil {
			t.Errorf("Write(%s) = %d, %v", s, n, err)
		}
	}
	select {
	case <-o.Gone():
	default:
		t.Error("Gone is still open")
	}
	if o.Failed() != nil || !o.Written() {
		t.Errorf("Failed %v, Written %v", o.Failed(), o.Written())
	}
}

// A full disk is remembered, though the renderer did not look.
func TestOutWriterDiskFull(t *testing.T) {
	t.Parallel()
	o := newOutWriter(&failingWriter{err: syscall.ENOSPC})
	if o.Written() {
		t.Error("nothing was written yet")
	}
	for range 2 {
		if _, err := o.Write([]byte("x")); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Write: %v", err)
		}
	}
	if !errors.Is(o.Failed(), syscall.ENOSPC) || o.Written() {
		t.Errorf("Failed %v, Written %v", o.Failed(), o.Written())
	}
}
