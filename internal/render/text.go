package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/pkg/twwidth"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
)

// DefaultWidth is the width of a page where none is known, in terminal cells.
const DefaultWidth = 80

const (
	columnGap  = 2 // spaces between two columns
	defaultMin = 8 // the narrowest a cut makes a column that names no minimum
	ellipsis   = "…"
)

// WriteText writes the table for people, at most width cells wide (0: DefaultWidth): no borders, a rule under the
// header, headers as they are named, cells on one line each and escaped (T2, T4).
func (t *Table) WriteText(w io.Writer, width int) error {
	if err := t.check(); err != nil {
		return err
	}
	if width <= 0 {
		width = DefaultWidth
	}
	header, rows := t.cells()
	widths := fit(t.Columns, header, rows, width)
	cut(header, widths)
	for _, row := range rows {
		cut(row, widths)
	}
	var b strings.Builder
	if err := layout(&b, t.Columns, header, rows); err != nil {
		return err
	}
	if t.Title != "" {
		title := []string{Text(t.Title)}
		cut(title, []int{width})
		if _, err := io.WriteString(w, title[0]+"\n"); err != nil {
			return fmt.Errorf("write table: %w", err)
		}
	}
	for line := range strings.Lines(b.String()) {
		// The library pads the last column too; blanks at a line's end are noise in diffs and tests.
		if _, err := io.WriteString(w, strings.TrimRight(line, " \n")+"\n"); err != nil {
			return fmt.Errorf("write table: %w", err)
		}
	}
	return nil
}

// cells are the table's texts, made safe for a terminal, in slices that may be changed.
func (t *Table) cells() (header []string, rows [][]string) {
	header = make([]string, len(t.Columns))
	for i, c := range t.Columns {
		header[i] = Text(c.Name)
	}
	rows = make([][]string, len(t.Rows))
	for i, row := range t.Rows {
		rows[i] = make([]string, len(row))
		for j, cell := range row {
			rows[i][j] = Text(cell)
		}
	}
	t.blankRepeats(rows)
	return header, rows
}

// blankRepeats empties the cells of Once columns that repeat the row above.
func (t *Table) blankRepeats(rows [][]string) {
	for i := len(rows) - 1; i > 0; i-- {
		for j, c := range t.Columns {
			if c.Once && t.Rows[i][j] != t.Rows[i-1][j] {
				break
			}
			if c.Once {
				rows[i][j] = ""
			}
		}
	}
}

func layout(w io.Writer, columns []Column, header []string, rows [][]string) error {
	align := make([]tw.Align, len(columns))
	for i, c := range columns {
		align[i] = tw.AlignLeft
		if c.Align == Right {
			align[i] = tw.AlignRight
		}
	}
	cell := tw.CellConfig{
		Formatting: tw.CellFormatting{AutoWrap: tw.WrapNone, AutoFormat: tw.Off},
		Alignment:  tw.CellAlignment{PerColumn: align},
		Padding:    tw.CellPadding{Global: tw.Padding{Left: "", Right: strings.Repeat(" ", columnGap), Overwrite: true}},
	}
	table := tablewriter.NewTable(w,
		tablewriter.WithRenderer(renderer.NewBlueprint(tw.Rendition{
			Borders: tw.BorderNone,
			Symbols: tw.NewSymbols(tw.StyleASCII),
			Settings: tw.Settings{
				Separators: tw.SeparatorsNone,
				Lines:      tw.LinesNone,
			},
		})),
		tablewriter.WithHeaderConfig(cell),
		tablewriter.WithRowConfig(cell),
		tablewriter.WithTrimSpace(tw.Off),
	)
	table.Header(header)
	for _, row := range rows {
		if err := table.Append(row); err != nil {
			return fmt.Errorf("lay out table: %w", err)
		}
	}
	if err := table.Render(); err != nil {
		return fmt.Errorf("lay out table: %w", err)
	}
	return nil
}

// fit decides each column's width, so that all together and the gaps between them fit the page: first the columns that
// may shrink give way, the widest first, then the others. A page too narrow even for the minima is overrun: cutting
// further would leave nothing to read.
func fit(columns []Column, header []string, rows [][]string, page int) []int {
	widths := make([]int, len(columns))
	total := columnGap * (len(columns) - 1)
	for i := range columns {
		widths[i] = max(1, twwidth.Width(header[i]))
		for _, row := range rows {
			widths[i] = max(widths[i], twwidth.Width(row[i]))
		}
		total += widths[i]
	}
	for _, shrinkable := range []bool{true, false} {
		for total > page {
			widest := -1
			for i, c := range columns {
				if c.Shrink == shrinkable && widths[i] > minimum(c) && (widest < 0 || widths[i] > widths[widest]) {
					widest = i
				}
			}
			if widest < 0 {
				break
			}
			widths[widest]--
			total--
		}
	}
	return widths
}

func minimum(c Column) int {
	if c.Min > 0 {
		return c.Min
	}
	return defaultMin
}

func cut(cells []string, widths []int) {
	for i, c := range cells {
		cells[i] = Cut(c, widths[i])
	}
}

// Cut shortens one line of text to width cells, with "…" in place of what is missing.
func Cut(s string, width int) string {
	if twwidth.Width(s) <= width {
		return s
	}
	return twwidth.Truncate(s, width, ellipsis)
}
