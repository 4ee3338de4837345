package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/replay"
)

// Exit codes, the same for every command and output format. This file is the only place where an error becomes one.
const (
	exitDone        = 0
	exitFinding     = 1 // a check found something
	exitUsage       = 2 // usage or configuration
	exitFailure     = 3 // could not: unreachable, refused, server or I/O error, a panic
	exitIncomplete  = 4 // something was left out
	exitBusy        = 5 // another run holds the lock
	exitInterrupted = 130
)

// exitHelp describes the codes that every command shares, for the end of its long help; own are lines about 4 and 5.
func exitHelp(own ...string) string {
	const first, last = `
  2    usage or configuration is wrong; nothing was done
  3    could not: a server is unreachable or refused, or an I/O error
`, `  130  interrupted (Ctrl-C, SIGTERM)`
	return first + strings.Join(append(own, last), "\n")
}

// statusError is an error, or a mere result, with the exit code it stands for. Err nil: the command has already said all
// there is to say in its result, and nothing more is printed.
type statusError struct {
	Code int
	Err  error
}

func (e *statusError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit status %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns the error below.
func (e *statusError) Unwrap() error { return e.Err }

// exitStatus ends a command whose result has been printed with code; 0 is no error.
func exitStatus(code int) error {
	if code == exitDone {
		return nil
	}
	return &statusError{Code: code}
}

// withStatus gives err a code of its own. nil stays nil.
func withStatus(code int, err error) error {
	if err == nil {
		return nil
	}
	return &statusError{Code: code, Err: err}
}

// usageErrorf is a wrong command line or configuration: exit 2, before anything was done.
func usageErrorf(format string, args ...any) error {
	return &statusError{Code: exitUsage, Err: fmt.Errorf(format, args...)}
}

// errInterrupted is why a command's context ended when a signal came.
var errInterrupted = errors.New("interrupted")

// exitCode finds the code of an error. Of several joined errors the first of 130, 2, 3, 5, 4, 1 holds: what a caller must
// not overlook comes first. An error that says nothing of its code could not: 3.
func exitCode(err error) int {
	if err == nil {
		return exitDone
	}
	code, ok := codeOf(err)
	if !ok {
		return exitFailure
	}
	return code
}

// codeOf looks for a code in the tree of errors. The outermost word holds: a usage error made of a file error is a usage
// error. ok is false where nothing in err names a code.
func codeOf(err error) (code int, ok bool) {
	if code, ok := ownCode(err); ok {
		return code, true
	}
	switch e := err.(type) { //nolint:errorlint // one node at a time: its children are asked below
	case interface{ Unwrap() []error }:
		return worst(e.Unwrap())
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return codeOf(inner)
		}
	}
	return 0, false
}

// worst is the code of several errors. One that names no code counts as a failure beside the others.
func worst(errs []error) (code int, ok bool) {
	for _, e := range errs {
		if e == nil {
			continue
		}
		c, named := codeOf(e)
		if !named {
			c = exitFailure
		}
		if !ok || rank(c) < rank(code) {
			code, ok = c, true
		}
	}
	return code, ok
}

// rank orders codes by which of several holds; 0 is the first.
func rank(code int) int {
	for i, c := range [...]int{exitInterrupted, exitUsage, exitFailure, exitBusy, exitIncomplete, exitFinding, exitDone} {
		if c == code {
			return i
		}
	}
	return 2 // an unknown code is a failure
}

// ownCode is the code that one node of the tree stands for by its type or value, its children aside.
func ownCode(err error) (code int, ok bool) {
	if s, is := err.(*statusError); is { //nolint:errorlint // this node only
		return s.Code, true
	}
	if err == errInterrupted { //nolint:errorlint // this node only
		return exitInterrupted, true
	}
	if err == mysqlx.ErrLockHeld { //nolint:errorlint // this node only
		return exitBusy, true
	}
	switch err.(type) { //nolint:errorlint // this node only
	case *replay.RangeSyntaxError, *replay.ModeError, *replay.EffectError:
		return exitUsage, true
	case *mysqlx.BlockedError: // deferred: another session's lock was in the way
		return exitIncomplete, true
	}
	return 0, false
}

// words is what to print about err; empty where the command has already had its say in its result.
func words(err error) string {
	switch e := err.(type) { //nolint:errorlint // one node at a time
	case nil:
		return ""
	case *statusError:
		if e.Err == nil {
			return ""
		}
		return words(e.Err)
	case interface{ Unwrap() []error }:
		var all, said []string
		for _, child := range e.Unwrap() {
			all = append(all, child.Error())
			if w := words(child); w != "" {
				said = append(said, w)
			}
		}
		// Errors merely joined are told one after the other; an error made of several by a format has its own words.
		if err.Error() == strings.Join(all, "\n") {
			return strings.Join(said, "; ")
		}
	}
	return err.Error()
}
