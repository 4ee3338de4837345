package replay

import (
	"container/heap"
	"errors"
	"io"
)

// deliveryStream yields deliveries in order; io.EOF ends it.
type deliveryStream interface {
	next() (delivery, error)
}

type memoryStream struct{ entries []delivery }

func (m *memoryStream) next() (delivery, error) {
	if len(m.entries) == 0 {
		return delivery{}, io.EOF
	}
	d := m.entries[0]
	m.entries = m.entries[1:]
	return d, nil
}

// deliveryMerge yields the deliveries of several streams in one order.
type deliveryMerge struct {
	streams []deliveryStream
	heads   mergeHeap
}

func newDeliveryMerge(streams []deliveryStream) (*deliveryMerge, error) {
	m := &deliveryMerge{streams: streams}
	for i := range streams {
		d, err := streams[i].next()
		switch {
		case errors.Is(err, io.EOF):
		case err != nil:
			return nil, err
		default:
			m.heads = append(m.heads, mergeHead{delivery: d, stream: i})
		}
	}
	heap.Init(&m.heads)
	return m, nil
}

// peek returns the next delivery without taking it; nil at the end. It is valid until skip.
func (m *deliveryMerge) peek() *delivery {
	if len(m.heads) == 0 {
		return nil
	}
	return &m.heads[0].delivery
}

// skip takes the delivery that peek returned.
func (m *deliveryMerge) skip() error {
	d, err := m.streams[m.heads[0].stream].next()
	switch {
	case errors.Is(err, io.EOF):
		heap.Pop(&m.heads)
	case err != nil:
		return err
	default:
		m.heads[0].delivery = d
		heap.Fix(&m.heads, 0)
	}
	return nil
}

type mergeHead struct {
	delivery

	stream int
}

// mergeHeap orders the heads of the streams; equal deliveries come in order of their streams.
type mergeHeap []mergeHead

func (h *mergeHeap) Len() int { return len(*h) }

func (h *mergeHeap) Less(i, j int) bool {
	a, b := &(*h)[i], &(*h)[j]
	if c := compareDeliveries(&a.delivery, &b.delivery); c != 0 {
		return c < 0
	}
	return a.stream < b.stream
}

func (h *mergeHeap) Swap(i, j int) { (*h)[i], (*h)[j] = (*h)[j], (*h)[i] }

// Push adds a head; heap.Interface wants it.
func (h *mergeHeap) Push(v any) {
	if head, ok := v.(mergeHead); ok {
		*h = append(*h, head)
	}
}

// Pop removes the last head; heap.Interface wants it.
func (h *mergeHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
