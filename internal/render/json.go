package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// JSON writes a result as one document: {"command", "version", "result"}, indented, with a line end.
func JSON(w io.Writer, command, version string, result any) error {
	return writeJSON(w, "  ", struct {
		Command string `json:"command"`
		Version string `json:"version"`
		Result  any    `json:"result"`
	}{command, version, result})
}

// JSONError writes what there is to say where a command has no result: {"command", "version", "error"} on one line, so
// that it is as good in JSON lines as it is as a document.
func JSONError(w io.Writer, command, version, message string) error {
	return writeJSON(w, "", struct {
		Command string `json:"command"`
		Version string `json:"version"`
		Error   string `json:"error"`
	}{command, version, message})
}

// ErrNoObject is a value for JSON lines that is no JSON object, so that command and version cannot be put in.
var ErrNoObject = errors.New("not a JSON object")

// JSONLine writes v, which must come out as a JSON object, on one line with "command" and "version" before its own
// members.
func JSONLine(w io.Writer, command, version string, v any) error {
	head, err := encode("", struct {
		Command string `json:"command"`
		Version string `json:"version"`
	}{command, version})
	if err != nil {
		return err
	}
	body, err := encode("", v)
	if err != nil {
		return err
	}
	if len(body) < 2 || body[0] != '{' {
		return fmt.Errorf("write json line: %w", ErrNoObject)
	}
	line := head
	if rest := body[1:]; rest[0] != '}' {
		line = append(append(head[:len(head)-1], ','), rest...)
	}
	return writeLine(w, line)
}

// WriteJSONL writes each row as one JSON object a line, in the order of the columns.
func (t *Table) WriteJSONL(w io.Writer, command, version string) error {
	if err := t.check(); err != nil {
		return err
	}
	for _, row := range t.Rows {
		if err := JSONLine(w, command, version, rowObject{t.Columns, row}); err != nil {
			return err
		}
	}
	return nil
}

// rowObject is a table's row as a JSON object in the order of its columns, which a map would not keep.
type rowObject struct {
	columns []Column
	cells   []string
}

// MarshalJSON implements json.Marshaler.
func (r rowObject) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, c := range r.columns {
		if i > 0 {
			b = append(b, ',')
		}
		name, err := encode("", c.Name)
		if err != nil {
			return nil, err
		}
		value, err := cellValue(c, r.cells[i])
		if err != nil {
			return nil, err
		}
		b = append(append(append(b, name...), ':'), value...)
	}
	return append(b, '}'), nil
}

func cellValue(c Column, cell string) ([]byte, error) {
	if c.Number {
		if cell == "" {
			return []byte("null"), nil
		}
		var n json.Number
		if json.Unmarshal([]byte(cell), &n) == nil && n.String() == cell {
			return []byte(cell), nil
		}
	}
	return encode("", cell)
}

func writeJSON(w io.Writer, indent string, v any) error {
	b, err := encode(indent, v)
	if err != nil {
		return err
	}
	return writeLine(w, b)
}

func writeLine(w io.Writer, line []byte) error {
	if _, err := w.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write json: %w", err)
	}
	return nil
}

// encode is json.Marshal without the escapes that only a web page needs.
func encode(indent string, v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode json: %w", err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}
