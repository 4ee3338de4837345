package replay

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Mode says how far a replay goes.
type Mode string

// The modes.
const (
	ModeVerify   Mode = "verify"   // look-ups only
	ModeRehearse Mode = "rehearse" // the whole transaction, rolled back; Redis untouched
	ModeExecute  Mode = "execute"  // for real
)

// Modes lists the modes, the most careful first.
func Modes() []Mode { return []Mode{ModeVerify, ModeRehearse, ModeExecute} }

// Writes reports whether the mode changes anything on a server.
func (m Mode) Writes() bool { return m == ModeExecute }

// ModeError is a mode that does not exist.
type ModeError struct {
	Given   string
	Nearest Mode // empty where nothing is near
}

func (e *ModeError) Error() string {
	s := fmt.Sprintf("mode %q is none of verify, rehearse, execute", e.Given)
	if e.Nearest != "" {
		s += fmt.Sprintf("; did you mean %s?", e.Nearest)
	}
	return s
}

// ParseMode reads a mode; the error is a *ModeError that names the nearest one.
func ParseMode(s string) (Mode, error) {
	nearest, best := Mode(""), 4 // further off than three edits nothing is suggested
	for _, m := range Modes() {
		if s == string(m) {
			return m, nil
		}
		given := strings.ToLower(strings.TrimSpace(s))
		d := editDistance(given, string(m))
		if len(given) >= 3 && strings.HasPrefix(string(m), given) {
			d = 1
		}
		if d < best {
			nearest, best = m, d
		}
	}
	return "", &ModeError{Given: s, Nearest: nearest}
}

// editDistance counts the insertions, deletions and replacements of bytes between two words.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next := min(diagonal+cost, row[j]+1, row[j+1]+1)
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}

// Defaults of a Request.
const (
	DefaultPageSize    = 500
	DefaultMaxFailures = 100
)

// ErrRequest is a request that cannot be carried out as it stands: a negative limit, no topic.
var ErrRequest = errors.New("replay request")

// Request is what a user asks for.
type Request struct {
	Topic      string
	Partitions []int32 // none: all
	Range      Range
	Mode       Mode
	// Key, when not empty, restricts the run to the records of that order id; the others are read and counted as filtered.
	Key string
	// Limit ends the run after so many records (matching ones, with Key); 0 means no limit.
	Limit int64
	// Rate bounds the records handed to the handler, per second; 0 means no bound.
	Rate float64
	// MaxFailures ends the run when so many records have failed: 0 means DefaultMaxFailures, a negative number no bound. Only
	// outcomes of class Failed count (an effect that fails), not what is held back or invalid. The page in which the last of
	// them falls is still counted whole, since it has been handled.
	MaxFailures int
	// PageSize is the number of records given to the handler at once; 0 means DefaultPageSize.
	PageSize int
	// KeepKeys asks for the report per key; it spills to a temp file.
	KeepKeys bool
	// TopKeys is how many of the most delivered keys that report shows; 0 means 20.
	TopKeys int
	// List receives one line per record, as its outcome is final. It is called from one goroutine at a time, in offset order
	// within a partition, except that a record that waited for another owner comes when that is settled. An error ends the run.
	List func(Line) error `json:"-"`
	// InFlightWait is how long, after the range has been read, records whose key another owner holds are tried again before
	// they are reported as in_flight; 0 means not at all.
	InFlightWait time.Duration
}

func (r Request) check() error {
	switch {
	case r.Topic == "":
		return fmt.Errorf("%w: no topic", ErrRequest)
	case r.Limit < 0:
		return fmt.Errorf("%w: limit %d is negative", ErrRequest, r.Limit)
	case r.Rate < 0:
		return fmt.Errorf("%w: rate %v is negative", ErrRequest, r.Rate)
	case r.PageSize < 0:
		return fmt.Errorf("%w: page size %d is negative", ErrRequest, r.PageSize)
	case r.TopKeys < 0:
		return fmt.Errorf("%w: number of keys %d is negative", ErrRequest, r.TopKeys)
	case r.InFlightWait < 0:
		return fmt.Errorf("%w: wait for keys in flight %s is negative", ErrRequest, r.InFlightWait)
	}
	if _, err := ParseMode(string(r.Mode)); err != nil {
		return fmt.Errorf("%w: %w", ErrRequest, err)
	}
	return nil
}

// withDefaults returns the request with every zero that stands for a default replaced.
func (r Request) withDefaults() Request {
	if r.PageSize == 0 {
		r.PageSize = DefaultPageSize
	}
	if r.MaxFailures == 0 {
		r.MaxFailures = DefaultMaxFailures
	}
	if r.TopKeys == 0 {
		r.TopKeys = 20
	}
	return r
}

// Plan is a request with its range pinned: what Run does, and what is shown before it.
type Plan struct {
	Request Request
	// Bounds are the pinned ranges, in order of partition.
	Bounds []Bounds
	// Pinned is when the ends were taken.
	Pinned time.Time
}

// Offsets is the number of offsets in the plan; records may be fewer.
func (p Plan) Offsets() int64 {
	var n int64
	for _, b := range p.Bounds {
		n += b.Len()
	}
	return n
}

// HeldBack counts the offsets that open transactions keep from being read.
func (p Plan) HeldBack() int64 {
	var n int64
	for _, b := range p.Bounds {
		n += b.HeldBack
	}
	return n
}

// Clipped reports whether any partition has less than was asked for.
func (p Plan) Clipped() bool {
	for _, b := range p.Bounds {
		if b.Clipped {
			return true
		}
	}
	return false
}
