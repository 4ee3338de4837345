package reconcile

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"testing"
	"time"
)

// A suspect that is there twice comes out once, in pages, and one that a marker and a row both led to twice.
func TestSuspectsComeOnce(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 99, 100, 101, onceHeld/2 + 5} {
		l := &suspects{seed: maphash.MakeSeed()}
		for i := range n {
			s := suspect{Kind: Phantom, Name: Bytes(fmt.Sprintf("k\xff%d", i)), Raw: "x", TTL: time.Second, Seen: time.Unix(int64(i), 0)}
			for range 1 + i%3 {
				if err := l.put(&s); err != nil {
					t.Fatal(err)
				}
			}
			if i%7 == 0 {
				s.Ledger, s.Kind = true, Cold
				if err := l.put(&s); err != nil {
					t.Fatal(err)
				}
			}
		}
		got := map[string]int{}
		if err := l.pages(100, func(page []suspect) error {
			if len(page) == 0 || len(page) > 100 {
				t.Errorf("a page of %d", len(page))
			}
			for i := range page {
				got[fmt.Sprint(page[i].Ledger, page[i].Name)]++
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if want := n + (n+6)/7; len(got) != want {
			t.Errorf("%d: %d suspects, want %d", n, len(got), want)
		}
		for k, times := range got {
			if times != 1 {
				t.Fatalf("%q came %d times", k, times)
			}
		}
		if err := l.close(); err != nil {
			t.Error(err)
		}
	}
}

func TestBytes(t *testing.T) {
	t.Parallel()
	for _, s := range []Bytes{"", "a", "ключ", "\x00\x1b[2J", "\xff\xfe", "a\xffb", `{"base64":"eA=="}`} {
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var back Bytes
		if err := json.Unmarshal(text, &back); err != nil || back != s {
			t.Errorf("%q: %s, %q, %v", s, text, back, err)
		}
	}
	var b Bytes
	for _, bad := range []string{"1", `{"base64":"%"}`, "[]"} {
		if err := json.Unmarshal([]byte(bad), &b); err == nil {
			t.Errorf("%s was read as %q", bad, b)
		}
	}
}
