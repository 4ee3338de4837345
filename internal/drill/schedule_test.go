package drill

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/idemctl/idemctl/pkg/ledger"
)

func scheduleOf(t *testing.T, orders int, seed uint64, names ...string) *Schedule {
	t.Helper()
	faults, err := ParseFaults(names)
	if err != nil {
		t.Fatal(err)
	}
	boundary := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	return NewSchedule(orders, faults, seed, boundary.AddDate(0, 0, 20), boundary)
}

// The seed alone decides stream and places.
func TestScheduleIsRepeatable(t *testing.T) {
	t.Parallel()
	text := func(s *Schedule) string {
		b, err := json.Marshal([]any{s.Injections, s.stream.records()})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, names := range [][]string{{All}, {"crash"}, {"burst", "locks"}} {
		once, again, other := scheduleOf(t, 300, 7, names...), scheduleOf(t, 300, 7, names...), scheduleOf(t, 300, 8, names...)
		if text(once) != text(again) {
			t.Errorf("%v: two schedules of one seed differ", names)
		}
		if text(once) == text(other) {
			t.Errorf("%v: the seed decides nothing", names)
		}
		// Another day is the same drill.
		moved := NewSchedule(300, faultsOf(t, names), 7, time.Date(2030, 2, 3, 0, 0, 0, 0, time.UTC), time.Date(2030, 2, 1, 0, 0, 0, 0, time.UTC))
		if !slices.Equal(moved.Injections, once.Injections) {
			t.Errorf("%v: the time of day decides places", names)
		}
	}
}

func faultsOf(t *testing.T, names []string) []Fault {
	t.Helper()
	faults, err := ParseFaults(names)
	if err != nil {
		t.Fatal(err)
	}
	return faults
}

// Whatever the size and the seed, every fault has its places, and they are places that exist.
func TestSchedulePlaces(t *testing.T) {
	t.Parallel()
	for _, orders := range []int{MinOrders, 101, DefaultOrders, 5000} {
		for seed := range uint64(30) {
			s := scheduleOf(t, orders, seed, All)
			checkPlaces(t, s, orders)
		}
	}
}

func checkPlaces(t *testing.T, s *Schedule, orders int) {
	t.Helper()
	counts, crashes := map[Fault]int{}, map[ledger.Step]int{}
	taken := map[int]bool{}
	last, detached := 0, map[Fault]int{}
	for _, inj := range s.Injections {
		counts[inj.Fault]++
		if inj.At < last || inj.At > len(s.stream.main) {
			t.Fatalf("%d orders: %+v after %d, of %d records", orders, inj, last, len(s.stream.main))
		}
		last = inj.At
		if inj.OnRecord {
			r := &s.stream.main[inj.At]
			if r.copied || taken[inj.At] {
				t.Fatalf("%d orders: %+v strikes a copy, or a record that has trouble already", orders, inj)
			}
			taken[inj.At] = true
		}
		switch inj.Action { //nolint:exhaustive // what has a place that can be wrong
		case actCrash:
			crashes[inj.Step]++
		case actDetachMySQL, actDetachRedis:
			detached[inj.Fault] = inj.At
		case actSwitchMySQL, actSwitchRedis:
			if inj.At-detached[inj.Fault] != lossWindow && detached[inj.Fault] != 1 {
				t.Fatalf("%d orders: %s at %d, its replica detached at %d", orders, inj.Action, inj.At, detached[inj.Fault])
			}
		case actBurst:
			for f, at := range detached {
				for _, sw := range s.Injections {
					if sw.Fault == f && sw.At > at && inj.At > at && inj.At <= sw.At {
						t.Fatalf("%d orders: the burst at %d lies in what %s forgets", orders, inj.At, f)
					}
				}
			}
		}
	}
	for _, f := range Faults() {
		if counts[f] == 0 {
			t.Errorf("%d orders: %s has no place", orders, f)
		}
	}
	for _, step := range steps() {
		if crashes[step] != 1 {
			t.Errorf("%d orders: %d crashes at %s", orders, crashes[step], step)
		}
	}
}

// What is published is what the faults need, and no fault means no duplicate.
func TestStream(t *testing.T) {
	t.Parallel()
	plain := scheduleOf(t, 200, 1, None)
	if n := len(plain.stream.records()); n != 200 || len(plain.Injections) != 0 {
		t.Errorf("without faults: %d records, %d injections", n, len(plain.Injections))
	}
	s := scheduleOf(t, 200, 1, All)
	published, copies, offset := map[string]int{}, 0, map[int32]bool{}
	for i, r := range s.stream.records() {
		if r.Index != i {
			t.Fatalf("record %d says it is %d", i, r.Index)
		}
		published[r.Order]++
		if published[r.Order] > 1 {
			copies++
			if !r.copied {
				t.Fatalf("record %d repeats %s and does not say so", i, r.Order)
			}
		}
		offset[r.Partition] = true
	}
	if len(s.stream.orders) != 201 || len(published) != 201 {
		t.Errorf("%d orders, %d published", len(s.stream.orders), len(published))
	}
	if copies < burstCopies || published["HOT-000201"] != burstCopies {
		t.Errorf("%d copies, %d of the burst's order", copies, published["HOT-000201"])
	}
	if len(offset) != mainPartitions+burstPartitions {
		t.Errorf("%d partitions in use", len(offset))
	}
	for i, r := range s.stream.main {
		if r.slow && (s.stream.copyOf(i) == i || s.stream.main[s.stream.copyOf(i)].Partition == r.Partition) {
			t.Errorf("the slow order %s has no copy in another partition", r.Order)
		}
	}
	before, after := 0, 0
	boundary := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for _, r := range s.stream.main {
		if r.Time.Sub(boundary).Abs() > time.Minute {
			continue
		}
		if r.Time.Before(boundary) {
			before++
		} else {
			after++
		}
	}
	if before < 20 || after < 20 {
		t.Errorf("%d business times just before the month's turn, %d just after", before, after)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	if f, err := ParseFaults([]string{"locks", "crash", "locks"}); err != nil || !slices.Equal(f, []Fault{Crash, Locks}) {
		t.Errorf("%v, %v", f, err)
	}
	if f, err := ParseFaults([]string{All}); err != nil || len(f) != len(Faults()) {
		t.Errorf("%v, %v", f, err)
	}
	for _, bad := range [][]string{{}, {""}, {"crsh"}, {All, "crash"}, {None, "crash"}} {
		f, err := ParseFaults(bad)
		if len(bad) > 0 && !errors.Is(err, ErrUnknown) {
			t.Errorf("%q: %v, %v", bad, f, err)
		}
	}
	if _, err := ParseStrategies([]string{"gard"}); !errors.Is(err, ErrUnknown) {
		t.Errorf("gard: %v", err)
	}
	st, err := ParseStrategies([]string{"guard", "naive"})
	if err != nil || len(st) != 2 || st[0].Traits().Name != "naive" || !st[1].Traits().Guarded {
		t.Errorf("%v, %v", st, err)
	}
	names := map[string]bool{}
	for _, s := range Strategies() {
		tr := s.Traits()
		if names[tr.Name] || tr.What == "" || tr.Batch < 1 {
			t.Errorf("%+v", tr)
		}
		names[tr.Name] = true
	}
}
