package ledger

import (
	"bytes"
	"strconv"
	"testing"

	"github.com/idemctl/idemctl/internal/testenv"
)

// A pattern finds the keys of its template whatever bytes are special in it, and no others.
func TestKeyPattern(t *testing.T) {
	t.Parallel()
	space := testenv.Redis(t)
	odd, err := ParseKeyTemplate(space.Prefix + `a*b?[c]\d^-{biz_type}:{order_id}`)
	if err != nil {
		t.Fatal(err)
	}
	if want := space.Prefix + `a*b?[c]\d^-`; odd.Prefix() != want {
		t.Errorf("prefix %q, want %q", odd.Prefix(), want)
	}
	key := Key{BizType: "A.b", OrderID: "1*"}
	for _, name := range []string{
		odd.Name(key), odd.Name(Key{BizType: "Axb", OrderID: "1"}), space.Prefix + `aXbYc\d^-A.b:1`, space.Prefix + `aXXbYcd^-A.b:1`,
	} {
		if err := space.Client.Set(t.Context(), name, "x", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for biz, want := range map[string]int{"": 2, "A.b": 1, "Axb": 1, "other": 0} {
		names, err := space.Client.Keys(t.Context(), odd.Pattern(biz)).Result()
		if err != nil || len(names) != want {
			t.Errorf("%q finds %q, %v; want %d", biz, names, err, want)
		}
	}
}

func TestKeySet(t *testing.T) {
	t.Parallel()
	b := NewKeySetBuilder(10)
	for i := range 1000 {
		if err := b.Add(strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range 2000 {
		if had, err := s.Has(strconv.Itoa(i)); err != nil || had != (i < 1000) {
			t.Fatalf("%d: %v, %v", i, had, err)
		}
	}
}

func TestCompletedMarker(t *testing.T) {
	t.Parallel()
	print16 := []byte("0123456789abcdef")
	for _, bare := range []bool{false, true} {
		m := ParseMarker(CompletedMarker("id", print16, bare))
		if m.State != MarkerCompleted || (m.Ledger == "id") == bare || bytes.Equal(m.Fingerprint, print16) == bare {
			t.Errorf("bare %v: %+v", bare, m)
		}
	}
}
