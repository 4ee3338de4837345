package reconcile

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/idemctl/idemctl/internal/testenv"
)

// Every marker and every row meets its counterpart, in memory or in a file, and what has none comes out once.
func TestPairs(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 50, 60_000} {
		p := &pairs{seed: maphash.MakeSeed()}
		add := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		a, b := []byte("0123456789abcdef"), []byte("fedcba9876543210")
		now := time.UnixMilli(1_794_326_400_123).UTC()
		want := map[string]int{}
		for i := range n {
			name := func(kind string) string { return fmt.Sprintf("%s%d%s", kind, i, strings.Repeat("\xff", i%90)) }
			w := &walked{created: now, expires: now.Add(time.Hour)}
			printed := &walked{created: now, fingerprint: a}
			add(p.addMarker(name("both"), markerAlone, nil))
			add(p.addRow(name("both"), rowSafe|rowYoung, w))
			add(p.addMarker(name("same print"), markerAlone, a))
			add(p.addRow(name("same print"), rowSafe, printed))
			add(p.addMarker(name("row without print"), markerAlone, b))
			add(p.addRow(name("row without print"), rowSafe, w))
			add(p.addMarker(name("looked up"), 0, nil)) // and is there
			add(p.addRow(name("looked up"), rowYoung, w))
			add(p.addRow(name("old row"), rowSafe, w))

			add(p.addMarker(name("no row"), markerAlone, a))
			want["marker "+name("no row")]++
			add(p.addMarker(name("other print"), markerAlone, b))
			add(p.addRow(name("other print"), rowSafe, printed))
			want["marker "+name("other print")]++
			add(p.addMarker(name("unsafe row"), markerAlone, nil))
			add(p.addRow(name("unsafe row"), rowYoung, w))
			want["marker "+name("unsafe row")]++
			add(p.addRow(name("cold"), rowYoung|rowSafe, w))
			want["row "+name("cold")+now.Add(time.Hour).String()]++
			add(p.addMarker(name("twice"), markerAlone, nil))
			add(p.addRow(name("twice"), rowSafe, &walked{created: now.Add(-time.Minute)}))
			add(p.addRow(name("twice"), rowSafe, w))
			want["twice "+name("twice")+now.String()]++
			want["marker "+name("twice")]++
		}
		got := map[string]int{}
		err := p.match(unpaired{
			marker: func(name string) error { got["marker "+name]++; return nil },
			row:    func(name string, _, expires time.Time) error { got["row "+name+expires.String()]++; return nil },
			twice:  func(name string, created time.Time) error { got["twice "+name+created.String()]++; return nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(got, want) {
			t.Errorf("%d: %d unpaired, want %d", n, len(got), len(want))
		}
		if onDisk := p.rows.file != nil; onDisk != (n > 50) {
			t.Errorf("%d: on disk: %v", n, onDisk)
		}
		if err := p.close(); err != nil {
			t.Error(err)
		}
	}
}

// Two names with the same hash are two names.
func TestPairsCollide(t *testing.T) {
	t.Parallel()
	p := &pairs{}
	for _, err := range []error{
		add(&p.rows, 1, "a", rowSafe|rowYoung, nil, 0, 0), add(&p.rows, 1, "b", rowYoung, nil, 0, 0),
		add(&p.markers, 1, "a", markerAlone, nil, 0, 0), add(&p.markers, 1, "c", markerAlone, nil, 0, 0),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	err := p.match(unpaired{
		marker: func(name string) error { got = append(got, "marker "+name); return nil },
		row:    func(name string, _, _ time.Time) error { got = append(got, "row "+name); return nil },
		twice:  func(name string, _ time.Time) error { got = append(got, "twice "+name); return nil },
	})
	if err != nil || fmt.Sprint(got) != "[marker c row b]" {
		t.Errorf("%v, %v", got, err)
	}
}

// The time is over in mid-scan: what was scanned is still compared with the rows, and no row is called cold because its marker
// was not scanned. hazard C3
func TestTimeIsOverInMidScan(t *testing.T) {
	t.Parallel()
	p := plant(t, testenv.MySQL(t), testenv.Redis(t), nil)
	p.clean(3000)
	for i := range 3000 {
		p.marker(fmt.Sprintf("PHANTOM-%d", i), "COMPLETED:"+p.id, 59*time.Minute)
	}
	p.flush()
	first, end := context.WithCancelCause(t.Context())
	defer end(nil)
	var s *scan
	s, err := p.reconciler().newScan(t.Context(), func(step Progress) {
		if step.Phase == "redis" && step.Done >= 2*scanPage && first.Err() == nil {
			until(t, "a page to be compared", func() bool { return s.checked.Load() > 0 })
			end(errTimeUp)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	s.keysExpected = preloadLeast
	err = s.lookOnce(first, t.Context())
	if gap, ok := gapOf(t.Context(), first, err); !ok || gap.Code != GapTime {
		t.Errorf("%v: %+v", err, gap)
	}
	kinds := map[Kind]int64{}
	if err := s.suspects.pages(settlePage, func(page []suspect) error {
		for i := range page {
			kinds[page[i].Kind]++
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(kinds) != 1 || kinds[Phantom] == 0 || kinds[Phantom] == 3000 {
		t.Errorf("suspects: %v", kinds)
	}
	if err := s.close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A ledger with more rows than the server had said is not kept as a whole: each key is looked up.
func TestMoreRowsThanExpected(t *testing.T) {
	t.Parallel()
	p := plant(t, testenv.MySQL(t), testenv.Redis(t), nil)
	p.clean(3000)
	s, err := p.reconciler().newScan(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		most, walked int64
		kept         bool
	}{{2999, 0, false}, {3000, 3000, true}} {
		s.walked.Store(0)
		if err := s.walkAhead(t.Context(), c.most); err != nil || (s.pairs != nil) != c.kept || s.walked.Load() != c.walked {
			t.Errorf("at most %d: kept %v, walked %d, %v", c.most, s.pairs != nil, s.walked.Load(), err)
		}
	}
	// Of the rows that are kept each settles its marker: nothing is looked up.
	for i := range 3000 {
		if err := s.pairs.addMarker(p.name(fmt.Sprintf("CLEAN-%06d", i)), markerAlone, nil); err != nil {
			t.Fatal(err)
		}
	}
	err = s.pairs.match(unpaired{
		marker: func(name string) error { return errors.New("looked up: " + name) },
		row:    func(name string, _, _ time.Time) error { return errors.New("asked for: " + name) },
	})
	if err := errors.Join(err, s.close(t.Context())); err != nil {
		t.Error(err)
	}
}
