package inspect

import (
	"fmt"
	"time"

	"github.com/idemctl/idemctl/internal/doctor"
)

// Finding sorts what is known of a key.
type Finding string

// The findings.
const (
	Done      Finding = "done"       // a row: it was executed, and a redelivery is absorbed
	Twice     Finding = "twice"      // rows in two tables: it may have been executed twice
	OtherKey  Finding = "other_key"  // a row of another key, that a lax collation takes for this one
	Phantom   Finding = "phantom"    // marked done, no row
	InFlight  Finding = "in_flight"  // a lease, no row
	Stuck     Finding = "stuck"      // a lease that never ends, no row
	Malformed Finding = "malformed"  // another value under its name, no row
	NotDone   Finding = "not_done"   // no row, no marker, and the ledger remembers that biz_type
	Unclaimed Finding = "no_memory"  // no row, no marker, and the ledger remembers nothing of that biz_type yet
	NotFound  Finding = "not_found"  // no row in a ledger that cannot say what it remembers
	RedisAway Finding = "redis_away" // no row, and Redis could not be asked
)

// judge says what a key's traces mean for the next delivery.
func (l *Looker) judge(k *Key) (Finding, string) {
	if len(k.Rows) > 0 {
		return l.judgeRows(k)
	}
	if k.MarkerError != "" {
		return RedisAway, "No row. Redis does not answer, so a claim at work is not seen."
	}
	if m := k.Marker; m != nil {
		switch {
		case m.State == stateCompleted:
			return Phantom, "Marked done in Redis, and not in the ledger: a consumer that trusts the marker drops it, though it may never have run."
		case m.State == stateProcessing && m.TTLMillis < 0:
			return Stuck, "Not done. A lease without an end is in the way: a guard takes it over once it has seen it for a whole lease."
		case m.State == stateProcessing:
			return InFlight, fmt.Sprintf("Not done yet. Another owner is at it, or has died: a redelivery waits %s at most, then takes over.", doctor.Short(m.parsed.TTL.Round(time.Second)))
		case m.State == stateMalformed:
			return Malformed, "Not done. Something else lies under its name in Redis: a redelivery is decided by the ledger alone."
		}
	}
	switch {
	case !l.hasCatalog:
		return NotFound, "No row. Whether it was done and purged, this ledger cannot say."
	case k.MemorySince.IsZero():
		return Unclaimed, "No row, no marker: this biz_type has not claimed anything here yet."
	}
	return NotDone, fmt.Sprintf("Not done through this ledger since %s. A delivery with a business time after that (and %s) is executed, an older one refused (outside_horizon).",
		k.MemorySince.Format(timeForm), doctor.Short(l.opts.Slack))
}

func (l *Looker) judgeRows(k *Key) (Finding, string) {
	if len(k.Rows) > 1 {
		return Twice, fmt.Sprintf("In %d tables: it may have been executed that often. A writer that does not look into other months has been at work.", len(k.Rows))
	}
	r := &k.Rows[0]
	if r.StoredAs != "" {
		return OtherKey, "The row is of another key, which the table's collation takes for this one: this order is dropped as its duplicate."
	}
	text := "Executed"
	switch {
	case r.Source != "":
		text += " by " + r.Source
	case r.ClaimID == "":
		text = "Done by another service (no claim id)"
	}
	text += "; a redelivery is absorbed"
	if r.Fingerprint != "" {
		text += ", unless its content has changed (conflict)"
	}
	text += "."
	if !r.ExpireAt.IsZero() && !r.ExpireAt.After(l.now) {
		text += " The row has expired: it goes with the next purge."
	}
	if m := k.Marker; m != nil && m.State == stateProcessing {
		text += " The marker still says PROCESSING, which does no harm: the row decides."
	}
	return Done, text
}

const timeForm = "2006-01-02 15:04:05 UTC"
