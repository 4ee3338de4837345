package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// stdoutPath is the file name that means stdout.
const stdoutPath = "-"

// captureOutput is the file of a capture, which appears under its name only when it is whole and on the disk: written
// beside it, synced, then renamed. Or it is stdout.
type captureOutput struct {
	path   string
	force  bool
	stdout io.Writer

	temp *os.File // nil before open, after commit, and for stdout
	buf  *bufio.Writer
	size int64
}

func newCaptureOutput(stdout io.Writer, path string, force bool) *captureOutput {
	return &captureOutput{path: path, force: force, stdout: stdout}
}

// check refuses, before any record is read, what commit would refuse.
func (o *captureOutput) check() error {
	if o.path == stdoutPath {
		return nil
	}
	if o.path == "" {
		return usageErrorf("capture: the file's name is empty")
	}
	info, err := os.Stat(o.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("write the capture: %w", err)
	case !info.Mode().IsRegular():
		// A rename would replace a device or a pipe, too.
		return usageErrorf("%s is there and is no regular file", o.path)
	case !o.force:
		return o.exists()
	}
	return nil
}

func (o *captureOutput) exists() error {
	return usageErrorf("%s is there already: --force replaces it", o.path)
}

func (o *captureOutput) open() error {
	const bufferSize = 1 << 16
	if o.path == stdoutPath {
		o.buf = bufio.NewWriterSize(o.stdout, bufferSize)
		return nil
	}
	// Its mode is 0600: records may hold what not everyone on this machine may read.
	f, err := os.CreateTemp(filepath.Dir(o.path), filepath.Base(o.path)+".*.tmp")
	if err != nil {
		return fmt.Errorf("write the capture: %w", err)
	}
	o.temp, o.buf = f, bufio.NewWriterSize(f, bufferSize)
	return nil
}

func (o *captureOutput) write(line []byte) error {
	n, err := o.buf.Write(line)
	o.size += int64(n)
	if err != nil {
		return fmt.Errorf("write the capture: %w", err)
	}
	return nil
}

// commit puts the file on the disk under its name.
func (o *captureOutput) commit() error {
	if err := o.buf.Flush(); err != nil {
		return fmt.Errorf("write the capture: %w", err)
	}
	if o.temp == nil {
		return nil
	}
	err := o.temp.Sync()
	if err = errors.Join(err, o.temp.Close()); err != nil {
		return fmt.Errorf("write the capture: %w", err)
	}
	if err := o.name(); err != nil {
		return err
	}
	o.temp = nil
	if err := syncFolder(filepath.Dir(o.path)); err != nil {
		return fmt.Errorf("write the capture: %w", err)
	}
	return nil
}

// name gives the temporary file its name. Without --force it goes by a link, which unlike a rename refuses a file that
// came to be meanwhile.
func (o *captureOutput) name() error {
	if !o.force {
		err := os.Link(o.temp.Name(), o.path)
		switch {
		case err == nil:
			if err := os.Remove(o.temp.Name()); err != nil {
				return fmt.Errorf("write the capture: %w", err)
			}
			return nil
		case errors.Is(err, fs.ErrExist):
			return o.exists()
		}
		// A file system without links: look once more.
		if err := o.check(); err != nil {
			return err
		}
	}
	if err := os.Rename(o.temp.Name(), o.path); err != nil {
		return fmt.Errorf("write the capture: %w", err)
	}
	return nil
}

// discard removes what was not committed. What was written to stdout so far is handed on.
func (o *captureOutput) discard() {
	if o.path == stdoutPath {
		_ = o.buf.Flush() // whoever cut the capture short has said so
		return
	}
	if o.temp == nil {
		return
	}
	_ = o.temp.Close()
	_ = os.Remove(o.temp.Name())
	o.temp = nil
}

func syncFolder(path string) (err error) {
	d, err := os.Open(path) //nolint:gosec // the folder of a file that the user names
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return d.Sync()
}
