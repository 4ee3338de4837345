package ledger

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"
)

// Source names the record that brought a message.
type Source struct {
	Topic     string
	Partition int32
	Offset    int64
}

// ClaimID marks the rows that one claim inserted, so that a lost COMMIT reply can be settled.
type ClaimID [16]byte

func newClaimID() (ClaimID, error) {
	var id ClaimID
	if _, err := rand.Read(id[:]); err != nil {
		return id, fmt.Errorf("new claim id: %w", err)
	}
	return id, nil
}

// owner is the claim's name in a PROCESSING marker.
func (id ClaimID) owner() string { return hex.EncodeToString(id[:]) }

// Entry is a ledger row: the proof that a key's effect happened.
type Entry struct {
	Key         Key
	CreateTime  time.Time // UTC
	ExpireAt    time.Time // UTC; zero: the ledger was made by someone else and has no such column
	ClaimID     *ClaimID  // nil: written by another service
	Fingerprint []byte    // 16 bytes or nil
	Source      *Source   // nil: not known
	Table       string
}

// Message is one delivery of a business event.
type Message struct {
	Key Key
	// Time is the business time, else the record's timestamp; it chooses the home month and is held against the horizon.
	Time time.Time
	// Fingerprint of what must not change between deliveries: 16 bytes, or nil.
	Fingerprint []byte
	Source      *Source
}
