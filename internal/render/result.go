package render

import (
	"fmt"
	"io"
)

// Result is what a command has to say, once, for every format.
type Result struct {
	// Value is the whole result for JSON. Nil: the rows of the tables.
	Value any
	// Tables are shown one after the other as text and as TSV, with an empty line between them.
	Tables []Table
	// Lines are the objects of JSON lines. Nil: the rows of the first table, or without tables Value as one line.
	Lines []any
	// Notes follow the tables as text: a summary, what to do next. Not part of TSV.
	Notes []string
}

// Printer writes results in one format.
type Printer struct {
	W       io.Writer
	Format  Format
	Command string // as typed, without the program's name: "partition list"
	Version string
	Width   int // of a page of text, in terminal cells; 0 means DefaultWidth
}

// Print writes r in the printer's format.
func (p Printer) Print(r Result) error {
	switch p.Format {
	case FormatJSON:
		return JSON(p.W, p.Command, p.Version, r.value())
	case FormatJSONL:
		return p.printLines(r)
	case FormatTSV:
		return p.printTables(r.Tables, func(t *Table) error { return t.WriteTSV(p.W) })
	case FormatTable:
		if err := p.printTables(r.Tables, func(t *Table) error { return t.WriteText(p.W, p.Width) }); err != nil {
			return err
		}
		return p.printNotes(r)
	}
	return fmt.Errorf("%w %q", ErrFormat, string(p.Format))
}

func (r Result) value() any {
	if r.Value != nil {
		return r.Value
	}
	rows := []rowObject{}
	for i := range r.Tables {
		for _, row := range r.Tables[i].Rows {
			rows = append(rows, rowObject{r.Tables[i].Columns, row})
		}
	}
	return rows
}

func (p Printer) printLines(r Result) error {
	switch {
	case r.Lines != nil:
		for _, l := range r.Lines {
			if err := JSONLine(p.W, p.Command, p.Version, l); err != nil {
				return err
			}
		}
		return nil
	case len(r.Tables) > 0:
		return r.Tables[0].WriteJSONL(p.W, p.Command, p.Version)
	}
	return JSONLine(p.W, p.Command, p.Version, r.Value)
}

func (p Printer) printTables(tables []Table, write func(*Table) error) error {
	for i := range tables {
		if i > 0 {
			if err := p.line(""); err != nil {
				return err
			}
		}
		if err := write(&tables[i]); err != nil {
			return err
		}
	}
	return nil
}

func (p Printer) printNotes(r Result) error {
	if len(r.Tables) > 0 && len(r.Notes) > 0 {
		if err := p.line(""); err != nil {
			return err
		}
	}
	for _, n := range r.Notes {
		if err := p.line(Lines(n)); err != nil {
			return err
		}
	}
	return nil
}

func (p Printer) line(s string) error {
	if _, err := io.WriteString(p.W, s+"\n"); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}
