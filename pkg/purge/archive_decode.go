package purge

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
)

// lineValue is one column's value as the server wrote it.
type lineValue struct {
	null  bool
	bytes []byte
}

// lineDecoder reads the lines that lineEncoder writes, and only those: members in the order of the columns, no blanks.
type lineDecoder struct {
	encoder *lineEncoder // its names
	values  []lineValue
	buf     []byte // of the values of one line
}

func newLineDecoder(columns []ArchiveColumn) *lineDecoder {
	return &lineDecoder{encoder: newLineEncoder(columns), values: make([]lineValue, len(columns))}
}

var errLineForm = errors.New("it has not the form of a row of these columns")

// decode returns the values, valid until the next call.
func (d *lineDecoder) decode(line []byte) ([]lineValue, error) {
	if cap(d.buf) < len(line) {
		d.buf = make([]byte, 0, 2*len(line)) // values are never longer than their line: the buffer is not moved below
	}
	d.buf = d.buf[:0]
	rest := line
	for i := range d.values {
		isBase64 := false
		after, ok := bytes.CutPrefix(rest, d.encoder.names[i])
		if !ok {
			after, isBase64 = bytes.CutPrefix(rest, d.encoder.base64[i])
			if !isBase64 {
				return nil, fmt.Errorf("%w: column %d", errLineForm, i+1)
			}
		}
		var err error
		if rest, err = d.value(&d.values[i], after, d.encoder.kinds[i], isBase64); err != nil {
			return nil, fmt.Errorf("column %d: %w", i+1, err)
		}
	}
	if string(rest) != "}\n" {
		return nil, errLineForm
	}
	return d.values, nil
}

func (d *lineDecoder) value(v *lineValue, in []byte, kind valueKind, isBase64 bool) ([]byte, error) {
	*v = lineValue{}
	if rest, ok := bytes.CutPrefix(in, []byte("null")); ok {
		v.null = true
		return rest, nil
	}
	if kind == kindNumber || kind == kindFloat {
		end := bytes.IndexAny(in, ",}")
		if end <= 0 {
			return nil, errLineForm
		}
		v.bytes = in[:end]
		return in[end:], nil
	}
	from := len(d.buf)
	rest, err := d.text(in)
	if err != nil {
		return nil, err
	}
	text := d.buf[from:]
	switch {
	case isBase64:
		n, err := base64.StdEncoding.Decode(text, text)
		if err != nil {
			return nil, err
		}
		text = text[:n]
	case kind == kindHex:
		n, err := hex.Decode(text, text)
		if err != nil {
			return nil, err
		}
		text = text[:n]
	case kind == kindTime:
		if len(text) > dateLength {
			text[dateLength] = ' '
			text = bytes.TrimSuffix(text, []byte("Z"))
		}
	}
	v.bytes = text
	return rest, nil
}

// text reads a JSON string into the buffer and returns what follows it.
func (d *lineDecoder) text(in []byte) ([]byte, error) {
	if len(in) == 0 || in[0] != '"' {
		return nil, errLineForm
	}
	for i := 1; i < len(in); i++ {
		switch in[i] {
		case '"':
			return in[i+1:], nil
		case '\\':
			i++
			if i == len(in) {
				return nil, errLineForm
			}
			c := in[i]
			switch c {
			case '"', '\\':
			case 'n':
				c = '\n'
			case 'r':
				c = '\r'
			case 't':
				c = '\t'
			case 'u':
				if i+4 >= len(in) {
					return nil, errLineForm
				}
				n, err := strconv.ParseUint(string(in[i+1:i+5]), 16, 8)
				if err != nil {
					return nil, errLineForm
				}
				c = byte(n)
				i += 4
			default:
				return nil, errLineForm
			}
			d.buf = append(d.buf, c)
		default:
			d.buf = append(d.buf, in[i])
		}
	}
	return nil, errLineForm
}
