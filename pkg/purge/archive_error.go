package purge

import (
	"errors"
	"fmt"
)

// The reasons for which an archive cannot be written.
var (
	// ErrNoSpace says that the archive folder's disk has too little room, before or while the archive was written.
	ErrNoSpace = errors.New("not enough free space")
	// ErrArchiveFolder says that the archive folder is not there, is no folder, or takes no file.
	ErrArchiveFolder = errors.New("the archive folder cannot be used")
	// ErrArchiveExists says that a file of the archive's name is there already. It is never overwritten.
	ErrArchiveExists = errors.New("an archive of this name is there already")
)

// Fault says what is wrong with an archive.
type Fault string

// The faults.
const (
	FaultUnfinished    Fault = "unfinished"     // a temporary file that a run left behind
	FaultNoManifest    Fault = "no manifest"    // the run ended between the file and its manifest
	FaultNoData        Fault = "no data"        // a manifest without its file
	FaultManifest      Fault = "bad manifest"   // the manifest is not what was written
	FaultWrongManifest Fault = "wrong manifest" // it describes another archive
	FaultTruncated     Fault = "truncated"      // the file is shorter than it was
	FaultChanged       Fault = "changed"        // the file is not what was written
	FaultUnreadable    Fault = "unreadable"     // the file system does not let it be read
	FaultContent       Fault = "bad content"    // the file is what was written, and its lines are not what the manifest says
)

// ArchiveError is an archive that must not be relied on.
type ArchiveError struct {
	Path   string // of the file that is at fault
	Fault  Fault
	Detail string // one line: what was found
	Err    error  // what lies below, or nil
}

func (e *ArchiveError) Error() string {
	return fmt.Sprintf("archive %s: %s: %s", e.Path, e.Fault, e.words())
}

func (e *ArchiveError) words() string {
	if e.Err != nil {
		return e.Detail + ": " + e.Err.Error()
	}
	return e.Detail
}

// Unwrap returns the error below.
func (e *ArchiveError) Unwrap() error { return e.Err }

// MismatchError is a table that does not hold what was archived: it must not be dropped.
type MismatchError struct {
	Table   string
	Archive string // path
	Detail  string // one line: what differs
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("table %s is not what archive %s holds: %s", e.Table, e.Archive, e.Detail)
}
