package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/idemctl/idemctl/pkg/ledger"
)

// orderIDs reads the order ids of a command line: hex if asked to, $'...' as bash reads it, else the bytes as they are.
func orderIDs(args []string, isHex bool) ([]string, error) {
	ids := make([]string, len(args))
	for i, arg := range args {
		id := arg
		var err error
		switch body, quoted := strings.CutPrefix(arg, "$'"); {
		case isHex:
			var b []byte
			b, err = hex.DecodeString(arg)
			id = string(b)
			if err != nil {
				err = errHex
			}
		case quoted:
			id, err = parseAnsiC(body)
		}
		if err != nil {
			return nil, usageErrorf("order id %q: %w", arg, err)
		}
		if err := ledger.ValidateOrderID(id); err != nil {
			return nil, usageErrorf("order id %q: %w", arg, err)
		}
		ids[i] = id
	}
	return ids, nil
}

var (
	errHex    = errors.New("expected pairs of hex digits, such as 4f52442d31")
	errQuoted = errors.New("expected $'...' with an end quote and the escapes of bash, such as \\x1b")
)

// parseAnsiC reads what follows $' in bash: escapes up to the quote that ends the word. What it writes out, render.Key
// shows again.
func parseAnsiC(s string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\'':
			if i != len(s)-1 {
				return "", fmt.Errorf("%w: text after the end quote", errQuoted)
			}
			return b.String(), nil
		case c != '\\':
			b.WriteByte(c)
		case i+1 == len(s):
			return "", errQuoted
		default:
			n, err := ansiEscape(&b, s[i+1:])
			if err != nil {
				return "", err
			}
			i += n
		}
	}
	return "", errQuoted
}

// ansiEscape reads one escape behind its backslash, and returns how many bytes it took.
func ansiEscape(b *strings.Builder, s string) (int, error) {
	plain := map[byte]byte{
		'a': '\a', 'b': '\b', 'e': 0x1b, 'E': 0x1b, 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v', '\\': '\\', '\'': '\'', '"': '"', '?': '?',
	}
	if c, ok := plain[s[0]]; ok {
		b.WriteByte(c)
		return 1, nil
	}
	const octal, hexa = 8, 16
	switch s[0] {
	case 'x':
		return number(b, s, 1, 2, hexa, false)
	case 'u':
		return number(b, s, 1, 4, hexa, true) //nolint:mnd // \uHHHH
	case 'U':
		return number(b, s, 1, 8, hexa, true) //nolint:mnd // \UHHHHHHHH
	case '0', '1', '2', '3', '4', '5', '6', '7':
		return number(b, s, 0, 3, octal, false) //nolint:mnd // \nnn
	}
	return 0, fmt.Errorf("%w: \\%c is none", errQuoted, s[0])
}

// number reads digits from s[from:], at most so many, as one byte or as a character.
func number(b *strings.Builder, s string, from, most, base int, character bool) (int, error) {
	end := from
	for end < len(s) && end-from < most && strings.IndexByte("0123456789abcdefABCDEF"[:digitsOf(base)], s[end]) >= 0 {
		end++
	}
	v, err := strconv.ParseUint(s[from:end], base, 32)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%w: \\%c needs digits", errQuoted, s[0])
	case character:
		if !utf8.ValidRune(rune(v)) { //nolint:gosec // at most 32 bits, checked here
			return 0, fmt.Errorf("%w: \\%s is no character", errQuoted, s[:end])
		}
		b.WriteRune(rune(v)) //nolint:gosec // checked above
	default:
		b.WriteByte(byte(v)) //nolint:gosec // as bash: the low byte of \777
	}
	return end, nil
}

func digitsOf(base int) int {
	const octal, all = 8, 22 // of the digits above
	if base == octal {
		return octal
	}
	return all
}
