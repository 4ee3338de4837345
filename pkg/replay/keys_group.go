package replay

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"
	"time"
)

// grouping turns deliveries in order of their keys into the report.
type grouping struct {
	sink   *keysSink
	top    int
	report KeyReport
	best   keyHeap
	counts []int64 // of the group at hand, by outcome code
}

// executedBy is the record that executed a key, as far as it is known.
type executedBy struct {
	topic     uint16
	partition int32
	offset    int64
	// rank says how well: 0 not at all, 1 a duplicate of this range says so, 2 executed here, 3 the ledger says so.
	rank int
}

func (by *executedBy) learn(d *delivery) {
	switch {
	case d.hasBy && !d.byInRange && by.rank < 3:
		*by = executedBy{topic: d.byTopic, partition: d.byPart, offset: d.byOffset, rank: 3}
	case d.class == Executed && by.rank < 2:
		*by = executedBy{partition: d.partition, offset: d.offset, rank: 2}
	case d.hasBy && by.rank < 1:
		*by = executedBy{topic: d.byTopic, partition: d.byPart, offset: d.byOffset, rank: 1}
	}
}

// run goes over two merges of the same deliveries: ahead finds out who executed a key, behind counts.
func (g *grouping) run(ahead, behind *deliveryMerge) error {
	for {
		first := ahead.peek()
		if first == nil {
			return nil
		}
		key := first.key
		var by executedBy
		for d := ahead.peek(); d != nil && d.key == key; d = ahead.peek() {
			by.learn(d)
			if err := ahead.skip(); err != nil {
				return err
			}
		}
		if err := g.count(behind, key, &by); err != nil {
			return err
		}
	}
}

func (g *grouping) count(behind *deliveryMerge, key string, by *executedBy) error {
	g.counts = append(g.counts[:0], make([]int64, len(g.sink.codes))...)
	line := KeyLine{Key: key}
	var first, last, lastOffset int64
	var lastPart int32
	for d := behind.peek(); d != nil && d.key == key; d = behind.peek() {
		if line.Deliveries == 0 || d.millis < first {
			first = d.millis
		}
		if line.Deliveries == 0 || d.millis > last {
			last = d.millis
		}
		// Deliveries of a key come by partition and offset.
		if line.Deliveries == 0 || d.partition != lastPart || d.offset != lastOffset {
			line.Offsets++
		}
		lastPart, lastOffset = d.partition, d.offset
		line.Deliveries++
		g.counts[d.outcome]++
		attribute(&line, d, by)
		if err := behind.skip(); err != nil {
			return err
		}
	}
	line.First, line.Last, line.GapMS = time.UnixMilli(first).UTC(), time.UnixMilli(last).UTC(), last-first
	g.close(&line, by)
	return nil
}

// attribute tells a duplicate that is the executing record itself from one that was published again.
func attribute(line *KeyLine, d *delivery, by *executedBy) {
	if d.class != Absorbed {
		return
	}
	source := *by
	if d.hasBy {
		source = executedBy{topic: d.byTopic, partition: d.byPart, offset: d.byOffset, rank: 1}
	}
	switch {
	case source.rank == 0:
		line.Unattributed++
	case source.topic == 0 && source.partition == d.partition && source.offset == d.offset:
		line.Redelivered++
	default:
		line.Republished++
	}
}

// close adds a finished group to the report.
func (g *grouping) close(line *KeyLine, by *executedBy) {
	r := &g.report
	r.Keys++
	r.Excess += line.Deliveries - 1
	r.Redelivered += line.Redelivered
	r.Republished += line.Republished
	r.Unattributed += line.Unattributed
	if line.Deliveries < 2 {
		return
	}
	r.Repeated++
	if len(g.best) == g.top && compareKeyLines(line, &g.best[0]) >= 0 {
		return
	}
	if by.rank > 0 {
		line.By = &Position{Topic: g.sink.topics[by.topic], Partition: by.partition, Offset: by.offset}
	}
	line.Outcomes = Tally{}
	for code, n := range g.counts {
		if n > 0 {
			line.Outcomes[g.sink.codes[code]] = n
		}
	}
	heap.Push(&g.best, *line)
	if len(g.best) > g.top {
		heap.Pop(&g.best)
	}
}

func (g *grouping) sorted() []KeyLine {
	lines := append([]KeyLine{}, g.best...)
	slices.SortFunc(lines, func(a, b KeyLine) int { return compareKeyLines(&a, &b) })
	return lines
}

// compareKeyLines puts the most delivered keys first, and among them those by name.
func compareKeyLines(a, b *KeyLine) int {
	return cmp.Or(cmp.Compare(b.Deliveries, a.Deliveries), strings.Compare(a.Key, b.Key))
}

// keyHeap has the least interesting line on top, to be replaced.
type keyHeap []KeyLine

func (h *keyHeap) Len() int           { return len(*h) }
func (h *keyHeap) Less(i, j int) bool { return compareKeyLines(&(*h)[i], &(*h)[j]) > 0 }
func (h *keyHeap) Swap(i, j int)      { (*h)[i], (*h)[j] = (*h)[j], (*h)[i] }

// Push adds a line; heap.Interface wants it.
func (h *keyHeap) Push(v any) {
	if line, ok := v.(KeyLine); ok {
		*h = append(*h, line)
	}
}

// Pop removes the last line; heap.Interface wants it.
func (h *keyHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
