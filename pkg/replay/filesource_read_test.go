package replay

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
)

// Lines come whole whatever the size of the read buffer, one that is too long is left out alone, and a last one without a
// line feed counts.
func TestLineReader(t *testing.T) {
	t.Parallel()
	const most = 100
	long := strings.Repeat("a", most)
	for _, c := range []struct {
		in   string
		want []string // "!" stands for a line that is too long
	}{
		{"", nil},
		{"\n", []string{""}},
		{"x", []string{"x"}},
		{"x\n\ny\n", []string{"x", "", "y"}},
		{long[:most-1] + "\ny", []string{long[:most-1], "y"}},
		{long + "\ny\n", []string{"!", "y"}},
		{long + long + long + "\ny", []string{"!", "y"}},
		{"x\n" + long + "b", []string{"x", "!"}},
	} {
		r := lineReader{r: bufio.NewReaderSize(strings.NewReader(c.in), 16), most: most}
		var got []string
		for {
			line, err := r.next()
			if errors.Is(err, io.EOF) {
				break
			}
			if errors.Is(err, errLineTooLong) {
				line = []byte("!")
			} else if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(line))
		}
		if strings.Join(got, "|") != strings.Join(c.want, "|") || len(got) != len(c.want) {
			t.Errorf("%.20q is read as %.40q, want %.40q", c.in, got, c.want)
		}
	}
	failing := lineReader{r: bufio.NewReader(io.MultiReader(strings.NewReader("x"), errReader{})), most: most}
	if line, err := failing.next(); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a failing read gives %q, %v", line, err)
	}
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, io.ErrClosedPipe }
