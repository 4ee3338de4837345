package replay

import "strings"

// MultiRow takes apart an effect that is one INSERT … VALUES of a single row, so that the rows of several messages can go
// into one statement: prefix + row + ", " + row + … + suffix, with the values that RowNames lists for each row. ok is false for any other effect, and where several rows in one statement could mean something else than
// several statements.
func (e *Effect) MultiRow() (prefix, row, suffix string, ok bool) {
	if len(e.statements) != 1 {
		return "", "", "", false
	}
	s := &e.statements[0]
	if s.verb != "INSERT" {
		return "", "", "", false
	}
	open, end := s.rowTokens()
	if open < 0 {
		return "", "", "", false
	}
	if !s.valuesWithin(open, end) {
		return "", "", "", false
	}
	for i := range s.tokens {
		if s.tokens[i].is("SELECT", "TABLE", "LAST_INSERT_ID", "ROW_COUNT", "FOUND_ROWS", "RETURNING") {
			return "", "", "", false
		}
	}
	first, last := s.tokens[open].at-s.start, s.tokens[end].at+1-s.start
	whole := s.source()
	return whole[:first], s.marked(first, last), whole[last:], true
}

// RowNames lists the values of the row that MultiRow returns, one for each ? of it, in order; repeated names are repeated.
func (e *Effect) RowNames() []string {
	if len(e.statements) != 1 {
		return nil
	}
	return append([]string{}, e.statements[0].args...)
}

// rowTokens finds the parentheses of the only row; open is -1 where there is none, or more than one.
func (s *statement) rowTokens() (open, end int) {
	depth, values := 0, -1
	for i := range s.tokens {
		t := &s.tokens[i]
		switch {
		case t.sign('('):
			depth++
		case t.sign(')'):
			depth--
		case depth == 0 && values < 0 && t.is("VALUES", "VALUE"):
			values = i
		}
	}
	if values < 0 || values+1 >= len(s.tokens) || !s.tokens[values+1].sign('(') {
		return -1, -1
	}
	open, depth = values+1, 0
	for i := open; i < len(s.tokens); i++ {
		switch t := &s.tokens[i]; {
		case t.sign('('):
			depth++
		case t.sign(')'):
			depth--
		}
		if depth == 0 {
			if i+1 < len(s.tokens) && s.tokens[i+1].sign(',') {
				return -1, -1
			}
			return open, i
		}
	}
	return -1, -1
}

// valuesWithin reports whether every value stands between two tokens.
func (s *statement) valuesWithin(open, end int) bool {
	for i := range s.tokens {
		if s.tokens[i].kind == tokenValue && (i < open || i > end) {
			return false
		}
	}
	return true
}

// source is the statement as it stands in the file.
func (s *statement) source() string {
	var b strings.Builder
	for i, t := range s.text {
		if i > 0 {
			b.WriteString(s.raw[i-1])
		}
		b.WriteString(t)
	}
	return b.String()
}

// marked is a stretch of source, by its offsets, with ? for each value.
func (s *statement) marked(from, to int) string {
	whole := s.source()
	var b strings.Builder
	for i := range s.tokens {
		t := &s.tokens[i]
		at := t.at - s.start
		if t.kind != tokenValue || at < from || at >= to {
			continue
		}
		b.WriteString(whole[from:at] + "?")
		from = at + len(t.text)
	}
	b.WriteString(whole[from:to])
	return b.String()
}
