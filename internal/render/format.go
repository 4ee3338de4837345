package render

import (
	"errors"
	"fmt"
)

// Format is an output format of a command.
type Format string

// The output formats.
const (
	FormatTable Format = "table" // for people: fits the width given
	FormatJSON  Format = "json"  // one document: {"command", "version", "result"}
	FormatJSONL Format = "jsonl" // one object a line, each with command and version
	FormatTSV   Format = "tsv"   // a header line, then one line a row
)

// ErrFormat is an output format that does not exist.
var ErrFormat = errors.New("unknown output format")

// Formats lists the output formats in the order they are shown.
func Formats() []string {
	return []string{string(FormatTable), string(FormatJSON), string(FormatJSONL), string(FormatTSV)}
}

// ParseFormat reads the name of a format; anything else is ErrFormat.
func ParseFormat(s string) (Format, error) {
	switch f := Format(s); f {
	case FormatTable, FormatJSON, FormatJSONL, FormatTSV:
		return f, nil
	}
	return "", fmt.Errorf("%w %q", ErrFormat, s)
}

// IsJSON reports a format whose readers are programs that parse every line or document.
func (f Format) IsJSON() bool { return f == FormatJSON || f == FormatJSONL }
