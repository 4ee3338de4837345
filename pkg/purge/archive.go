package purge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// The names of an archive's two files: <table>.<cutoff>.<run> and one of these.
const (
	archiveSuffix  = ".jsonl.zst"
	manifestSuffix = ".manifest.json"
	tempSuffix     = ".tmp"
)

// Archive is one written archive: JSON lines, compressed with zstd, and the manifest that describes them.
//
// A line is one row, an object with one member for each column of the table, in the table's order and without blanks:
// times as RFC 3339 in UTC with the column's own precision, numbers by their digits, BINARY and BIT columns in hexadecimal,
// other text and bytes as a string, or, where they are not valid UTF-8, in base64 under the column's name with _b64 added;
// NULL is null. The lines are in order of expiry, creation time and primary key, as far as the table has an index for it.
type Archive struct {
	path     string // of the compressed file
	manifest Manifest
}

// Path is where the compressed lines are.
func (a *Archive) Path() string { return a.path }

// ManifestPath is where the manifest is.
func (a *Archive) ManifestPath() string { return manifestPath(a.path) }

// Manifest describes the archive.
func (a *Archive) Manifest() Manifest { return a.manifest }

func manifestPath(data string) string {
	return strings.TrimSuffix(data, archiveSuffix) + manifestSuffix
}

// ErrNotArchive says that a file has not the name of an archive or of a manifest.
var ErrNotArchive = errors.New("not the name of an archive: expected ….jsonl.zst or ….manifest.json")

// OpenArchive reads the manifest of an archive that is named by either of its files, or by what their names share. The lines are not looked at: see
// Verify. Errors are *ArchiveError, ErrNotArchive, or those of the file system.
func OpenArchive(path string) (*Archive, error) {
	data := path
	if base, ok := strings.CutSuffix(path, manifestSuffix); ok {
		data = base + archiveSuffix
	}
	name := filepath.Base(data)
	if strings.HasPrefix(name, ".") && strings.HasSuffix(name, tempSuffix) {
		return nil, &ArchiveError{Path: path, Fault: FaultUnfinished, Detail: "a run left it half written; its rows were not deleted"}
	}
	if !strings.HasSuffix(name, archiveSuffix) {
		if _, err := os.Stat(data + manifestSuffix); err != nil {
			return nil, fmt.Errorf("%s: %w", path, ErrNotArchive)
		}
		data += archiveSuffix
	}
	b, err := os.ReadFile(manifestPath(data))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(data); err != nil {
			return nil, fmt.Errorf("open archive: %w", err)
		}
		return nil, &ArchiveError{Path: data, Fault: FaultNoManifest,
			Detail: "there is no " + filepath.Base(manifestPath(data)) + " beside it: it was not finished, or lost it"}
	}
	if err != nil {
		return nil, fmt.Errorf("open archive: %w", err)
	}
	m, err := decodeManifest(b)
	if err != nil {
		return nil, &ArchiveError{Path: manifestPath(data), Fault: FaultManifest, Detail: "it cannot be relied on", Err: err}
	}
	return &Archive{path: data, manifest: m}, nil
}

// Verify reads every byte of the archive and compares it with its manifest (hazard P8). Errors are *ArchiveError, or those
// of the file system and of ctx.
func (a *Archive) Verify(ctx context.Context) error {
	if err := a.verifyFile(ctx); err != nil {
		return err
	}
	r, err := a.Rows(ctx)
	if err != nil {
		return err
	}
	return errors.Join(r.drain(), r.Close())
}

// verifyFile compares the compressed bytes with the manifest.
func (a *Archive) verifyFile(ctx context.Context) (err error) {
	f, err := a.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("verify archive: %w", err)
	}
	size := info.Size()
	if size == a.manifest.Bytes {
		dropCache(f)
		sum, err := hashOf(ctx, f)
		if err != nil {
			return fmt.Errorf("verify archive %s: %w", a.path, err)
		}
		if sum == a.manifest.SHA256 {
			return nil
		}
	}
	return a.differs(size)
}

// differs says how a file that is not the manifest's came to be so.
func (a *Archive) differs(size int64) error {
	m := &a.manifest
	e := &ArchiveError{Path: a.path, Fault: FaultChanged, Detail: "its checksum is not the one in the manifest"}
	switch {
	case m.File != filepath.Base(a.path):
		e.Path, e.Fault, e.Detail = a.ManifestPath(), FaultWrongManifest, "it describes "+m.File
	case size < m.Bytes:
		e.Fault, e.Detail = FaultTruncated, fmt.Sprintf("it has %d bytes, the manifest says %d", size, m.Bytes)
	case size > m.Bytes:
		e.Detail = fmt.Sprintf("it has %d bytes, the manifest says %d", size, m.Bytes)
	}
	return e
}

func (a *Archive) open() (*os.File, error) {
	f, err := os.Open(a.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &ArchiveError{Path: a.ManifestPath(), Fault: FaultNoData, Detail: "there is no " + filepath.Base(a.path) + " beside it"}
	}
	if err != nil {
		return nil, fmt.Errorf("open archive: %w", err)
	}
	return f, nil
}
