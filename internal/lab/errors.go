package lab

import (
	"errors"
	"fmt"
	"strings"
)

// ErrNotFound is matched by a [NotFoundError].
var ErrNotFound = errors.New("server program not found")

// ErrEmbedded is returned when a server inside this process is asked for what only a process of its own can do.
var ErrEmbedded = errors.New("the embedded Kafka is no process of its own")

// ErrStopped is returned when a server that has been stopped is asked to pause, resume or be killed.
var ErrStopped = errors.New("the server is not running")

// NotFoundError says which server this machine does not have. It matches [ErrNotFound].
type NotFoundError struct {
	// Server as a person would call it: "MariaDB 11.8".
	Server string
	// Hint says how to get it.
	Hint string
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("%s is not on this machine: %s", e.Server, e.Hint)
}

// Is makes errors.Is(err, ErrNotFound) hold.
func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }

// StartError is a server that did not come up. Nothing of it is left running.
type StartError struct {
	// Server as a person would call it, Program the file that was run.
	Server, Program string
	// Log is the end of what the server wrote.
	Log string
	Err error
}

func (e *StartError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "starting %s (%s): %v", e.Server, e.Program, e.Err)
	if log := strings.TrimSpace(e.Log); log != "" {
		b.WriteString("; its log ends:")
		for line := range strings.SplitSeq(log, "\n") {
			b.WriteString("\n  | " + line)
		}
	}
	return b.String()
}

// Unwrap returns why it did not come up.
func (e *StartError) Unwrap() error { return e.Err }
