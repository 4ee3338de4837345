package render

import (
	"fmt"
	"io"
	"strings"
)

// WriteTSV writes a header line and one line a row, cells separated by tabs, whole: nothing is cut. Within a cell tab,
// line end, carriage return and backslash are written \t, \n, \r and \\, other control bytes and bytes that are not
// UTF-8 as \xHH, so a line is always a row and a tab always a separator.
func (t *Table) WriteTSV(w io.Writer) error {
	if err := t.check(); err != nil {
		return err
	}
	names := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		names[i] = c.Name
	}
	if err := writeTSVLine(w, names); err != nil {
		return err
	}
	for _, row := range t.Rows {
		if err := writeTSVLine(w, row); err != nil {
			return err
		}
	}
	return nil
}

func writeTSVLine(w io.Writer, cells []string) error {
	out := make([]string, len(cells))
	for i, c := range cells {
		if strings.Contains(c, `\`) || !printable(c) {
			c = escape(c, "")
		}
		out[i] = c
	}
	if _, err := io.WriteString(w, strings.Join(out, "\t")+"\n"); err != nil {
		return fmt.Errorf("write tsv: %w", err)
	}
	return nil
}
