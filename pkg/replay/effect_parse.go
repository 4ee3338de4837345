package replay

import (
	"fmt"
	"strings"
)

// splitStatements cuts tokens at semicolons, and drops what is white space and comments only.
func splitStatements(tokens []token) [][]token {
	var out [][]token
	start := 0
	add := func(part []token) {
		for len(part) > 0 && part[0].kind == tokenSpace {
			part = part[1:]
		}
		for len(part) > 0 && part[len(part)-1].kind == tokenSpace {
			part = part[:len(part)-1]
		}
		if len(part) > 0 {
			out = append(out, part)
		}
	}
	for i := range tokens {
		if tokens[i].kind == tokenSemi {
			add(tokens[start:i])
			start = i + 1
		}
	}
	add(tokens[start:])
	return out
}

// parser looks at one statement: its tokens without white space.
type parser struct {
	tokens []token
	at     int
	end    token // what comes behind the last one
}

func (p *parser) peek(n int) *token {
	if p.at+n < len(p.tokens) {
		return &p.tokens[p.at+n]
	}
	return &p.end
}

func (p *parser) fail(format string, args ...any) error {
	return &EffectError{Line: p.peek(0).line, Reason: fmt.Sprintf(format, args...)}
}

func (p *parser) accept(words ...string) bool {
	if p.peek(0).is(words...) {
		p.at++
		return true
	}
	return false
}

