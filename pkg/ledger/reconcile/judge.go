package reconcile

import (
	"slices"
	"time"

	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/partition"
)

// rules say what a marker and the rows of its key mean together. They are pure: time is a parameter.
type rules struct {
	lease, slack, completedTTL time.Duration
	bare                       bool
	catalog                    *partition.Catalog
	// legacy says that the ledger was made by someone else; since is Options.MemorySince.
	legacy bool
	since  map[string]time.Time
}

// judge returns the kind of a marker, or "" for one that is as it should be. age is how old the marker is for certain, which
// may be less than it is.
func (r *rules) judge(key ledger.Key, m *reading, rows []row, age time.Duration, now time.Time) Kind {
	switch m.State {
	case ledger.MarkerNone:
	case ledger.MarkerMalformed:
		return Malformed
	case ledger.MarkerProcessing:
		return r.processing(m, rows, age)
	case ledger.MarkerCompleted:
		return r.completed(key, m, rows, now)
	}
	return ""
}

func (r *rules) processing(m *reading, rows []row, age time.Duration) Kind {
	switch {
	case len(rows) > 0:
		return StaleProcessing
	case age >= r.lease+r.slack:
		return Abandoned
	case m.TTL < 0 || m.TTL > r.lease:
		return Stuck
	}
	return "" // its owner is at work, or its lease will end
}

func (r *rules) completed(key ledger.Key, m *reading, rows []row, now time.Time) Kind {
	switch {
	case !r.own(m):
		return ForeignLedger
	case len(rows) == 0:
		return r.withoutRow(key.BizType, m, now)
	case !agrees(m.Fingerprint, rows):
		return FingerprintMismatch
	case m.TTL < 0:
		return Immortal
	case outlives(now.Add(m.TTL), rows, r.slack):
		return OutlivesEntry
	}
	return ""
}

// own reports a marker as the guards of this ledger write it. Of a ledger without an id any writer's is.
func (r *rules) own(m *reading) bool {
	if r.legacy && r.catalog.LedgerID == "" {
		return true
	}
	if r.bare {
		return m.Ledger == ""
	}
	return m.Ledger != "" && m.Ledger == r.catalog.LedgerID
}

// withoutRow tells a marker whose work was never done from one whose row the ledger may have forgotten since.
//
// A marker with this ledger's id was written after a COMMIT here, so its row can only be missing because it was purged or
// its table lost: what the ledger did not know before the biz_type was registered does not matter. The bare word may also be
// from before that, and so may any marker beside a ledger that others write.
//
// The time of writing is worked out from the TTL. Where that is not possible the row counts as lost only if nothing was ever
// forgotten.
func (r *rules) withoutRow(biz string, m *reading, now time.Time) Kind {
	forgotten := r.catalog.LostUntil
	if p := r.catalog.Biz[biz].Purged; p.After(forgotten) {
		forgotten = p
	}
	if r.bare || r.legacy {
		h, registered := r.catalog.Horizon(biz)
		if !registered {
			h = r.catalog.FirstHorizon(biz, now, r.since[biz])
		}
		forgotten = h
	}
	if written, known := r.written(m, now); known {
		if forgotten.IsZero() || written.After(forgotten.Add(r.slack)) {
			return Phantom
		}
		return Unremembered
	}
	switch {
	case forgotten.IsZero():
		return Phantom
	case m.TTL < 0:
		return Immortal
	}
	return Unremembered
}

// written is when a COMPLETED marker was written, by its TTL.
func (r *rules) written(m *reading, now time.Time) (t time.Time, known bool) {
	if m.TTL < 0 || m.TTL > r.completedTTL {
		return time.Time{}, false
	}
	return now.Add(m.TTL - r.completedTTL), true
}

// agrees reports whether a fingerprint is that of a row, or one side has none.
func agrees(fingerprint []byte, rows []row) bool {
	return slices.ContainsFunc(rows, func(r row) bool { return agree(fingerprint, r.fingerprint) })
}

// outlives reports that a marker lasts beyond the last of its rows.
func outlives(end time.Time, rows []row, slack time.Duration) bool {
	last := lastExpiry(rows)
	return !last.IsZero() && end.After(last.Add(slack))
}

// lastExpiry is zero if it is not known.
func lastExpiry(rows []row) time.Time {
	var last time.Time
	for i := range rows {
		if rows[i].expires.IsZero() {
			return time.Time{}
		}
		if rows[i].expires.After(last) {
			last = rows[i].expires
		}
	}
	return last
}

// marginShare keeps the edge of a marker's lifetime free, as a share of it, where the slack would be more than that.
const marginShare = 4

// warm reports whether a row should have a marker: it is younger than a marker's lifetime, and has not expired (hazard C4).
func (r *rules) warm(created, expires, now time.Time) bool {
	margin := min(r.slack, r.completedTTL/marginShare)
	return created.After(now.Add(margin-r.completedTTL)) && !created.After(now) && expires.After(now)
}

// persists reports whether a marker is the one that was seen before: the same value, and of a lease also the same one, not
// a new one with the same words.
func persists(before, now *reading) bool {
	if before.State != now.State || before.Raw != now.Raw || before.wrongType != now.wrongType {
		return false
	}
	if now.State != ledger.MarkerProcessing {
		return true
	}
	if before.TTL < 0 || now.TTL < 0 {
		return before.TTL < 0 && now.TTL < 0
	}
	return now.TTL <= before.TTL
}
