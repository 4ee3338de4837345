package drill

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	// mainPartitions are those of the ordinary stream: as many messages are in flight at once.
	mainPartitions = 8
	// burstPartitions are those that a burst comes in through: the concurrency at which a SELECT before an INSERT is known to
	// let duplicates through.
	burstPartitions = 200
	// burstCopies is how often a burst publishes one order: 999 of 1000 are duplicates.
	burstCopies = 1000
	// copyShare: one order in so many is published again, under another offset.
	copyShare = 6
	// copyWithin bounds the distance of such a copy, in messages.
	copyWithin = 30
	// turnCopies is how many orders are published again after the month's turn, with a business time of the other month.
	turnCopies = 12
	slowOrders = 2
)

// Record is one publication of an order.
type Record struct {
	// Index is its place in the stream, from 0: what a fault's place refers to.
	Index     int       `json:"index"`
	Order     string    `json:"orderId"`
	Partition int32     `json:"-"`
	Time      time.Time `json:"paidAt"`
	// Token is the front token that came with this publication; empty where the strategy has none.
	Token string `json:"token,omitempty"`

	copied bool // it repeats an order that was published before
	slow   bool // its effect takes longer than a lease
	burst  bool
}

// stream is what is published to every strategy: the ordinary records in the order of their publication, and those of the
// burst.
type stream struct {
	orders []string
	main   []Record
	burst  []Record
	turn   int // how many ordinary records are published before the month turns
}

// draft is a record on its way into the stream; at is where it will stand, in originals.
type draft struct {
	Record
	at float64
}

// newStream makes the stream of a seed. boundary is the beginning of a month, ordinary business times lie in the hour after
// begin.
func newStream(orders int, on map[Fault]bool, rng *rand.Rand, begin, boundary time.Time) *stream {
	s := &stream{}
	drafts := make([]draft, 0, orders*2)
	half := orders / 2
	slow := pick(rng, orders, slowOrders, on[Slow])
	turned := pick(rng, half, turnCopies, on[MonthTurn])
	for i := range orders {
		id := fmt.Sprintf("ORD-%06d", i+1)
		s.orders = append(s.orders, id)
		d := draft{at: float64(i), Record: Record{Order: id, Partition: rng.Int32N(mainPartitions), Time: begin.Add(time.Duration(rng.Int64N(int64(time.Hour))))}}
		if on[MonthTurn] && i >= half-orders/6 && i < half+orders/6 {
			d.Time = besides(rng, boundary, i >= half)
		}
		d.slow = slow[i]
		copyLater, farther := rng.IntN(copyShare) == 0, 1+rng.Float64()*copyWithin
		elsewhere := rng.IntN(2) == 0
		if turned[i] {
			d.Time = besides(rng, boundary, false)
			c := d.again(float64(half)+rng.Float64()*float64(orders-half), elsewhere)
			c.Time = besides(rng, boundary, true)
			drafts = append(drafts, c)
		}
		drafts = append(drafts, d)
		switch {
		case d.slow:
			drafts = append(drafts, d.again(d.at+0.5, true)) //nolint:mnd // right behind it
		case on[Redelivery] && copyLater:
			drafts = append(drafts, d.again(d.at+farther, elsewhere))
		}
	}
	slices.SortStableFunc(drafts, func(a, b draft) int {
		switch {
		case a.at < b.at:
			return -1
		case a.at > b.at:
			return 1
		}
		return 0
	})
	for i := range drafts {
		r := drafts[i].Record
		r.Index = i
		if drafts[i].at < float64(half) {
			s.turn = i + 1
		}
		s.main = append(s.main, r)
	}
	if on[Burst] {
		s.addBurst(orders, begin)
	}
	return s
}

// again is another publication of the same order.
func (d *draft) again(at float64, elsewhere bool) draft {
	c := *d
	c.at, c.copied, c.slow = at, true, false
	if elsewhere {
		c.Partition = (c.Partition + 1) % mainPartitions // of the other consumer
	}
	return c
}

// copyOf is the next publication of the order that the record at i is of; i itself where there is none.
func (s *stream) copyOf(i int) int {
	for j := i + 1; j < len(s.main); j++ {
		if s.main[j].Order == s.main[i].Order {
			return j
		}
	}
	return i
}

// besides is a time within three seconds of the boundary.
func besides(rng *rand.Rand, boundary time.Time, after bool) time.Time {
	d := time.Duration(1+rng.Int64N(3000)) * time.Millisecond
	if after {
		return boundary.Add(d)
	}
	return boundary.Add(-d)
}

// pick chooses n of so many, or none.
func pick(rng *rand.Rand, of, n int, wanted bool) map[int]bool {
	chosen := map[int]bool{}
	for wanted && len(chosen) < min(n, of) {
		chosen[rng.IntN(of)] = true
	}
	return chosen
}

// addBurst makes one order's thousand publications, the same number in each partition.
func (s *stream) addBurst(orders int, begin time.Time) {
	id := fmt.Sprintf("HOT-%06d", orders+1)
	s.orders = append(s.orders, id)
	for i := range burstCopies {
		s.burst = append(s.burst, Record{
			Index: len(s.main) + i, Order: id, Partition: mainPartitions + int32(i%burstPartitions), Time: begin, copied: i > 0, burst: true,
		})
	}
}

// records are all of them.
func (s *stream) records() []Record { return slices.Concat(s.main, s.burst) }

// partitions is how many the topic needs.
func (s *stream) partitions() int32 {
	if len(s.burst) > 0 {
		return mainPartitions + burstPartitions
	}
	return mainPartitions
}
