package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/idemctl/idemctl/pkg/ledger"
)

// leaseFactor is how many times handler_p99 fits a lease: a handler that is slower than its p99 must not meet a second
// owner at every hiccup.
const leaseFactor = 5

// checkLease holds the lease against what a message takes (hazard G3).
func checkLease(s *Setup) Result {
	measured, unsaid := s.measured()
	if len(measured) == 0 {
		return skipped("no handler says its handler_p99")
	}
	var bad []Result
	for _, h := range measured {
		if s.Lease >= leaseFactor*h.P99 {
			continue
		}
		status := Warn
		if s.Lease < h.P99 {
			status = Fail
		}
		bad = append(bad, finding(status, fmt.Sprintf("%s: lease %s is less than %d x %s", h.Name, Short(s.Lease), leaseFactor, Short(h.P99)),
			"When a lease ends while its owner still works, a second consumer starts the same order; the ledger rolls the loser back, at the price of the work.",
			fmt.Sprintf("set redis.lease to %s or more, or make the handler quicker", Short(leaseFactor*h.P99))))
	}
	return merge(ok("lease %s, slowest handler_p99 %s%s", Short(s.Lease), Short(slowest(measured)), unsaid), bad)
}

// checkPoll holds what one poll takes against the time after which the group gives its partitions away (hazard G21).
func checkPoll(s *Setup) Result {
	measured, unsaid := s.measured()
	if len(measured) == 0 {
		return skipped("no handler says its handler_p99")
	}
	var bad []Result
	for _, h := range measured {
		if took := h.P99 * PollSize; took >= RebalanceTimeout {
			bad = append(bad, finding(Fail, fmt.Sprintf("%s: %d records x %s = %s, rebalance timeout %s", h.Name, PollSize, Short(h.P99), Short(took), Short(RebalanceTimeout)),
				"A consumer that is longer at one poll than the group waits loses its partitions, and the same orders come again, for ever.",
				fmt.Sprintf("bring handler_p99 below %s, or hand out fewer records a poll", Short(RebalanceTimeout/PollSize))))
		}
	}
	return merge(ok("%d records x %s = %s, rebalance timeout %s%s", PollSize, Short(slowest(measured)), Short(PollSize*slowest(measured)), Short(RebalanceTimeout), unsaid), bad)
}

// measured are the handlers whose p99 is known; the text names how many are not.
func (s *Setup) measured() (known []Handler, unsaid string) {
	for _, h := range s.Handlers {
		if h.P99 > 0 {
			known = append(known, h)
		}
	}
	if n := len(s.Handlers) - len(known); n > 0 && len(known) > 0 {
		unsaid = "; not said by " + count(n, "other handler")
	}
	return known, unsaid
}

func slowest(hs []Handler) time.Duration {
	var most time.Duration
	for _, h := range hs {
		most = max(most, h.P99)
	}
	return most
}

// checkCompletedTTL: a marker that outlives its entry goes on absorbing after the ledger has forgotten the key.
func checkCompletedTTL(s *Setup) Result {
	if s.CompletedTTL > s.Retention {
		return finding(Warn, fmt.Sprintf("completed_ttl %s is longer than retention %s", Short(s.CompletedTTL), Short(s.Retention)),
			"A marker that outlives its ledger row absorbs on its word alone, and reads as phantom to replay and reconcile.",
			fmt.Sprintf("set redis.completed_ttl to %s or less", Short(s.Retention)))
	}
	return ok("completed_ttl %s, retention %s", Short(s.CompletedTTL), Short(s.Retention))
}

// checkKeyTemplate holds that no two business keys share a Redis key (hazard G12), and that a cluster can spread them.
func checkKeyTemplate(s *Setup) Result {
	const why = "Two effects that share a Redis key absorb each other: the second is dropped although it never ran."
	t, err := ledger.ParseKeyTemplate(s.KeyTemplate)
	if err != nil {
		return finding(Fail, err.Error(), why, `set redis.key as in "idempotent:{biz_type}:{order_id}"`)
	}
	for _, a := range s.bizTypes() {
		for _, b := range s.bizTypes() {
			// The id that would make b's key look like one of a's.
			k := ledger.Key{BizType: a, OrderID: strings.TrimPrefix(b, a) + "1"}
			if back, fits := t.Parse(t.Name(k)); !fits || back != k {
				return finding(Fail, fmt.Sprintf("key %q of %s reads as one of %s", t.Name(k), a, back.BizType), why, "change redis.key")
			}
		}
	}
	bare := strings.NewReplacer("{biz_type}", "", "{order_id}", "").Replace(s.KeyTemplate)
	if open, end := strings.Index(bare, "{"), strings.LastIndex(bare, "}"); open >= 0 && end > open+1 {
		return finding(Warn, fmt.Sprintf("%s holds a fixed hash tag %s", s.KeyTemplate, bare[open:end+1]),
			"In a Redis Cluster all markers then lie on one node: if it is away, every order goes to the ledger.", "take the braces out of redis.key")
	}
	return ok("%s; no two keys share a name", s.KeyTemplate)
}

func (s *Setup) bizTypes() []string {
	var all []string
	for _, h := range s.Handlers {
		all = append(all, h.BizType)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// checkEventTime: only an immutable business time lets the horizon tell an old message from a new one.
func checkEventTime(s *Setup) Result {
	if len(s.Handlers) == 0 {
		return skipped("no handler is configured")
	}
	const (
		why  = "A record that is published again carries a new timestamp, so an order older than the ledger's memory passes for new once its row is purged."
		mend = "set event_time to a field of the message that never changes (paidAt), or key:LAYOUT for a date in the key"
	)
	var bad []Result
	for _, h := range s.Handlers {
		switch {
		case h.EventTime == EventTimeRecord || h.EventTime == "":
			bad = append(bad, finding(Warn, h.Name+": event_time is the record's timestamp", why, mend))
		case h.Fallback == EventTimeRecord:
			bad = append(bad, finding(Warn, h.Name+": fallback is the record's timestamp", why, "leave fallback out: a message without its time is then invalid and parked"))
		}
	}
	return merge(ok("%s, each with a business time of its own", count(len(s.Handlers), "handler")), bad)
}

// checkBizTypes looks at biz_types that several handlers feed: their keys must mean the same.
func checkBizTypes(s *Setup) Result {
	if len(s.Handlers) == 0 {
		return skipped("no handler is configured")
	}
	by := map[string][]Handler{}
	for _, h := range s.Handlers {
		by[h.BizType] = append(by[h.BizType], h)
	}
	var bad []Result
	for _, biz := range s.bizTypes() {
		hs := by[biz]
		if len(hs) < 2 {
			continue
		}
		var from []string
		status := Warn
		for _, h := range hs {
			from = append(from, fmt.Sprintf("%s (%s, key %s)", h.Name, h.Topic, h.Key))
			if !slices.Equal(h.Fingerprint, hs[0].Fingerprint) {
				status = Fail // each takes the other's rows for a conflict
			}
		}
		read := biz + " is fed by " + strings.Join(from, " and ")
		if status == Fail {
			read += ", with different fingerprints"
		}
		bad = append(bad, finding(status, read,
			"The first handler to see a key does the work for all: if the same key means another order, or another effect, in the second, that one is dropped.",
			"make sure that key and fingerprint mean the same in each, or give each its own biz_type"))
	}
	return merge(ok("%s, one handler each", count(len(by), "biz_type")), bad)
}
