package replay

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// tokenKind sorts the pieces of an effect file.
type tokenKind uint8

const (
	tokenSpace   tokenKind = iota // white space and comments
	tokenWord                     // a keyword, a bare name, a number
	tokenString                   // '…' or "…"
	tokenName                     // `…`
	tokenValue                    // :name
	tokenSign                     // one byte of anything else
	tokenSemi                     // ;
	tokenNothing                  // what parsers see behind the end
)

// token is a piece of the file. The tokens of a file are all of it, in order, with nothing between them.
type token struct {
	kind tokenKind
	text string // as it stands in the file
	line int
	at   int // offset in the file
}

// is reports whether the token is the bare word given, in upper case.
func (t *token) is(words ...string) bool {
	if t.kind != tokenWord {
		return false
	}
	for _, w := range words {
		if strings.EqualFold(t.text, w) {
			return true
		}
	}
	return false
}

func (t *token) sign(c byte) bool { return t.kind == tokenSign && t.text[0] == c }

// lexer cuts a text into tokens by the rules that MySQL and MariaDB share.
type lexer struct {
	text string
	at   int
	line int
}

// lexEffect cuts a whole file.
func lexEffect(text string) ([]token, error) {
	if !utf8.ValidString(text) {
		return nil, &EffectError{Reason: "it is not UTF-8"}
	}
	x := lexer{text: text, line: 1}
	var tokens []token
	for x.at < len(text) {
		start, line := x.at, x.line
		kind, err := x.next()
		if err != nil {
			return nil, err
		}
		piece := text[start:x.at]
		x.line += strings.Count(piece, "\n")
		tokens = append(tokens, token{kind: kind, text: piece, line: line, at: start})
	}
	return tokens, nil
}

func (x *lexer) fail(format string, args ...any) error {
	return &EffectError{Line: x.line, Reason: fmt.Sprintf(format, args...)}
}

func (x *lexer) peek(n int) byte {
	if x.at+n < len(x.text) {
		return x.text[x.at+n]
	}
	return 0
}

// next moves over one token.
func (x *lexer) next() (tokenKind, error) {
	c := x.peek(0)
	switch {
	case isSQLSpace(c):
		for isSQLSpace(x.peek(0)) {
			x.at++
		}
		return tokenSpace, nil
	case c == '#', c == '-' && x.peek(1) == '-' && x.dashComment():
		x.skipLine()
		return tokenSpace, nil
	case c == '/' && x.peek(1) == '*':
		return tokenSpace, x.blockComment()
	case c == '\'' || c == '"':
		return tokenString, x.quoted(c, true)
	case c == '`':
		return tokenName, x.quoted(c, false)
	case isSQLWord(c):
		for isSQLWord(x.peek(0)) {
			x.at++
		}
		return tokenWord, nil
	case c == ';':
		x.at++
		return tokenSemi, nil
	case c == ':':
		return x.colon()
	case c == '?':
		return 0, x.fail("a bare ? is no value; write :name")
	case c == '@':
		return x.variable()
	case c < ' ' || c == 0x7f:
		return 0, x.fail("a control byte 0x%02x", c)
	}
	x.at++
	return tokenSign, nil
}

// dashComment reports whether the two dashes at hand begin a comment: only before a space, a control byte or the end, since
// 5--3 is arithmetic.
func (x *lexer) dashComment() bool {
	return x.at+2 >= len(x.text) || x.text[x.at+2] <= ' ' || x.text[x.at+2] == 0x7f
}

func (x *lexer) skipLine() {
	if n := strings.IndexByte(x.text[x.at:], '\n'); n >= 0 {
		x.at += n
		return
	}
	x.at = len(x.text)
}

func (x *lexer) blockComment() error {
	rest := x.text[x.at:]
	switch {
	case strings.HasPrefix(rest, "/*!"), strings.HasPrefix(rest, "/*M!"):
		return x.fail("a comment %s is executed by some servers and not by others; write plain SQL", rest[:3])
	case strings.HasPrefix(rest, "/*+"):
		return x.fail("an optimizer hint /*+ can change the session; leave it out")
	}
	n := strings.Index(rest[2:], "*/")
	if n < 0 {
		return x.fail("a comment /* is not closed")
	}
	x.at += n + 4
	return nil
}

// quoted moves over a quoted text; a doubled quote stands for itself, and a backslash escapes in strings only.
func (x *lexer) quoted(quote byte, escapes bool) error {
	start := x.at
	for x.at++; x.at < len(x.text); x.at++ {
		switch c := x.text[x.at]; {
		case c == '\\' && escapes:
			x.at++
		case c == quote && x.peek(1) == quote:
			x.at++
		case c == quote:
			x.at++
			return nil
		}
	}
	x.at = start
	return x.fail("a quote %c is not closed", quote)
}

// colon reads a value, or two colons, which are left to the server to refuse.
func (x *lexer) colon() (tokenKind, error) {
	switch x.peek(1) {
	case ':':
		x.at += 2
		return tokenSign, nil
	case '=':
		return 0, x.fail("an assignment := sets a variable of the session; it would outlive the message")
	}
	n := valueName(x.text[x.at+1:])
	if n == 0 {
		return 0, x.fail("a colon that no name follows; a value is written :name")
	}
	x.at += 1 + n
	return tokenValue, nil
}

// valueName returns the length of the name that s begins with: a letter or underscore first, then letters, digits,
// underscores and escaped characters, in segments joined by dots; 0 where there is none. A last dot is not part of it.
func valueName(s string) int {
	n := segment(s, false)
	if n == 0 {
		return 0
	}
	for n < len(s) && s[n] == '.' {
		more := segment(s[n+1:], true)
		if more == 0 {
			break
		}
		n += 1 + more
	}
	return n
}

func segment(s string, digitFirst bool) int {
	n := 0
	for n < len(s) {
		switch c := s[n]; {
		case isSQLLetter(c), isSQLDigit(c) && (n > 0 || digitFirst):
			n++
		case c == '\\' && n+1 < len(s) && s[n+1] > ' ' && s[n+1] < 0x7f:
			n += 2
		default:
			return n
		}
	}
	return n
}

// variable refuses user variables and passes server variables on.
func (x *lexer) variable() (tokenKind, error) {
	if x.peek(1) != '@' {
		return 0, x.fail("a user variable @%s keeps the value of an earlier message; use a value or a subselect", x.wordAfter(1))
	}
	x.at += 2
	return tokenSign, nil
}

func (x *lexer) wordAfter(n int) string {
	end := x.at + n
	for end < len(x.text) && isSQLWord(x.text[end]) {
		end++
	}
	return x.text[x.at+n : end]
}

func isSQLSpace(c byte) bool  { return c == ' ' || c >= '\t' && c <= '\r' }
func isSQLDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isSQLLetter(c byte) bool { return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// isSQLWord: bare names may hold any character beyond ASCII.
func isSQLWord(c byte) bool { return isSQLLetter(c) || isSQLDigit(c) || c == '$' || c >= utf8.RuneSelf }
