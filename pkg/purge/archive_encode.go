package purge

import (
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"unicode/utf8"
)

// lineEncoder writes rows as lines. What a value needs is decided by its column, once.
type lineEncoder struct {
	kinds  []valueKind
	names  [][]byte // {"order_id": or ,"biz_type":
	base64 [][]byte // the same with _b64
}

func newLineEncoder(columns []ArchiveColumn) *lineEncoder {
	e := &lineEncoder{}
	for i, c := range columns {
		open := byte(',')
		if i == 0 {
			open = '{'
		}
		e.kinds = append(e.kinds, kindOf(c.Type))
		e.names = append(e.names, append(appendString([]byte{open}, []byte(c.Name)), ':'))
		e.base64 = append(e.base64, append(appendString([]byte{open}, []byte(c.Name+"_b64")), ':'))
	}
	return e
}

// append writes one row and its line end.
func (e *lineEncoder) append(b []byte, row []sql.RawBytes) []byte {
	for i, v := range row {
		kind := e.kinds[i]
		if v != nil && (kind == kindText || kind == kindBytes || kind == kindDate) && !utf8.Valid(v) {
			b = append(append(b, e.base64[i]...), '"')
			b = append(base64.StdEncoding.AppendEncode(b, v), '"')
			continue
		}
		b = append(b, e.names[i]...)
		if v == nil {
			b = append(b, "null"...)
			continue
		}
		switch kind {
		case kindNumber, kindFloat:
			b = append(b, v...)
		case kindTime:
			b = append(b, '"')
			b = appendStamp(b, v)
			b = append(b, '"')
		case kindHex:
			b = append(b, '"')
			b = append(hex.AppendEncode(b, v), '"')
		case kindText, kindBytes, kindDate:
			b = appendString(b, v)
		}
	}
	return append(b, '}', '\n')
}

// dateLength is that of 2026-11-11, after which SQL has a space and RFC 3339 a T.
const dateLength = 10

// appendStamp turns the server's text of a time, UTC, into RFC 3339, digit by digit.
func appendStamp(b, v []byte) []byte {
	if len(v) <= dateLength {
		return append(b, v...)
	}
	b = append(append(b, v[:dateLength]...), 'T')
	return append(append(b, v[dateLength+1:]...), 'Z')
}

const hexDigits = "0123456789abcdef"

// appendString writes a JSON string of valid UTF-8.
func appendString(b, v []byte) []byte {
	b = append(b, '"')
	from := 0
	for i, c := range v {
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, v[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
		}
	}
	return append(append(b, v[from:]...), '"')
}
