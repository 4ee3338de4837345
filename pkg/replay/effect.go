package replay

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Effect is the business write of a handler: one or more SQL statements with :name values taken from the message, run in
// the ledger's transaction. It is read-only once parsed, and safe for concurrent use.
type Effect struct {
	name       string
	statements []statement
}

// statement is one statement of an effect file.
type statement struct {
	line int
	verb string
	// text is what lies around the placeholders: one piece more than args.
	text []string
	args []string // names, as paths
	raw  []string // the same as they stand in the file, with their colons
	// sql is text joined with ? marks.
	sql    string
	target tableName // of a statement that writes
	tokens []token
	// backslash says that a quoted text holds one, which a server under NO_BACKSLASH_ESCAPES reads otherwise.
	backslash bool
	start     int // offset in the file of text[0]
}

// tableName is a table as an effect names it.
type tableName struct{ schema, table string }

func (t tableName) String() string {
	if t.schema == "" {
		return t.table
	}
	return t.schema + "." + t.table
}

// EffectError says what is wrong with an effect file: a fault of the configuration, not of a message or a server.
type EffectError struct {
	File   string
	Line   int // from 1; 0 where it is about the file as a whole
	Reason string
	Err    error // what the server said, if it was asked
}

func (e *EffectError) Error() string {
	at := e.File
	if e.Line > 0 {
		at = fmt.Sprintf("%s:%d", e.File, e.Line)
	}
	if e.Err != nil {
		return fmt.Sprintf("effect %s: %s: %v", at, e.Reason, e.Err)
	}
	return fmt.Sprintf("effect %s: %s", at, e.Reason)
}

// Unwrap returns the server's error, if there is one.
func (e *EffectError) Unwrap() error { return e.Err }

// ParseEffect reads an effect file; name stands for it in errors. Statements are separated by semicolons. Only INSERT,
// UPDATE, DELETE, REPLACE and SELECT are allowed, each writing to one table that is named plainly, so that everything an
// effect does is undone with the transaction (hazard G18). Values are written :name, where name is a path into the message
// (:data.order\.id, :order\-id) or a built-in (:_order_id), outside of quotes and comments. The error is an *EffectError.
func ParseEffect(name, text string) (*Effect, error) {
	text = strings.TrimPrefix(text, "\ufeff")
	tokens, err := lexEffect(text)
	if err != nil {
		return nil, inFile(name, err)
	}
	e := &Effect{name: name}
	for _, part := range splitStatements(tokens) {
		s, err := parseStatement(text, part)
		if err != nil {
			return nil, inFile(name, err)
		}
		e.statements = append(e.statements, s)
	}
	if len(e.statements) == 0 {
		return nil, &EffectError{File: name, Reason: "it holds no statement"}
	}
	return e, nil
}

func inFile(name string, err error) error {
	if effect, ok := errors.AsType[*EffectError](err); ok {
		effect.File = name
	}
	return err
}

// Name is the effect's file.
func (e *Effect) Name() string { return e.name }

// Names lists the names of the values that the effect needs, each once, in order of appearance.
func (e *Effect) Names() []string {
	names := []string{}
	for i := range e.statements {
		for _, a := range e.statements[i].args {
			if !slices.Contains(names, a) {
				names = append(names, a)
			}
		}
	}
	return names
}

// Targets lists the tables that the effect writes to, as it names them, each once, in order of appearance.
func (e *Effect) Targets() []string {
	targets := []string{}
	for i := range e.statements {
		if t := e.statements[i].target; t.table != "" && !slices.Contains(targets, t.String()) {
			targets = append(targets, t.String())
		}
	}
	return targets
}

// Statements lists the statements as they are sent, with ? for each value.
func (e *Effect) Statements() []string {
	out := make([]string, len(e.statements))
	for i := range e.statements {
		out[i] = e.statements[i].sql
	}
	return out
}

// Execer is what an effect runs on: a transaction.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Run runs the statements in order with the values of one message, always as bound parameters. It neither begins nor ends
// a transaction: an error means that the caller must roll back. The server's error is wrapped.
func (e *Effect) Run(ctx context.Context, ex Execer, args Args) error {
	for i := range e.statements {
		s := &e.statements[i]
		values := make([]any, len(s.args))
		for j, name := range s.args {
			v, ok := args.Value(name)
			if !ok {
				return fmt.Errorf("effect %s:%d: the message gives no value for :%s", e.name, s.line, name)
			}
			values[j] = v
		}
		if err := s.run(ctx, ex, values); err != nil {
			return fmt.Errorf("effect %s:%d: %s: %w", e.name, s.line, strings.ToLower(s.verb), err)
		}
	}
	return nil
}

func (s *statement) run(ctx context.Context, ex Execer, values []any) (err error) {
	if s.verb != "SELECT" {
		_, err := ex.ExecContext(ctx, s.sql, values...)
		return err
	}
	// A SELECT is there for its locks; its rows are read to the end, so that an error among them is not missed.
	rows, err := ex.QueryContext(ctx, s.sql, values...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
	}
	return rows.Err()
}
