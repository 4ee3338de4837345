package purge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ArchiveInfo is one archive of a folder.
type ArchiveInfo struct {
	File string `json:"file"` // its name in the folder
	// Verified says that every byte of it was read and is what was written.
	Verified bool `json:"verified"`
	// Fault is what is wrong with it; empty: nothing was found.
	Fault  Fault  `json:"fault,omitempty"`
	Detail string `json:"detail,omitempty"`
	// Manifest is missing where it cannot be relied on.
	Manifest *Manifest `json:"manifest,omitempty"`
}

// Name is the file's name as OpenArchive takes it too: without what says that it is compressed lines.
func (i *ArchiveInfo) Name() string { return strings.TrimSuffix(i.File, archiveSuffix) }

// ListArchives lists the archives of a folder by name, and what runs that broke off have left. With verify every byte is
// read. An archive that is at fault is listed, not an error; errors are those of the folder and of ctx.
func ListArchives(ctx context.Context, dir string, verify bool) ([]ArchiveInfo, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list archives: %w", err)
	}
	names := map[string]bool{}
	for _, e := range entries {
		switch name := e.Name(); {
		case e.IsDir():
		case strings.HasSuffix(name, archiveSuffix), isArchiveTemp(name):
			names[name] = true
		case strings.HasSuffix(name, manifestSuffix):
			names[strings.TrimSuffix(name, manifestSuffix)+archiveSuffix] = true
		}
	}
	infos := make([]ArchiveInfo, 0, len(names))
	for name := range names {
		infos = append(infos, ArchiveInfo{File: name})
	}
	slices.SortFunc(infos, func(a, b ArchiveInfo) int { return strings.Compare(a.File, b.File) })
	for i := range infos {
		if err := infos[i].look(ctx, dir, verify); err != nil {
			return nil, err
		}
	}
	return infos, nil
}

func isArchiveTemp(name string) bool {
	return strings.HasPrefix(name, ".") && (strings.HasSuffix(name, archiveSuffix+tempSuffix) || strings.HasSuffix(name, manifestSuffix+tempSuffix))
}

// look fills in what is found of one archive. Whatever is wrong with it is a fault of it; only the end of ctx is an error.
func (i *ArchiveInfo) look(ctx context.Context, dir string, verify bool) error {
	a, err := OpenArchive(filepath.Join(dir, i.File))
	if err == nil {
		m := a.Manifest()
		i.Manifest = &m
		if verify {
			err = a.Verify(ctx)
			i.Verified = err == nil
		} else {
			err = a.verifySize()
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil {
		return nil
	}
	i.Fault, i.Detail = FaultUnreadable, err.Error()
	if fault, ok := errors.AsType[*ArchiveError](err); ok {
		i.Fault, i.Detail = fault.Fault, fault.words()
	}
	return nil
}

// verifySize looks at what costs nothing.
func (a *Archive) verifySize() error {
	f, err := a.open()
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if info.Size() != a.manifest.Bytes {
		return a.differs(info.Size())
	}
	return nil
}
