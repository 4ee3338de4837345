package replay

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// explainAbsent says where on the way to p the value ends: what stands there is the reason that p is not found. It reads
// the value again, which is known to be sound JSON, along this path alone: messages without their fields are rare.
func explainAbsent(value []byte, p Path) string {
	raw, _ := cutBOM(value)
	for i, seg := range p.segments {
		dec := jsontext.NewDecoder(bytes.NewBuffer(raw))
		name := "the value"
		if i > 0 {
			name = p.prefix(i)
		}
		switch kind := kindOf(dec.PeekKind()); kind {
		case valueObject:
			raw = memberOf(dec, seg)
			if raw == nil && i == len(p.segments)-1 {
				return "is missing"
			}
			if raw == nil {
				return "is missing: there is no " + p.prefix(i+1)
			}
		case valueArray:
			index, ok := arrayIndex(seg)
			if !ok {
				return fmt.Sprintf("is missing: %s is an array, and %s is no index", name, quoteShort(seg))
			}
			var length int
			raw, length = elementOf(dec, index)
			if raw == nil {
				return fmt.Sprintf("is missing: %s has %d elements, counted from 0", name, length)
			}
		default:
			return fmt.Sprintf("is missing: %s is %s", name, kind.describe())
		}
	}
	return "is missing"
}

// memberOf gives the value of an object's member, or nil.
func memberOf(dec *jsontext.Decoder, name string) []byte {
	if _, err := dec.ReadToken(); err != nil {
		return nil
	}
	for dec.PeekKind() != jsontext.KindEndObject {
		key, err := dec.ReadValue()
		if err != nil {
			return nil
		}
		hit := string(foundValue{kind: valueString, raw: key}.text()) == name
		value, err := dec.ReadValue()
		if err != nil {
			return nil
		}
		if hit {
			return value
		}
	}
	return nil
}

// elementOf gives an array's element, or nil and how many there are.
func elementOf(dec *jsontext.Decoder, index int) ([]byte, int) {
	if _, err := dec.ReadToken(); err != nil {
		return nil, 0
	}
	n := 0
	for ; dec.PeekKind() != jsontext.KindEndArray; n++ {
		value, err := dec.ReadValue()
		if err != nil {
			return nil, n
		}
		if n == index {
			return value, n + 1
		}
	}
	return nil, n
}
