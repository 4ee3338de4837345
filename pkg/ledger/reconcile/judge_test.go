package reconcile

import (
	"testing"
	"time"

	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/partition"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	const (
		lease, slack, ttl = 2 * time.Minute, 5 * time.Minute, 24 * time.Hour
		own, other        = "COMPLETED:00112233445566aa", "COMPLETED:ffffffffffffffff"
		a, b              = ":00112233445566778899aabbccddeeff", ":ffeeddccbbaa99887766554433221100"
	)
	now := time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)
	entry := func(expires time.Duration, fp string) row {
		return row{created: now.Add(-time.Hour), expires: now.Add(expires), fingerprint: ledger.ParseMarker(own + fp).Fingerprint}
	}
	timeless := row{created: now.Add(-time.Hour)} // of a ledger made by someone else
	day := 24 * time.Hour
	forgot := partition.Memory{Since: now.Add(-48 * time.Hour), Purged: now.Add(-2 * time.Hour)}
	cases := []struct {
		name   string
		value  string
		ttl    time.Duration
		rows   []row
		age    time.Duration
		memory partition.Memory
		lost   time.Time
		bare   bool
		want   Kind
	}{
		{name: "live lease", value: "PROCESSING:x", ttl: time.Minute, want: ""},
		{name: "whole lease", value: "PROCESSING:x", ttl: lease, want: ""},
		{name: "too long a lease", value: "PROCESSING:x", ttl: lease + time.Millisecond, want: Stuck},
		{name: "no end", value: "PROCESSING:x", ttl: -1, want: Stuck},
		{name: "no end, old", value: "PROCESSING:x", ttl: -1, age: lease + slack, want: Abandoned},
		{name: "no end, not old enough", value: "PROCESSING:x", ttl: -1, age: lease + slack - 1, want: Stuck},
		{name: "bare lease", value: "PROCESSING", ttl: time.Minute, want: ""},
		{name: "lease with a row", value: "PROCESSING:x", ttl: time.Minute, rows: []row{entry(day, "")}, want: StaleProcessing},
		{name: "no end with a row", value: "PROCESSING:x", ttl: -1, rows: []row{entry(day, "")}, age: day, want: StaleProcessing},

		{name: "done", value: own, ttl: 23 * time.Hour, rows: []row{entry(30*day, "")}, want: ""},
		{name: "done, printed", value: own + a, ttl: time.Hour, rows: []row{entry(30*day, a)}, want: ""},
		{name: "row without print", value: own + a, ttl: time.Hour, rows: []row{entry(30*day, "")}, want: ""},
		{name: "marker without print", value: own, ttl: time.Hour, rows: []row{entry(30*day, a)}, want: ""},
		{name: "other print", value: own + b, ttl: time.Hour, rows: []row{entry(30*day, a)}, want: FingerprintMismatch},
		{name: "other print in one of two", value: own + b, ttl: time.Hour, rows: []row{entry(30*day, a), entry(day, b)}, want: ""},
		{name: "for ever", value: own, ttl: -1, rows: []row{entry(30*day, "")}, want: Immortal},
		{name: "beyond expiry", value: own, ttl: time.Hour, rows: []row{entry(time.Hour-slack-time.Second, "")}, want: OutlivesEntry},
		{name: "beyond expiry by less than clocks differ", value: own, ttl: time.Hour, rows: []row{entry(time.Hour-slack, "")}, want: ""},
		{name: "beyond the expiry of one of two", value: own, ttl: time.Hour, rows: []row{entry(time.Minute, ""), entry(day, "")}, want: ""},
		{name: "beyond an expiry that is not known", value: own, ttl: time.Hour, rows: []row{timeless}, want: ""},
		{name: "beyond that of one, of the other not known", value: own, ttl: time.Hour, rows: []row{entry(time.Minute, ""), timeless}, want: ""},

		{name: "no row, nothing forgotten", value: own, ttl: time.Hour, want: Phantom},
		{name: "no row, for ever, nothing forgotten", value: own, ttl: -1, want: Phantom},
		{name: "no row, before it was registered", value: own, ttl: time.Hour, memory: partition.Memory{Since: now}, want: Phantom},
		{name: "no row, within memory", value: own, ttl: 23 * time.Hour, memory: forgot, want: Phantom},
		{name: "no row, at the edge", value: own, ttl: 22*time.Hour + slack, memory: forgot, want: Unremembered},
		{name: "no row, just within", value: own, ttl: 22*time.Hour + slack + time.Millisecond, memory: forgot, want: Phantom},
		{name: "no row, purged", value: own, ttl: 21 * time.Hour, memory: forgot, want: Unremembered},
		{name: "no row, a month lost", value: own, ttl: 21 * time.Hour, lost: now.Add(-2 * time.Hour), want: Unremembered},
		{name: "no row, for ever, some forgotten", value: own, ttl: -1, memory: forgot, want: Immortal},
		{name: "no row, a longer TTL, some forgotten", value: own, ttl: ttl + 1, memory: forgot, want: Unremembered},

		{name: "another ledger", value: other, ttl: time.Hour, rows: []row{entry(30*day, "")}, want: ForeignLedger},
		{name: "another ledger, no row", value: other, ttl: time.Hour, want: ForeignLedger},
		{name: "bare word where owned", value: "COMPLETED", ttl: time.Hour, rows: []row{entry(30*day, "")}, want: ForeignLedger},
		{name: "bare word where bare", value: "COMPLETED", ttl: time.Hour, rows: []row{entry(30*day, "")}, bare: true, want: ""},
		{name: "owned where bare", value: own, ttl: time.Hour, rows: []row{entry(30*day, "")}, bare: true, want: ForeignLedger},
		{name: "bare, no row, within memory", value: "COMPLETED", ttl: 23 * time.Hour, memory: forgot, bare: true, want: Phantom},
		{name: "bare, no row, before it was registered", value: "COMPLETED", ttl: time.Hour, memory: partition.Memory{Since: now.Add(-time.Hour)}, bare: true, want: Unremembered},
		{name: "bare, no row, never registered", value: "COMPLETED", ttl: time.Hour, bare: true, want: Unremembered},

		{name: "other words", value: "DONE", ttl: time.Hour, want: Malformed},
		{name: "lower case", value: "completed", ttl: time.Hour, rows: []row{entry(30*day, "")}, want: Malformed},
		{name: "broken print", value: own + ":xyz", ttl: time.Hour, want: Malformed},
		{name: "empty", value: "", ttl: time.Hour, want: Malformed},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cat := &partition.Catalog{LedgerID: "00112233445566aa", Biz: map[string]partition.Memory{"COUPON": c.memory}, LostUntil: c.lost}
			r := &rules{lease: lease, slack: slack, completedTTL: ttl, bare: c.bare, catalog: cat}
			m := &reading{Marker: ledger.ParseMarker(c.value)}
			m.TTL = c.ttl
			if got := r.judge(ledger.Key{BizType: "COUPON", OrderID: "1"}, m, c.rows, c.age, now); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// hazard C4: a row older than markers live has none any more, and one about to be that old may have lost it already.
func TestWarm(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)
	r := &rules{slack: 5 * time.Minute, completedTTL: 24 * time.Hour}
	for _, c := range []struct {
		age, lasts time.Duration
		want       bool
	}{
		{time.Second, time.Hour, true},
		{23 * time.Hour, time.Hour, true},
		{24*time.Hour - 5*time.Minute, time.Hour, false},
		{25 * time.Hour, time.Hour, false},
		{time.Hour, 0, false},          // expired: it gets no marker
		{-time.Hour, time.Hour, false}, // a business time that is still to come says nothing of the marker's age
		{0, time.Hour, true},
	} {
		if got := r.warm(now.Add(-c.age), now.Add(c.lasts), now); got != c.want {
			t.Errorf("age %v, lasts %v: %v", c.age, c.lasts, got)
		}
	}
}

func TestPersists(t *testing.T) {
	t.Parallel()
	at := func(value string, ttl time.Duration) *reading {
		m := &reading{Marker: ledger.ParseMarker(value)}
		m.TTL = ttl
		return m
	}
	for _, c := range []struct {
		name        string
		before, now *reading
		want        bool
	}{
		{"same lease", at("PROCESSING", time.Minute), at("PROCESSING", time.Second), true},
		{"a new lease with the same words", at("PROCESSING", time.Minute), at("PROCESSING", time.Minute+1), false},
		{"got an end", at("PROCESSING", -1), at("PROCESSING", time.Minute), false},
		{"lost its end", at("PROCESSING", time.Minute), at("PROCESSING", -1), false},
		{"another owner", at("PROCESSING:a", -1), at("PROCESSING:b", -1), false},
		{"done meanwhile", at("PROCESSING:a", time.Minute), at("COMPLETED:x", time.Hour), false},
		{"gone", at("COMPLETED:x", time.Hour), &reading{}, false},
		{"written again", at("COMPLETED:x", time.Minute), at("COMPLETED:x", time.Hour), true},
	} {
		if got := persists(c.before, c.now); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
