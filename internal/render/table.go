package render

import (
	"errors"
	"fmt"
)

// Align says at which side of its column a cell stands.
type Align uint8

// The alignments.
const (
	Left Align = iota
	Right
)

// Column describes one column of a Table.
type Column struct {
	// Name is the header, printed as it is written, and the field's name in JSON lines.
	Name  string
	Align Align
	// Shrink marks a column that may be cut (with "…") where a table is wider than the page. Columns without it are cut
	// only when that alone is not enough.
	Shrink bool
	// Min is the narrowest a cut makes the column, in terminal cells; 0 means 8.
	Min int
	// Number makes the cells bare numbers in JSON lines. A cell that is no number stays text, an empty one is null.
	Number bool
	// Once leaves a text cell empty where it, and every Once cell before it, repeats the row above. Formats for programs have
	// it in every row.
	Once bool
}

// Table is rows under named columns: the one value that the text, TSV and JSON lines renderers share.
type Table struct {
	// Title is a line above the table in text form; it may be empty.
	Title   string
	Columns []Column
	Rows    [][]string
}

// ErrTable is a table whose rows do not fit its columns: a defect of the caller, refused rather than shown shifted.
var ErrTable = errors.New("malformed table")

// Add appends a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

func (t *Table) check() error {
	if len(t.Columns) == 0 {
		return fmt.Errorf("%w %q: no columns", ErrTable, t.Title)
	}
	for i, row := range t.Rows {
		if len(row) != len(t.Columns) {
			return fmt.Errorf("%w %q: row %d has %d cells, the table %d columns", ErrTable, t.Title, i, len(row), len(t.Columns))
		}
	}
	return nil
}
