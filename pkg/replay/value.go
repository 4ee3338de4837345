package replay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// valueKind is what a path led to.
type valueKind uint8

const (
	valueAbsent valueKind = iota
	valueNull
	valueBool
	valueNumber
	valueString
	valueArray
	valueObject
)

func kindOf(k jsontext.Kind) valueKind {
	switch k {
	case jsontext.KindNull:
		return valueNull
	case jsontext.KindTrue, jsontext.KindFalse:
		return valueBool
	case jsontext.KindNumber:
		return valueNumber
	case jsontext.KindString:
		return valueString
	case jsontext.KindBeginArray:
		return valueArray
	case jsontext.KindBeginObject:
		return valueObject
	default:
		return valueAbsent
	}
}

// describe ends the sentence "x is …".
func (k valueKind) describe() string {
	switch k {
	case valueAbsent:
		return "missing"
	case valueNull:
		return "null"
	case valueBool:
		return "a boolean"
	case valueNumber:
		return "a number"
	case valueString:
		return "a text"
	case valueArray:
		return "an array"
	case valueObject:
		return "an object"
	default:
		return "unknown"
	}
}

// foundValue is the JSON text at the end of a path. raw aliases the record's value.
type foundValue struct {
	kind valueKind
	raw  []byte
}

// text is a string without its quotes and escapes, or a number's digits as they were written. Not a copy where none is
// needed.
func (v foundValue) text() []byte {
	if v.kind != valueString {
		return v.raw
	}
	if bytes.IndexByte(v.raw, '\\') < 0 {
		return v.raw[1 : len(v.raw)-1]
	}
	// The tokenizer has checked the string, so there is no error to come.
	text, err := jsontext.AppendUnquote(nil, v.raw)
	if err != nil {
		return nil
	}
	return text
}

// valueReader finds the values of a pathTree in one document. It is for one goroutine; its memory is reused.
type valueReader struct {
	tree  *pathTree
	buf   bytes.Buffer
	dec   *jsontext.Decoder
	found []foundValue // by slot
}

func newValueReader(t *pathTree) *valueReader {
	r := &valueReader{tree: t, found: make([]foundValue, len(t.paths))}
	r.dec = jsontext.NewDecoder(&r.buf)
	return r
}

const utf8BOM = "\xef\xbb\xbf"

// cutBOM takes a byte-order mark off; some producers write one before their JSON.
func cutBOM(b []byte) (rest []byte, found bool) {
	if len(b) >= len(utf8BOM) && string(b[:len(utf8BOM)]) == utf8BOM {
		return b[len(utf8BOM):], true
	}
	return b, false
}

// read walks the whole of value once, so that what is wrong anywhere in it is noticed, and fills found. The tokenizer
// reads in place, from a bytes.Buffer, and never writes to it: found aliases value. The error is in words, for the field "value".
func (r *valueReader) read(value []byte) error {
	clear(r.found)
	body, skipped := cutBOM(value)
	switch {
	case value == nil:
		return errors.New("is null: a tombstone, which deletes and carries no message")
	case len(body) == 0:
		return errors.New("is empty")
	case body[0] == 0:
		return errors.New(describeFrame(body))
	}
	r.buf = *bytes.NewBuffer(body)
	r.dec.Reset(&r.buf)
	defer r.release()
	err := r.walk(r.dec, r.tree.root)
	if err == nil {
		err = r.atEnd(body)
	}
	if err == nil {
		return nil
	}
	base := 0
	if skipped {
		base = len(utf8BOM)
	}
	return errors.New(describeJSONError(err, body, base))
}

// release lets go of the record's memory: a reader waits in a pool for much longer than a record lives.
func (r *valueReader) release() {
	r.buf = bytes.Buffer{}
	r.dec.Reset(&r.buf)
}

var errTwoValues = errors.New("is not one JSON value")

