package purge

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// archiveOutput is a file that gets its name only when it is whole and on the disk: written beside it, synced, then
// renamed, and the folder synced.
type archiveOutput struct {
	path string // under which it appears
	temp string
	file *os.File
	buf  *bufio.Writer
	hash hash.Hash
	size int64
	// named says that the file has its name.
	named bool
	// manifest is the second file of the same archive, for discard.
	manifest *archiveOutput
}

const outputBuffer = 256 << 10

// createArchive begins a file. Its mode is 0600: keys are not for everyone on the machine.
func createArchive(path string) (*archiveOutput, error) {
	if err := refuseExisting(path); err != nil {
		return nil, err
	}
	o := &archiveOutput{path: path, temp: filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+tempSuffix), hash: sha256.New()}
	f, err := os.OpenFile(o.temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, fmt.Errorf("%w, half written: %s", ErrArchiveExists, o.temp)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrArchiveFolder, err)
	}
	o.file, o.buf = f, bufio.NewWriterSize(f, outputBuffer)
	return o, nil
}

func refuseExisting(path string) error {
	_, err := os.Lstat(path)
	switch {
	case err == nil:
		return fmt.Errorf("%w: %s", ErrArchiveExists, path)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return fmt.Errorf("%w: %w", ErrArchiveFolder, err)
}

// Write implements io.Writer.
func (o *archiveOutput) Write(p []byte) (int, error) {
	n, err := o.buf.Write(p)
	_, _ = o.hash.Write(p[:n]) // never fails, by its documentation
	o.size += int64(n)
	return n, err
}

func (o *archiveOutput) sum() string { return hex.EncodeToString(o.hash.Sum(nil)) }

// commit puts the file on the disk under its name, which must still be free.
func (o *archiveOutput) commit() error {
	if err := o.buf.Flush(); err != nil {
		return err
	}
	if err := o.file.Sync(); err != nil {
		return err
	}
	if err := o.file.Close(); err != nil {
		return err
	}
	if err := o.name(); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(o.path))
}

// name gives the file its name. A link, unlike a rename, refuses one that someone has taken meanwhile.
func (o *archiveOutput) name() error {
	err := os.Link(o.temp, o.path)
	switch {
	case err == nil:
		o.named = true
		return os.Remove(o.temp)
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%w: %s", ErrArchiveExists, o.path)
	}
	// A file system without links: look once more.
	if err := refuseExisting(o.path); err != nil {
		return err
	}
	if err := os.Rename(o.temp, o.path); err != nil {
		return err
	}
	o.named = true
	return nil
}

// discard removes what was made: an archive that nobody may rely on must not lie there. Errors of it say nothing new.
func (o *archiveOutput) discard() {
	if o.manifest != nil {
		o.manifest.discard()
	}
	if o.named {
		_ = os.Remove(o.path)
	}
	_ = o.file.Close()
	_ = os.Remove(o.temp)
}

func syncFolder(path string) (err error) {
	d, err := os.Open(path) //nolint:gosec // the folder of a file that the operator names
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return d.Sync()
}

// noSpace makes the system's word for a full disk ErrNoSpace.
func noSpace(err error, folder string) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w in %s: %w", ErrNoSpace, folder, err)
	}
	return err
}
