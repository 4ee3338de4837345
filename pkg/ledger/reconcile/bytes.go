package reconcile

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Bytes is text of any bytes: a key, or a value. In JSON it is a string where it is UTF-8, else {"base64": "…"}, so that
// nothing of it is lost.
type Bytes string

type base64Bytes struct {
	Base64 []byte `json:"base64"`
}

// MarshalJSON implements json.Marshaler.
func (b Bytes) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(b)) {
		return json.Marshal(string(b)) //nolint:wrapcheck // a string always can be
	}
	return json.Marshal(base64Bytes{[]byte(b)}) //nolint:wrapcheck // bytes always can be
}

// UnmarshalJSON reads what MarshalJSON writes.
func (b *Bytes) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '{' {
		var v base64Bytes
		if err := json.Unmarshal(data, &v); err != nil {
			return fmt.Errorf("bytes: %w", err)
		}
		*b = Bytes(v.Base64)
		return nil
	}
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("bytes: %w", err)
	}
	*b = Bytes(s)
	return nil
}