// atEnd checks that nothing but white space follows the value.
func (r *valueReader) atEnd(body []byte) error {
	at := r.dec.InputOffset()
	switch _, err := r.dec.ReadToken(); {
	case errors.Is(err, io.EOF):
		return nil
	case err == nil:
		return fmt.Errorf("%w: another one follows at byte %d", errTwoValues, at)
	case len(bytes.TrimLeft(body[at:], " \t\r\n")) == 0:
		return nil
	default:
		return err
	}
}

// walk reads the next value of dec, whose place in the tree is node; nil: no path leads there.
func (r *valueReader) walk(dec *jsontext.Decoder, node *pathNode) error {
	if node == nil {
		_, err := dec.ReadValue()
		return err
	}
	kind := kindOf(dec.PeekKind())
	inner := node.members != nil && (kind == valueObject || kind == valueArray)
	if inner && node.slot < 0 {
		return r.walkInside(dec, node, kind)
	}
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
	if node.slot >= 0 {
		r.found[node.slot] = foundValue{kind: kind, raw: raw}
	}
	if inner {
		// One path ends here and another goes on: what lies inside is read a second time, now known to be sound.
		return r.walkInside(jsontext.NewDecoder(bytes.NewBuffer(raw)), node, kind)
	}
	return nil
}

func (r *valueReader) walkInside(dec *jsontext.Decoder, node *pathNode, kind valueKind) error {
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	closing := jsontext.KindEndObject
	if kind == valueArray {
		closing = jsontext.KindEndArray
	}
	for i := 0; dec.PeekKind() != closing; i++ {
		child := node.elements[i]
		if kind == valueObject {
			name, err := dec.ReadValue()
			if err != nil {
				return err
			}
			child = node.members[string(foundValue{kind: valueString, raw: name}.text())]
		}
		if err := r.walk(dec, child); err != nil {
			return err
		}
	}
	_, err := dec.ReadToken()
	return err
}

// describeFrame names what a value that starts with a zero byte most likely is.
func describeFrame(b []byte) string {
	if len(b) < 5 {
		return "starts with a zero byte: it is binary, not JSON"
	}
	id := uint32(b[1])<<24 | uint32(b[2])<<16 | uint32(b[3])<<8 | uint32(b[4])
	return fmt.Sprintf("is framed by a schema registry (zero byte, schema id %d): Avro or Protobuf, not JSON", id)
}

// describeJSONError turns the tokenizer's error into a reason. The kinds that an engineer must tell apart are recognised
// by the byte they stopped at. base is what was skipped before body.
func describeJSONError(err error, body []byte, base int) string {
	syntax, isSyntax := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case errors.Is(err, errTwoValues):
		return err.Error()
	case errors.Is(err, io.EOF):
		return "is not JSON: it is white space only"
	case !isSyntax:
		return "is not JSON: " + err.Error()
	case errors.Is(err, jsontext.ErrDuplicateName):
		return "has the member " + quoteShort(syntax.JSONPointer.LastToken()) + " twice in one object" + within(syntax.JSONPointer.Parent())
	}
	at := int(max(0, min(syntax.ByteOffset, int64(len(body)))))
	rest := body[at:]
	place := " at byte " + strconv.Itoa(at+base)
	switch r, n := utf8.DecodeRune(rest); {
	case r == utf8.RuneError && n == 1 && utf8.FullRune(rest):
		return "is not UTF-8" + place
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "is not JSON: it is cut off at byte " + strconv.Itoa(len(body)+base)
	case isSurrogateEscape(rest):
		return "has a lone surrogate " + string(rest[:6]) + place + ", which stands for no character"
	default:
		return "is not JSON" + place + ": " + syntax.Err.Error()
	}
}

func within(p jsontext.Pointer) string {
	if p == "" {
		return ""
	}
	return ", within " + quoteShort(string(p))
}

// isSurrogateEscape reports whether b starts with \uD800 to \uDFFF.
func isSurrogateEscape(b []byte) bool {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return false
	}
	v, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	return err == nil && v >= 0xD800 && v <= 0xDFFF
}
