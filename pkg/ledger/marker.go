package ledger

import (
	"encoding/hex"
	"strings"
	"time"
)

// The words of a marker, as services in other languages write them too.
const (
	wordProcessing = "PROCESSING"
	wordCompleted  = "COMPLETED"
)

// MarkerState sorts what a Redis key may hold.
type MarkerState uint8

// The states of a marker.
const (
	MarkerNone       MarkerState = iota // no key
	MarkerProcessing                    // PROCESSING[:owner]
	MarkerCompleted                     // COMPLETED[:ledger[:fingerprint]]
	MarkerMalformed                     // anything else, another type included
)

// Marker is the value of one Redis key. Only a COMPLETED that carries this ledger's id says anything that can be trusted.
type Marker struct {
	State       MarkerState
	Owner       string // of PROCESSING; "" for the bare word
	Ledger      string // of COMPLETED; "" for the bare word
	Fingerprint []byte // of COMPLETED; nil: none
	Raw         string
	// TTL is the time left; negative: the key never expires.
	TTL time.Duration
}

// ParseMarker reads a value. It never fails: what is not a marker is MarkerMalformed.
func ParseMarker(raw string) Marker {
	m := Marker{State: MarkerMalformed, Raw: raw}
	word, rest, qualified := strings.Cut(raw, ":")
	switch word {
	case wordProcessing:
		m.State, m.Owner = MarkerProcessing, rest
	case wordCompleted:
		id, digits, printed := strings.Cut(rest, ":")
		if printed {
			b, err := hex.DecodeString(digits)
			if err != nil || len(b) != fingerprintLen {
				return m
			}
			m.Fingerprint = b
		}
		if qualified && id == "" {
			return m
		}
		m.State, m.Ledger = MarkerCompleted, id
	}
	return m
}

// fingerprintLen is the width of the fingerprint column in bytes.
const fingerprintLen = 16

// processing is the marker of a live claim.
func processing(owner string) string { return wordProcessing + ":" + owner }

// completed is the marker of an entry of this ledger.
func completed(ledgerID string, fingerprint []byte) string {
	s := wordCompleted + ":" + ledgerID
	if len(fingerprint) > 0 {
		s += ":" + hex.EncodeToString(fingerprint)
	}
	return s
}
