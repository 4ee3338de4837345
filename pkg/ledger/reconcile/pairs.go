package reconcile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"time"

	"github.com/idemctl/idemctl/pkg/ledger"
)

// pairs brings the rows that a walk has met together with the markers that a scan has met, by name, once both are through:
// neither needs to be looked up one by one. What has no counterpart is handed out by name. Both sides lie in temp files.
type pairs struct {
	seed    maphash.Seed // random, so that nobody can choose names that fall into one part
	rows    parts
	markers parts
}

// What a record says, as bits.
const (
	// rowSafe is a row that is the only one of its key and lasts longer than any marker that was written as it should be.
	rowSafe = 1 << iota
	// rowYoung is a row that should have a marker.
	rowYoung
	// rowTwice is one of several rows of its key.
	rowTwice
	// markerAlone is a marker that is as it should be if there is a safe row whose fingerprint agrees.
	markerAlone
	// printed says that there is a fingerprint.
	printed
)

const (
	printSize  = 16
	recordHead = 8 + 1 + 2 + 2*8 // hash, bits, length of the name, two times
)

// record is what a side keeps of a key.
type record struct {
	hash             uint64
	bits             byte
	fingerprint      []byte
	created, expires int64 // of a row: Unix milliseconds
	name             []byte
}

// addRow puts a row in. It says nothing of one whose bits are all 0.
func (p *pairs) addRow(name string, bits byte, w *walked) error {
	return add(&p.rows, maphash.String(p.seed, name), name, bits, w.fingerprint, milli(w.created), milli(w.expires))
}

// addMarker puts a marker in.
func (p *pairs) addMarker(name string, bits byte, fingerprint []byte) error {
	return add(&p.markers, maphash.String(p.seed, name), name, bits, fingerprint, 0, 0)
}

func add(to *parts, hash uint64, name string, bits byte, fingerprint []byte, created, expires int64) error {
	const usual = 256
	var space [usual]byte
	if len(fingerprint) == printSize {
		bits |= printed
	}
	r := binary.LittleEndian.AppendUint64(space[:0], hash)
	r = append(r, bits)
	r = binary.LittleEndian.AppendUint16(r, uint16(len(name))) //nolint:gosec // the template's beginning and 161 bytes
	r = binary.LittleEndian.AppendUint64(r, uint64(created))   //nolint:gosec // back and forth
	r = binary.LittleEndian.AppendUint64(r, uint64(expires))   //nolint:gosec // back and forth
	if bits&printed != 0 {
		r = append(r, fingerprint...)
	}
	return to.add(hash, append(r, name...))
}

// cut takes the first record off.
func cut(b []byte) (r record, rest []byte) {
	r.hash, r.bits = binary.LittleEndian.Uint64(b), b[8]
	size := int(binary.LittleEndian.Uint16(b[9:]))
	r.created = int64(binary.LittleEndian.Uint64(b[11:])) //nolint:gosec // back and forth
	r.expires = int64(binary.LittleEndian.Uint64(b[19:])) //nolint:gosec // back and forth
	b = b[recordHead:]
	if r.bits&printed != 0 {
		r.fingerprint, b = b[:printSize], b[printSize:]
	}
	r.name = b[:size]
	return r, b[size:]
}

// noTime stands for a time that is not known.
const noTime = -1 << 63

func milli(t time.Time) int64 {
	if t.IsZero() {
		return noTime
	}
	return t.UnixMilli()
}

func fromMilli(ms int64) time.Time {
	if ms == noTime {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// unpaired is told of what has no counterpart. Each function is called from one goroutine.
type unpaired struct {
	// marker: one that would be as it should be, if the row had been met.
	marker func(name string) error
	// row: a young one whose marker was not met; twice: a key that has several rows.
	row   func(name string, created, expires time.Time) error
	twice func(name string, created time.Time) error
}

// pairRow is a row's record in a part.
type pairRow struct {
	record

	met  bool
	next int32 // another row with the same hash, by its number plus one; 0: none
}

// pairing is one part in memory.
type pairing struct {
	rows  []pairRow
	index map[uint64]int32 // the first row with a hash, by its number plus one
}

func (p *pairing) find(r *record) *pairRow {
	for i := p.index[r.hash]; i > 0; i = p.rows[i-1].next {
		if row := &p.rows[i-1]; bytes.Equal(row.name, r.name) {
			return row
		}
	}
	return nil
}

// put adds a row. Of a key that is there already the newer one counts.
func (p *pairing) put(r record) {
	row := p.find(&r)
	if row == nil {
		p.rows = append(p.rows, pairRow{record: r, next: p.index[r.hash]})
		p.index[r.hash] = int32(len(p.rows)) //nolint:gosec // a part of what fits on a disk
		return
	}
	bits := (row.bits|r.bits|rowTwice)&^rowSafe&^printed | row.bits&printed
	if r.created > row.created {
		row.created, row.expires = r.created, r.expires
	}
	row.bits = bits
}

// match brings the two sides together.
func (p *pairs) match(u unpaired) error {
	in := pairing{index: map[uint64]int32{}}
	var rows, markers []byte
	var err error
	for part := range partCount {
		if rows, err = p.rows.part(part, rows); err != nil {
			return err
		}
		if markers, err = p.markers.part(part, markers); err != nil {
			return err
		}
		in.rows = in.rows[:0]
		clear(in.index)
		for rest := rows; len(rest) > 0; {
			var r record
			r, rest = cut(rest)
			in.put(r)
		}
		for rest := markers; len(rest) > 0; {
			var m record
			m, rest = cut(rest)
			row := in.find(&m)
			if row != nil {
				row.met = true
			}
			settled := row != nil && row.bits&rowSafe != 0 && agree(m.fingerprint, row.fingerprint)
			if m.bits&markerAlone != 0 && !settled {
				if err := u.marker(string(m.name)); err != nil {
					return err
				}
			}
		}
		if err := in.left(u); err != nil {
			return err
		}
	}
	return nil
}

// left hands out the rows that need a look.
func (p *pairing) left(u unpaired) error {
	for i := range p.rows {
		r := &p.rows[i]
		if r.bits&rowTwice != 0 {
			if err := u.twice(string(r.name), fromMilli(r.created)); err != nil {
				return err
			}
		}
		if r.bits&rowYoung != 0 && !r.met {
			if err := u.row(string(r.name), fromMilli(r.created), fromMilli(r.expires)); err != nil {
				return err
			}
		}
	}
	return nil
}

// agree reports whether two fingerprints are the same, or one side has none.
func agree(a, b []byte) bool { return len(a) == 0 || len(b) == 0 || bytes.Equal(a, b) }

func (p *pairs) close() error {
	if p == nil {
		return nil
	}
	return errors.Join(p.rows.close(), p.markers.close())
}

// bitsOf says of a marker whether a row alone decides about it.
func bitsOf(m *reading, rules *rules, now, until time.Time) byte {
	if m.State == ledger.MarkerCompleted && rules.own(m) && m.TTL >= 0 && !now.Add(m.TTL).After(until) {
		return markerAlone
	}
	return 0
}
