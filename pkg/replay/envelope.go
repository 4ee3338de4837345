package replay

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The envelope is what kcat -J prints: one JSON object a line, with topic, partition, offset, tstype, ts (epoch
// milliseconds), broker, headers (a flat array: name, value, name, value, …), key and payload; null is null, and "" is
// empty. JSON text cannot hold bytes that are not UTF-8, so a key or payload that has such is null there and base64
// in key_b64 or payload_b64; headers with such bytes are all in headers_b64, an array of the same shape.
type envelope struct {
	Topic      *string   `json:"topic"`
	Partition  *int32    `json:"partition"`
	Offset     *int64    `json:"offset"`
	TS         *int64    `json:"ts"`
	Headers    []*string `json:"headers"`
	HeadersB64 []*string `json:"headers_b64"`
	Key        *string   `json:"key"`
	KeyB64     *string   `json:"key_b64"`
	Payload    *string   `json:"payload"`
	PayloadB64 *string   `json:"payload_b64"`
}

// AppendEnvelope appends a record as one line of a capture, with the line feed. tstype is always create and broker -1
// (unknown): a Record does not carry them, and nothing here reads them. A record without a timestamp has neither tstype
// nor ts, as with kcat. Topics are text: one that is not UTF-8 is an error.
func AppendEnvelope(dst []byte, rec Record) ([]byte, error) {
	e := envelopeWriter{buf: dst}
	e.buf = append(e.buf, `{"topic":`...)
	e.quote(rec.Topic)
	e.buf = append(e.buf, `,"partition":`...)
	e.buf = strconv.AppendInt(e.buf, int64(rec.Partition), 10)
	e.buf = append(e.buf, `,"offset":`...)
	e.buf = strconv.AppendInt(e.buf, rec.Offset, 10)
	if ms := rec.Timestamp.UnixMilli(); ms >= 0 {
		e.buf = append(e.buf, `,"tstype":"create","ts":`...)
		e.buf = strconv.AppendInt(e.buf, ms, 10)
	}
	e.buf = append(e.buf, `,"broker":-1`...)
	e.headers(rec.Headers)
	e.bytes("key", rec.Key)
	e.bytes("payload", rec.Value)
	if e.err != nil {
		return dst, fmt.Errorf("writing %s[%d]@%d as a line: %w", quoteShort(rec.Topic), rec.Partition, rec.Offset, e.err)
	}
	return append(e.buf, "}\n"...), nil
}

// envelopeWriter keeps the first error.
type envelopeWriter struct {
	buf []byte
	err error
}

func (e *envelopeWriter) quote(s string) {
	buf, err := jsontext.AppendQuote(e.buf, s)
	if err != nil && e.err == nil {
		e.err = err
	}
	e.buf = buf
}

func (e *envelopeWriter) base64(b []byte) {
	e.buf = append(e.buf, '"')
	e.buf = base64.StdEncoding.AppendEncode(e.buf, b)
	e.buf = append(e.buf, '"')
}

// bytes writes a key or payload as a member.
func (e *envelopeWriter) bytes(name string, b []byte) {
	e.buf = append(e.buf, `,"`+name+`":`...)
	switch {
	case b == nil:
		e.buf = append(e.buf, "null"...)
	case utf8.Valid(b):
		e.quote(string(b))
	default:
		e.buf = append(e.buf, `null,"`+name+`_b64":`...)
		e.base64(b)
	}
}

func (e *envelopeWriter) headers(hs []Header) {
	if len(hs) == 0 {
		return
	}
	text := true
	for _, h := range hs {
		text = text && utf8.ValidString(h.Key) && utf8.Valid(h.Value)
	}
	write := e.base64
	if text {
		e.buf = append(e.buf, `,"headers":[`...)
		write = func(b []byte) { e.quote(string(b)) }
	} else {
		e.buf = append(e.buf, `,"headers_b64":[`...)
	}
	for i, h := range hs {
		if i > 0 {
			e.buf = append(e.buf, ',')
		}
		write([]byte(h.Key))
		e.buf = append(e.buf, ',')
		if h.Value == nil {
			e.buf = append(e.buf, "null"...)
		} else {
			write(h.Value)
		}
	}
	e.buf = append(e.buf, ']')
}

// DecodeEnvelope reads one line of a capture, by AppendEnvelope or by kcat -J; members it does not know are passed over. A
// line without topic, partition and offset, or with bytes that are not UTF-8 (kcat writes such as they are, which JSON does
// not allow), is an error. A record without ts has the zero time.
func DecodeEnvelope(line []byte) (Record, error) {
	var e envelope
	if err := json.Unmarshal(line, &e); err != nil {
		return Record{}, errors.New(describeLineError(err, line))
	}
	switch {
	case e.Topic == nil || e.Partition == nil || e.Offset == nil:
		return Record{}, errors.New("lacks topic, partition or offset")
	case *e.Partition < 0 || *e.Offset < 0:
		return Record{}, errors.New("has a negative partition or offset")
	}
	rec := Record{Topic: *e.Topic, Partition: *e.Partition, Offset: *e.Offset}
	if e.TS != nil && *e.TS >= 0 {
		rec.Timestamp = time.UnixMilli(*e.TS).UTC()
	}
	var err error
	if rec.Key, err = envelopeBytes("key", e.Key, e.KeyB64); err != nil {
		return Record{}, err
	}
	if rec.Value, err = envelopeBytes("payload", e.Payload, e.PayloadB64); err != nil {
		return Record{}, err
	}
	if rec.Headers, err = envelopeHeaders(e); err != nil {
		return Record{}, err
	}
	return rec, nil
}

func describeLineError(err error, line []byte) string {
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		return fmt.Sprintf("has a wrong type at %s", quoteShort(string(semantic.JSONPointer)))
	}
	return describeJSONError(err, line, 0)
}

func envelopeBytes(name string, text, encoded *string) ([]byte, error) {
	switch {
	case encoded != nil:
		b, err := decodeBase64(*encoded)
		if err != nil {
			return nil, fmt.Errorf("has a %s_b64 that is not base64: %w", name, err)
		}
		return b, nil
	case text != nil:
		return []byte(*text), nil
	default:
		return nil, nil
	}
}

// decodeBase64 never gives nil: null is written as null.
func decodeBase64(s string) ([]byte, error) {
	return base64.StdEncoding.Strict().AppendDecode([]byte{}, []byte(s))
}

func envelopeHeaders(e envelope) ([]Header, error) {
	flat, name, decode := e.Headers, "headers", func(s string) ([]byte, error) { return []byte(s), nil }
	if e.HeadersB64 != nil {
		flat, name, decode = e.HeadersB64, "headers_b64", decodeBase64
	}
	if len(flat)%2 != 0 {
		return nil, fmt.Errorf("has %s that do not come in pairs", name)
	}
	var hs []Header
	for i := 0; i < len(flat); i += 2 {
		if flat[i] == nil {
			return nil, fmt.Errorf("has a null name among its %s", name)
		}
		key, err := decode(*flat[i])
		if err != nil {
			return nil, fmt.Errorf("has %s that are not base64: %w", name, err)
		}
		h := Header{Key: string(key)}
		if flat[i+1] != nil {
			if h.Value, err = decode(*flat[i+1]); err != nil {
				return nil, fmt.Errorf("has %s that are not base64: %w", name, err)
			}
		}
		hs = append(hs, h)
	}
	return hs, nil
}

// blankLine reports whether a line holds nothing.
func blankLine(line []byte) bool { return len(bytes.TrimSpace(line)) == 0 }
