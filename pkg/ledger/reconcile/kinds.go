package reconcile

import (
	"fmt"
	"slices"
	"strings"
)

// Kind is a kind of finding. A marker is of one kind at most: of several that would fit, the one whose repair mends all.
type Kind string

// The kinds.
const (
	// Phantom is COMPLETED of this ledger, written when the ledger remembers all, and there is no row.
	Phantom Kind = "phantom"
	// Twice is one key in two tables, held ones included; in a ledger made by someone else also one with two rows in one table.
	Twice Kind = "twice"
	// FingerprintMismatch is a COMPLETED marker whose fingerprint is not that of the row.
	FingerprintMismatch Kind = "fingerprint_mismatch"
	// Stuck is PROCESSING without a TTL or with one beyond the lease, and no row.
	Stuck Kind = "stuck"
	// Abandoned is PROCESSING that is provably older than lease and slack, and no row.
	Abandoned Kind = "abandoned"
	// StaleProcessing is PROCESSING although the row exists.
	StaleProcessing Kind = "stale_processing"
	// Immortal is COMPLETED without a TTL.
	Immortal Kind = "immortal"
	// OutlivesEntry is COMPLETED that lasts beyond its row's expire_at.
	OutlivesEntry Kind = "outlives_entry"
	// Malformed is a value that is no marker, or a key of another type.
	Malformed Kind = "malformed"
	// AlienKey is a key with the template's beginning that is not of the template.
	AlienKey Kind = "alien_key"
	// ForeignLedger is COMPLETED of another ledger, or the bare word where markers are owned.
	ForeignLedger Kind = "foreign_ledger"
	// Unremembered is COMPLETED without a row, written when the ledger does not remember all: nobody can say what it means.
	Unremembered Kind = "unremembered"
	// Cold is a row inside a marker's lifetime without a marker.
	Cold Kind = "cold"
)

// Severity says how much a kind matters.
type Severity string

// The severities. Info is no fault.
const (
	Fail Severity = "fail"
	Warn Severity = "warn"
	Info Severity = "info"
)

type kindFacts struct {
	kind     Kind
	severity Severity
	means    string
	repair   string // "" where there is none
}

// facts are all kinds, the worst first.
func facts() []kindFacts {
	return []kindFacts{
		{Phantom, Fail, "a message of this key is dropped although its work was never done", "delete the marker, so that the message can run"},
		{Twice, Fail, "the effect may have run twice: the key has more than one row", ""},
		{FingerprintMismatch, Fail, "two different contents of one key were both taken for done", ""},
		{ForeignLedger, Warn, "not trusted: costs a look in the ledger each time, and without a row a replay holds it back", "write this ledger's marker where the row exists, delete it where not"},
		{Stuck, Warn, "a message of this key waits in vain: its lease does not end when it should", "let it end after one lease"},
		{Abandoned, Warn, "a message of this key waits for an owner that has died", "delete the marker"},
		{StaleProcessing, Warn, "done, but not marked: duplicates wait for the lease, then ask the ledger", "mark it completed"},
		{Immortal, Warn, "never expires: Redis fills up, and a lost row would go unnoticed", "give it the time to live that it should have"},
		{OutlivesEntry, Warn, "duplicates are dropped for longer than the ledger can prove", "shorten its time to live to that of the entry"},
		{Malformed, Warn, "no marker: the ledger is asked each time, and the key can never be marked", "delete it where it is a string; another type is left alone"},
		{AlienKey, Warn, "not of this template: another writer uses the same names, or another template", ""},
		{Unremembered, Info, "older than the ledger's memory: nobody can say whether it was done", ""},
		{Cold, Info, "Redis has lost the marker: duplicates cost a look in the ledger", ""},
	}
}

// Kinds are all kinds, the worst first.
func Kinds() []Kind {
	all := facts()
	kinds := make([]Kind, len(all))
	for i, f := range all {
		kinds[i] = f.kind
	}
	return kinds
}

func (k Kind) facts() kindFacts {
	for _, f := range facts() {
		if f.kind == k {
			return f
		}
	}
	return kindFacts{kind: k, severity: Warn}
}

// Severity says how much the kind matters.
func (k Kind) Severity() Severity { return k.facts().severity }

// Means says in words what it means for the orders.
func (k Kind) Means() string { return k.facts().means }

// Repair says in words what Fix does; "" where it can do nothing.
func (k Kind) Repair() string { return k.facts().repair }

// Fixable reports whether Fix can do something about it.
func (k Kind) Fixable() bool { return k.Repair() != "" }

// KindError is a word that is no kind, or a kind that cannot be repaired.
type KindError struct {
	Kind Kind
	// Known is set for a kind that there is, but that Fix can do nothing about.
	Known bool
}

func (e *KindError) Error() string {
	if e.Known {
		return fmt.Sprintf("%s cannot be repaired here: %s", e.Kind, e.Kind.why())
	}
	return fmt.Sprintf("no kind %q; there are %s", string(e.Kind), words(fixable()))
}

// why says what to do about a kind that cannot be repaired.
func (k Kind) why() string {
	switch k { //nolint:exhaustive // the others can be repaired
	case Twice:
		return "see in both rows which record executed them, and settle the orders by hand"
	case FingerprintMismatch:
		return "the order's two contents must be compared by hand"
	case AlienKey:
		return "another writer owns these keys"
	case Cold:
		return "it is no fault, and mends itself with the next duplicate"
	case Unremembered:
		return "only someone who knows the order can say whether it was done"
	}
	return "nothing is known to mend it"
}

// ParseFixable reads the names of kinds to repair. The error is a *KindError.
func ParseFixable(names []string) ([]Kind, error) {
	var kinds []Kind
	for _, n := range names {
		k := Kind(strings.TrimSpace(n))
		if !k.Fixable() {
			return nil, &KindError{Kind: k, Known: slices.Contains(Kinds(), k)}
		}
		if !slices.Contains(kinds, k) {
			kinds = append(kinds, k)
		}
	}
	return kinds, nil
}

func fixable() []Kind {
	return slices.DeleteFunc(Kinds(), func(k Kind) bool { return !k.Fixable() })
}

func words(kinds []Kind) string {
	s := make([]string, len(kinds))
	for i, k := range kinds {
		s[i] = string(k)
	}
	return strings.Join(s, ", ")
}
