package ledger

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// MaxOrderID is the longest order_id in bytes: the width of its column.
const MaxOrderID = 128

// ErrKey is wrapped by every complaint about a key, a biz_type or a key template.
var ErrKey = errors.New("unusable key")

var bizTypeForm = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// Key is a business key: which effect (BizType) of which order. Both are compared byte by byte.
type Key struct {
	BizType string
	OrderID string
}

// Validate returns an error that wraps ErrKey unless the key fits its columns.
func (k Key) Validate() error {
	if err := ValidateBizType(k.BizType); err != nil {
		return err
	}
	return ValidateOrderID(k.OrderID)
}

// ValidateBizType checks the closed alphabet that keeps Redis keys unambiguous.
func ValidateBizType(s string) error {
	if len(s) > 32 || !bizTypeForm.MatchString(s) {
		return fmt.Errorf("%w: biz_type %q: expected 1 to 32 of A-Z a-z 0-9 _ . -", ErrKey, s)
	}
	return nil
}

// ValidateOrderID checks the length before any SQL does: a lax server would cut the key, and two orders would be one.
func ValidateOrderID(s string) error {
	switch n := len(s); {
	case n == 0:
		return fmt.Errorf("%w: order_id is empty", ErrKey)
	case n > MaxOrderID:
		return fmt.Errorf("%w: order_id has %d bytes, at most %d", ErrKey, n, MaxOrderID)
	}
	return nil
}

// The placeholders of a key template.
const (
	bizHole   = "{biz_type}"
	orderHole = "{order_id}"
)

// KeyTemplate turns a Key into the name of its Redis key and back. It is injective: after the biz_type, whose alphabet is
// closed, comes a byte outside it, and the raw order_id is the end, so no two keys share a name (hazard G12).
type KeyTemplate struct{ before, between string }

// ParseKeyTemplate reads a template such as "idempotent:{biz_type}:{order_id}".
func ParseKeyTemplate(s string) (KeyTemplate, error) {
	refuse := func(why string) (KeyTemplate, error) {
		return KeyTemplate{}, fmt.Errorf("%w: template %q: %s", ErrKey, s, why)
	}
	before, rest, ok := strings.Cut(s, bizHole)
	if !ok {
		return refuse("it has no " + bizHole)
	}
	between, ok := strings.CutSuffix(rest, orderHole)
	switch {
	case !ok:
		return refuse("it must end in " + orderHole)
	case strings.Contains(before+between, bizHole) || strings.Contains(before+between, orderHole):
		return refuse("each placeholder may stand in it once")
	case between == "" || bizTypeForm.MatchString(between[:1]):
		return refuse("after " + bizHole + " there must be a character that no biz_type has, such as ':'")
	}
	return KeyTemplate{before: before, between: between}, nil
}

// Name is the Redis key of k.
func (t KeyTemplate) Name(k Key) string { return t.before + k.BizType + t.between + k.OrderID }

// Parse returns the key that a Redis key stands for; ok is false for a name that is not of this template.
func (t KeyTemplate) Parse(name string) (k Key, ok bool) {
	rest, ok := strings.CutPrefix(name, t.before)
	if !ok {
		return Key{}, false
	}
	// The first occurrence ends the biz_type: none of its bytes can begin the text between.
	k.BizType, k.OrderID, ok = strings.Cut(rest, t.between)
	if !ok || k.Validate() != nil {
		return Key{}, false
	}
	return k, true
}
