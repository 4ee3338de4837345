package reconcile

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/idemctl/idemctl/pkg/ledger"
)

// suspect is something that looked like a finding once. It is written to a spool.
type suspect struct {
	Kind Kind `json:"kind"`
	// Ledger says that it was a row that led to it: cold or twice. Otherwise it was a marker.
	Ledger bool  `json:"ledger,omitempty"`
	Name   Bytes `json:"name"`
	// What the marker was, and for how long nobody had touched it.
	Raw       Bytes         `json:"raw,omitempty"`
	WrongType bool          `json:"wrong_type,omitempty"`
	TTL       time.Duration `json:"ttl"`
	Idle      time.Duration `json:"idle,omitempty"`
	Seen      time.Time     `json:"seen"` // by the ledger's clock
}

func (s *suspect) reading() reading {
	if s.WrongType {
		return reading{Marker: ledger.Marker{State: ledger.MarkerMalformed, TTL: s.TTL}, wrongType: true}
	}
	m := reading{Marker: ledger.ParseMarker(string(s.Raw)), idle: s.Idle}
	m.TTL = s.TTL
	return m
}

func newSuspect(k Kind, name string, m *reading, seen time.Time) suspect {
	return suspect{Kind: k, Name: Bytes(name), Raw: Bytes(m.Raw), WrongType: m.wrongType, TTL: m.TTL, Idle: m.idle, Seen: seen}
}

// suspects is a spool of them. A key that SCAN returned twice, as it may while a server's table grows, is there twice.
type suspects struct {
	spool

	seed maphash.Seed
}

func (l *suspects) put(s *suspect) error {
	record, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("temp file of suspects: %w", err)
	}
	return l.add(maphash.String(l.seed, string(s.Name)), record)
}

// onceHeld is how many suspects are told apart at a time: what pages holds in memory, at some 50 bytes each.
const onceHeld = 1 << 16

// pages hands out the suspects, each once, in pages of at most size. The spool is read once for every onceHeld of them.
func (l *suspects) pages(size int, fn func([]suspect) error) error {
	passes := uint64(l.n/onceHeld) + 1 //nolint:gosec // a count
	for pass := range passes {
		type id struct {
			hash uint64
			kind Kind // of a row; a marker is of one kind only
		}
		once := map[id]bool{}
		page := make([]suspect, 0, size)
		err := l.each(func(hash uint64) bool { return hash>>32%passes == pass }, func(hash uint64, record []byte) error {
			var s suspect
			if err := json.Unmarshal(record, &s); err != nil {
				return fmt.Errorf("temp file of suspects: %w", err)
			}
			this := id{hash: hash}
			if s.Ledger {
				this.kind = s.Kind
			}
			if once[this] {
				return nil
			}
			once[this] = true
			if page = append(page, s); len(page) < size {
				return nil
			}
			err := fn(page)
			page = page[:0]
			return err
		})
		if err == nil && len(page) > 0 {
			err = fn(page)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