// parseStatement checks one statement and takes it apart.
func parseStatement(text string, part []token) (statement, error) {
	s := statement{line: part[0].line, start: part[0].at}
	from := s.start
	last := &part[len(part)-1]
	for i := range part {
		t := &part[i]
		switch t.kind {
		case tokenValue:
			s.text = append(s.text, text[from:t.at])
			s.args = append(s.args, argName(t.text[1:]))
			s.raw = append(s.raw, t.text)
			from = t.at + len(t.text)
		case tokenString:
			s.backslash = s.backslash || strings.Contains(t.text, `\`)
			if err := checkString(t); err != nil {
				return s, err
			}
		case tokenSpace, tokenSemi, tokenNothing:
			continue
		case tokenWord, tokenName, tokenSign:
		}
		s.tokens = append(s.tokens, *t)
	}
	s.text = append(s.text, text[from:last.at+len(last.text)])
	s.sql = strings.Join(s.text, "?")
	p := &parser{tokens: s.tokens, end: token{kind: tokenNothing, line: last.line}}
	err := p.statement(&s)
	return s, err
}

// argName turns a name of an effect into a path: there only a dot and a backslash are escaped, here whatever would end a
// name, such as the dash of order\-id.
func argName(raw string) string {
	var b strings.Builder
	for i := 0; i < len(raw); i++ {
		if raw[i] == '\\' {
			i++
			if raw[i] == '.' || raw[i] == '\\' {
				b.WriteByte('\\')
			}
		}
		b.WriteByte(raw[i])
	}
	return b.String()
}

// checkString refuses a quoted text that is a value's name and nothing else: it would be written as it stands.
func checkString(t *token) error {
	inner := t.text[1 : len(t.text)-1]
	if len(inner) > 1 && inner[0] == ':' && valueName(inner[1:]) == len(inner)-1 {
		return &EffectError{Line: t.line, Reason: fmt.Sprintf("%s is a text, not a value; write %s without quotes", t.text, inner)}
	}
	return nil
}

func (p *parser) statement(s *statement) error {
	first := p.peek(0)
	s.verb = strings.ToUpper(first.text)
	if err := p.checkWords(); err != nil {
		return err
	}
	switch {
	case p.accept("INSERT", "REPLACE"):
		return p.insert(s)
	case p.accept("UPDATE"):
		return p.update(s)
	case p.accept("DELETE"):
		return p.remove(s)
	case p.accept("SELECT"):
		return p.checkInto()
	case first.is("WITH"):
		return p.fail("WITH is not allowed first, since it hides which table is written; use a subselect")
	case first.kind == tokenWord:
		return p.fail("%s is not allowed; an effect holds INSERT, UPDATE, DELETE, REPLACE and SELECT only, since they alone are "+
			"undone with the transaction", s.verb)
	}
	return p.fail("a statement must begin with INSERT, UPDATE, DELETE, REPLACE or SELECT, not with %s", quoteShort(first.text))
}

// checkWords refuses, anywhere in a statement, what is not undone with a transaction or hides an error.
func (p *parser) checkWords() error {
	for i := range p.tokens {
		t, next := &p.tokens[i], &p.end
		if i+1 < len(p.tokens) {
			next = &p.tokens[i+1]
		}
		// A name behind a dot is a column, whatever it is called.
		if t.kind != tokenWord || (i > 0 && p.tokens[i-1].sign('.')) {
			continue
		}
		p.at = i
		switch {
		case t.is("IGNORE") && !next.is("INDEX", "KEY", "NULLS"):
			return p.fail("IGNORE turns errors into warnings: the order would count as done; leave it out")
		case t.is("DELAYED"):
			return p.fail("DELAYED is not part of the transaction; leave it out")
		case t.is("GET_LOCK", "RELEASE_LOCK", "RELEASE_ALL_LOCKS") && next.sign('('):
			return p.fail("%s is not part of the transaction: a rollback does not undo it", strings.ToUpper(t.text))
		}
	}
	p.at = 0
	return nil
}

// checkInto refuses INTO in what is left: a file or a variable does not roll back.
func (p *parser) checkInto() error {
	for ; p.peek(0).kind != tokenNothing; p.at++ {
		if p.peek(0).is("INTO") {
			return p.fail("INTO %s is not undone with the transaction", strings.ToUpper(p.peek(1).text))
		}
	}
	return nil
}

func (p *parser) insert(s *statement) error {
	for p.accept("LOW_PRIORITY", "HIGH_PRIORITY") {
	}
	p.accept("INTO")
	if err := p.target(s); err != nil {
		return err
	}
	return p.checkInto()
}

func (p *parser) update(s *statement) error {
	p.accept("LOW_PRIORITY")
	if err := p.target(s); err != nil {
		return err
	}
	// Up to SET stand an alias, partitions and index hints; a comma or a join means a second table.
	if err := p.oneTable("SET"); err != nil {
		return err
	}
	if !p.peek(0).is("SET") {
		return p.fail("UPDATE without SET")
	}
	return p.checkInto()
}

func (p *parser) remove(s *statement) error {
	for p.accept("LOW_PRIORITY", "QUICK") {
	}
	if !p.accept("FROM") {
		return p.fail("DELETE must go on with FROM; more than one table in a DELETE is not allowed, since each must be checked")
	}
	if err := p.target(s); err != nil {
		return err
	}
	if err := p.oneTable("WHERE", "ORDER", "LIMIT", "RETURNING"); err != nil {
		return err
	}
	return p.checkInto()
}

// oneTable moves to the first of the words given, outside of parentheses, and refuses a second table on the way.
func (p *parser) oneTable(until ...string) error {
	depth := 0
	for ; p.peek(0).kind != tokenNothing; p.at++ {
		t := p.peek(0)
		switch {
		case t.sign('('):
			depth++
		case t.sign(')'):
			depth--
		case depth > 0:
		case t.is(until...):
			return nil
		case t.sign(','), t.sign('.'), t.sign('*'), t.is("JOIN", "INNER", "LEFT", "RIGHT", "CROSS", "NATURAL", "STRAIGHT_JOIN", "USING"):
			return p.fail("more than one table in an UPDATE or DELETE is not allowed, since each must be checked; use a subselect")
		}
	}
	return nil
}

// target reads the table that a statement writes to.
func (p *parser) target(s *statement) error {
	name, err := p.tablePart()
	if err != nil {
		return err
	}
	s.target = tableName{table: name}
	if p.peek(0).sign('.') {
		p.at++
		table, err := p.tablePart()
		if err != nil {
			return err
		}
		s.target = tableName{schema: name, table: table}
	}
	return nil
}

func (p *parser) tablePart() (string, error) {
	t := p.peek(0)
	switch t.kind {
	case tokenWord:
		p.at++
		return t.text, nil
	case tokenName:
		p.at++
		name := strings.ReplaceAll(t.text[1:len(t.text)-1], "``", "`")
		if name == "" {
			return "", p.fail("an empty table name")
		}
		return name, nil
	case tokenValue:
		return "", p.fail("a value %s in place of a table; values are only ever values", t.text)
	case tokenString:
		return "", p.fail("a text %s in place of a table; write the name bare or in backquotes", quoteShort(t.text))
	case tokenSpace, tokenSign, tokenSemi, tokenNothing:
	}
	return "", p.fail("a table's name is missing")
}
