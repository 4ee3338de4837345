package reconcile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// undoFormat and undoVersion stand in the first line of an undo file.
const (
	undoFormat  = "idemctl reconcile undo"
	undoVersion = 1
)

// undoHead is the first line.
type undoHead struct {
	Format  string    `json:"format"`
	Version int       `json:"version"`
	Prefix  string    `json:"table_prefix"`
	Schema  string    `json:"schema"`
	Ledger  string    `json:"ledger_id"`
	Made    time.Time `json:"made"`
}

// UndoLine is one marker that a repair was about to change.
type UndoLine struct {
	Kind   Kind  `json:"kind"`
	Key    Bytes `json:"key"` // in Redis
	Before Bytes `json:"before"`
	// BeforeTTLMS is the time it had left; -1: no end.
	BeforeTTLMS int64 `json:"before_ttl_ms"`
	// Left is what the repair leaves; null: nothing, the key is deleted.
	Left *Bytes `json:"left"`
	// LeftTTLMS is the time that the repair gives it.
	LeftTTLMS int64     `json:"left_ttl_ms,omitempty"`
	At        time.Time `json:"at"` // by the ledger's clock
}

func (c *change) undoLine(now time.Time) UndoLine {
	l := UndoLine{Kind: c.kind, Key: Bytes(c.name), Before: Bytes(c.observed), BeforeTTLMS: milliseconds(c.observedTTL), At: now}
	var left Bytes
	switch c.op {
	case opExpire:
		left = Bytes(c.observed)
	case opSet:
		left = Bytes(c.value)
	default:
		return l
	}
	l.Left, l.LeftTTLMS = &left, milliseconds(c.ttl)
	return l
}

// UndoFile takes down what a repair is about to change, before it does. It is made when the first line is written, and never
// replaces a file.
type UndoFile struct {
	path string
	head undoHead
	file *os.File
}

// NewUndoFile returns an undo file that is not there yet.
func NewUndoFile(path string) *UndoFile { return &UndoFile{path: path} }

// Path is where it is, or "" while nothing was written.
func (u *UndoFile) Path() string {
	if u == nil || u.file == nil {
		return ""
	}
	return u.path
}

// write appends lines and makes sure that they are on disk.
func (u *UndoFile) write(lines []UndoLine) error {
	if u.file == nil {
		if err := u.create(); err != nil {
			return err
		}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for i := range lines {
		if err := enc.Encode(&lines[i]); err != nil {
			return fmt.Errorf("undo file %s: %w", u.path, err)
		}
	}
	if _, err := u.file.Write(b.Bytes()); err != nil {
		return fmt.Errorf("undo file %s: %w", u.path, err)
	}
	if err := u.file.Sync(); err != nil {
		return fmt.Errorf("undo file %s: %w", u.path, err)
	}
	return nil
}

func (u *UndoFile) create() error {
	f, err := os.OpenFile(u.path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("undo file: %w", err)
	}
	u.file = f
	head, err := json.Marshal(u.head)
	if err == nil {
		_, err = f.Write(append(head, '\n'))
	}
	if err == nil {
		err = syncFolder(filepath.Dir(u.path))
	}
	if err != nil {
		return fmt.Errorf("undo file %s: %w", u.path, err)
	}
	return nil
}

// syncFolder makes sure that a new file's name is on disk.
func syncFolder(path string) error {
	d, err := os.Open(path) //nolint:gosec // the folder of a file that the operator named
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Close ends the file.
func (u *UndoFile) Close() error {
	if u.file == nil {
		return nil
	}
	if err := u.file.Close(); err != nil {
		return fmt.Errorf("undo file %s: %w", u.path, err)
	}
	return nil
}

// UndoPlan says what an undo file would put back.
type UndoPlan struct {
	Path     string      `json:"file"`
	LedgerID string      `json:"ledger_id"`
	Made     time.Time   `json:"made"`
	Total    int64       `json:"total"`
	Kinds    []UndoCount `json:"kinds"`
	// Torn says that the last line is not whole: the run broke off while writing it, and had changed nothing of it yet.
	Torn bool `json:"torn,omitempty"`

	head undoHead
}

// UndoCount is how many lines there are of a kind.
type UndoCount struct {
	Kind  Kind  `json:"kind"`
	Lines int64 `json:"lines"`
}

// ErrUndoFile says that a file is no undo file of this program, or of another ledger.
var ErrUndoFile = errors.New("not an undo file of this ledger")

// ReadUndo reads a file wholly, so that a mistake in it shows before anything is done.
func ReadUndo(path string) (UndoPlan, error) {
	p := UndoPlan{Path: path, Kinds: []UndoCount{}}
	counts := map[Kind]int64{}
	head, torn, err := eachUndoLine(path, func(l UndoLine) error {
		counts[l.Kind]++
		p.Total++
		return nil
	})
	if err != nil {
		return p, err
	}
	p.head, p.LedgerID, p.Made, p.Torn = head, head.Ledger, head.Made, torn
	for _, k := range Kinds() {
		if n := counts[k]; n > 0 {
			p.Kinds = append(p.Kinds, UndoCount{Kind: k, Lines: n})
		}
	}
	return p, nil
}

// eachUndoLine calls fn with each whole line.
func eachUndoLine(path string, fn func(UndoLine) error) (head undoHead, torn bool, err error) {
	f, err := os.Open(path) //nolint:gosec // the operator named it
	if err != nil {
		return head, false, fmt.Errorf("undo file: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	r := bufio.NewReader(f)
	for number := 1; ; number++ {
		line, err := r.ReadBytes('\n')
		switch {
		case errors.Is(err, io.EOF):
			if number == 1 {
				return head, false, fmt.Errorf("undo file %s: %w: it has no first line", path, ErrUndoFile)
			}
			return head, len(line) > 0, nil
		case err != nil:
			return head, false, fmt.Errorf("undo file %s: %w", path, err)
		}
		if number == 1 {
			if err := json.Unmarshal(line, &head); err != nil || head.Format != undoFormat || head.Version != undoVersion {
				return head, false, fmt.Errorf("undo file %s: %w: its first line is another program's", path, ErrUndoFile)
			}
			continue
		}
		var l UndoLine
		if err := json.Unmarshal(line, &l); err != nil {
			return head, false, fmt.Errorf("undo file %s, line %d: %w", path, number, err)
		}
		if l.Key == "" || l.At.IsZero() {
			return head, false, fmt.Errorf("undo file %s, line %d: %w: it names no key or no time", path, number, ErrUndoFile)
		}
		if err := fn(l); err != nil {
			return head, false, err
		}
	}
}

// headOf says whose markers an undo file is about.
func (f *fixer) headOf(schema string) undoHead {
	return undoHead{
		Format: undoFormat, Version: undoVersion, Prefix: f.opts.Scheme.Prefix(), Schema: schema,
		Ledger: f.books.current().LedgerID, Made: f.clock.now(),
	}
}
