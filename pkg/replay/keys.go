package replay

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// KeyReport says how often keys came, and whether they came again or were published again.
type KeyReport struct {
	Keys     int64 `json:"keys"`     // distinct
	Repeated int64 `json:"repeated"` // keys with more than one delivery
	// Excess counts the deliveries beyond the first of each key.
	Excess int64 `json:"excess"`
	// Redelivered are duplicates that are the very record that executed the key; Republished are other records with the same
	// key; Unattributed are those of which the executing record is not known.
	Redelivered  int64 `json:"redelivered"`
	Republished  int64 `json:"republished"`
	Unattributed int64 `json:"unattributed,omitempty"`
	// Top are the most delivered keys, by deliveries, then by key; only repeated ones.
	Top []KeyLine `json:"top"`
	// Spilled is how many bytes went through a temp file.
	Spilled int64 `json:"spilled,omitempty"`
}

// KeyLine is what came of one key.
type KeyLine struct {
	Key        string `json:"key"`
	Deliveries int64  `json:"deliveries"`
	Offsets    int64  `json:"offsets"` // distinct partition and offset
	Outcomes   Tally  `json:"outcomes"`
	// First and Last are the record times of the earliest and latest delivery, GapMS what lies between, in milliseconds.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	GapMS int64     `json:"gap_ms"`
	// By is the record that executed the key: as the ledger knows it, else the first that this range executed or would.
	By           *Position `json:"by,omitempty"`
	Redelivered  int64     `json:"redelivered"`
	Republished  int64     `json:"republished"`
	Unattributed int64     `json:"unattributed,omitempty"`
}

// keysSink gathers deliveries and groups them by key outside of memory: sorted runs in one temp file, merged at the end, so
// that memory stays bounded however many keys there are and however often one comes (hazard R12).
type keysSink struct {
	dir     string
	bound   int
	topic   string
	codes   []string // outcome by code
	topics  []string // topic by code; the first is the run's own
	entries []delivery
	size    int
	runs    *keyRuns // nil until memory is full
}

// delivery is one record of one key. Outcome and topics are codes, to be small.
type delivery struct {
	key       string
	partition int32
	outcome   uint8
	class     Class
	hasBy     bool
	byInRange bool // by is of this range, so the ledger does not know it
	byTopic   uint16
	byPart    int32
	offset    int64
	millis    int64
	byOffset  int64
}

// deliverySize is what a delivery takes in memory beside its key.
const deliverySize = 72

func newKeysSink(dir string, bound int, topic string) *keysSink {
	return &keysSink{dir: dir, bound: bound, topic: topic, codes: Outcomes(), topics: []string{topic}}
}

func (s *keysSink) add(l *Line, class Class) error {
	d := delivery{
		key: strings.Clone(l.Key), partition: l.Partition, offset: l.Offset, millis: l.Time.UnixMilli(), class: class,
	}
	code, err := codeOf(&s.codes, l.Outcome, 1<<8)
	if err != nil {
		return fmt.Errorf("report per key: outcome %s: %w", l.Outcome, err)
	}
	d.outcome = uint8(code) //nolint:gosec // codeOf keeps it below 1<<8
	if l.By != nil {
		code, err := codeOf(&s.topics, l.By.Topic, 1<<16)
		if err != nil {
			return fmt.Errorf("report per key: topic %s: %w", l.By.Topic, err)
		}
		d.hasBy, d.byInRange = true, l.InRange
		d.byTopic, d.byPart, d.byOffset = uint16(code), l.By.Partition, l.By.Offset //nolint:gosec // codeOf keeps it below 1<<16
	}
	s.entries = append(s.entries, d)
	s.size += deliverySize + len(d.key)
	if s.size < s.bound {
		return nil
	}
	return s.spill()
}

var errTooMany = errors.New("too many different ones")

// codeOf returns the index of word in words, adding it where it is new.
func codeOf(words *[]string, word string, limit int) (int, error) {
	if i := slices.Index(*words, word); i >= 0 {
		return i, nil
	}
	if len(*words) == limit {
		return 0, errTooMany
	}
	*words = append(*words, strings.Clone(word))
	return len(*words) - 1, nil
}

func compareDeliveries(a, b *delivery) int {
	if c := strings.Compare(a.key, b.key); c != 0 {
		return c
	}
	return comparePositions(&Position{Partition: a.partition, Offset: a.offset}, &Position{Partition: b.partition, Offset: b.offset})
}

func (s *keysSink) sort() {
	slices.SortStableFunc(s.entries, func(a, b delivery) int { return compareDeliveries(&a, &b) })
}

func (s *keysSink) spill() error {
	s.sort()
	if s.runs == nil {
		runs, err := newKeyRuns(s.dir)
		if err != nil {
			return fmt.Errorf("temp file of the report per key: %w", err)
		}
		s.runs = runs
	}
	if err := s.runs.write(s.entries); err != nil {
		return fmt.Errorf("write the temp file of the report per key: %w", err)
	}
	clear(s.entries)
	s.entries, s.size = s.entries[:0], 0
	return nil
}

func (s *keysSink) close() {
	if s.runs != nil {
		s.runs.close()
	}
	s.entries, s.runs = nil, nil
}

// report groups everything added so far and shows the top most delivered keys.
func (s *keysSink) report(top int) (*KeyReport, error) {
	s.sort()
	// A duplicate can be told from its original only when the record that executed the key is known, and that may be the last
	// of them. So two merges go over the same deliveries, the first one group ahead of the second: a key that came a million
	// times needs no more memory than any other.
	ahead, err := s.merge()
	if err != nil {
		return nil, fmt.Errorf("read the temp file of the report per key: %w", err)
	}
	behind, err := s.merge()
	if err != nil {
		return nil, fmt.Errorf("read the temp file of the report per key: %w", err)
	}
	g := grouping{sink: s, top: top}
	if s.runs != nil {
		g.report.Spilled = s.runs.size
	}
	if err := g.run(ahead, behind); err != nil {
		return nil, fmt.Errorf("read the temp file of the report per key: %w", err)
	}
	g.report.Top = g.sorted()
	return &g.report, nil
}

func (s *keysSink) merge() (*deliveryMerge, error) {
	var streams []deliveryStream
	if s.runs != nil {
		streams = s.runs.streams() // what came first stays first among equals
	}
	return newDeliveryMerge(append(streams, &memoryStream{entries: s.entries}))
}
