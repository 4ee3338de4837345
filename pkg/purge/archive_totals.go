package purge

import (
	"bytes"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"
)

// archiveTotals gathers what a manifest says of its rows. Times are compared as the server writes them: of one column all
// have the same form, in which the order of bytes is that of time.
type archiveTotals struct {
	layout *tableLayout
	rows   int64
	create span
	expire span
	biz    map[string]*bizTotal
}

type bizTotal struct {
	rows   int64
	latest []byte // create_time
}

// span is the least and the greatest of the values seen.
type span struct{ first, last []byte }

func (s *span) add(v []byte) {
	if s.first == nil || bytes.Compare(v, s.first) < 0 {
		s.first = append(s.first[:0], v...)
	}
	if s.last == nil || bytes.Compare(v, s.last) > 0 {
		s.last = append(s.last[:0], v...)
	}
}

func newArchiveTotals(l *tableLayout) *archiveTotals {
	return &archiveTotals{layout: l, biz: map[string]*bizTotal{}}
}

func (t *archiveTotals) add(row []sql.RawBytes) {
	t.rows++
	created := row[t.layout.create]
	t.create.add(created)
	if t.layout.expire >= 0 {
		t.expire.add(row[t.layout.expire])
	}
	var name []byte
	if t.layout.biz >= 0 {
		name = row[t.layout.biz]
	}
	b := t.biz[string(name)]
	if b == nil {
		b = &bizTotal{}
		t.biz[string(name)] = b
	}
	b.rows++
	if bytes.Compare(created, b.latest) > 0 {
		b.latest = append(b.latest[:0], created...)
	}
}

// fill writes the totals into the manifest.
func (t *archiveTotals) fill(m *Manifest) error {
	m.Rows = t.rows
	m.BizTypes = make([]ArchiveBiz, 0, len(t.biz))
	if t.rows == 0 {
		return nil
	}
	var err error
	parse := func(v []byte) time.Time {
		parsed, perr := parseServerTime(v)
		if err == nil {
			err = perr
		}
		return parsed
	}
	m.MinCreate, m.MaxCreate = parse(t.create.first), parse(t.create.last)
	if t.layout.expire >= 0 {
		m.MinExpiry, m.MaxExpiry = parse(t.expire.first), parse(t.expire.last)
	} else {
		m.MinExpiry, m.MaxExpiry = m.MinCreate.Add(t.layout.retention), m.MaxCreate.Add(t.layout.retention)
	}
	for name, b := range t.biz {
		m.BizTypes = append(m.BizTypes, ArchiveBiz{BizType: name, Rows: b.rows, MaxCreate: parse(b.latest)})
	}
	slices.SortFunc(m.BizTypes, func(a, b ArchiveBiz) int { return strings.Compare(a.BizType, b.BizType) })
	return err
}

// parseServerTime reads 2026-11-11 00:00:12.345, or a day.
func parseServerTime(v []byte) (time.Time, error) {
	layout := time.DateTime
	if len(v) == dateLength {
		layout = time.DateOnly
	}
	t, err := time.Parse(layout, string(v)) // a fraction is read although the layout has none
	if err != nil {
		return t, fmt.Errorf("read a time: %w", err)
	}
	return t, nil
}
