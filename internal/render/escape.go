package render

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Key shows a key of any bytes on one line. Printable text stays as it is. A key with control bytes, bytes that are not
// UTF-8, invisible or direction-changing characters, or spaces at its ends is written as a shell would read it back:
// $'ORD-1\x1b[2J'. An empty key is ”, since nothing at all would look like a missing column.
func Key(key []byte) string {
	s := string(key)
	if s == "" {
		return "''"
	}
	plain := !strings.HasPrefix(s, "$'") && s != "''"
	if plain && printable(s) && strings.TrimSpace(s) == s {
		return s
	}
	return "$'" + escape(s, "'") + "'"
}

// Text makes any text safe for one line of a terminal: what Key would escape inside, is escaped, without the quotes.
// Line ends become \n.
func Text(s string) string {
	if printable(s) {
		return s
	}
	return escape(s, "")
}

// Lines is Text for text of several lines: line ends stay.
func Lines(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = Text(l)
	}
	return strings.Join(lines, "\n")
}

func printable(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

// escape writes what is not printable as backslash escapes that bash's $'…' understands; quote is a character to escape
// as well. A backslash is doubled, so that what is shown can be read back exactly.
func escape(s, quote string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n <= 1:
			writeByteEscape(&b, s[i])
		case r == '\\' || quote != "" && string(r) == quote:
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r < utf8.RuneSelf:
			writeByteEscape(&b, s[i])
		default: // printed by its bytes: \u would be read differently by shells without a UTF-8 locale
			for j := i; j < i+n; j++ {
				writeByteEscape(&b, s[j])
			}
		}
		i += n
	}
	return b.String()
}

func writeByteEscape(b *strings.Builder, c byte) {
	b.WriteString(`\x`)
	if c < 0x10 {
		b.WriteByte('0')
	}
	b.WriteString(strconv.FormatUint(uint64(c), 16))
}
