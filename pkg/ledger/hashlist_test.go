package ledger

import (
	"math/rand/v2"
	"testing"
)

// The list says of every hash whether it was added, in memory and from a file alike.
func TestHashList(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 1000, hashesHeld - 1, hashesHeld + 1, 2*hashesHeld + 777} {
		random := rand.New(rand.NewPCG(1, uint64(n)))
		added := make(map[uint64]bool, n)
		b := newHashBuilder(0)
		for range n {
			h := random.Uint64() &^ 1 // odd ones are never added
			if len(added) > 10 && random.IntN(20) == 0 {
				for again := range added { // some twice
					h = again
					break
				}
			}
			added[h] = true
			if err := b.add(h); err != nil {
				t.Fatal(err)
			}
		}
		l, err := b.finish()
		if err != nil {
			t.Fatal(err)
		}
		if l.file == nil != (n < hashesHeld) || l.count != int64(len(added)) {
			t.Errorf("%d hashes: in a file %v, count %d; want %d", n, l.file != nil, l.count, len(added))
		}
		checked := 0
		for h := range added {
			if ok, err := l.has(h); err != nil || !ok {
				t.Fatalf("%d hashes: %x is missing: %v", n, h, err)
			}
			if ok, err := l.has(h + 1); err != nil || ok {
				t.Fatalf("%d hashes: %x was never added: %v", n, h+1, err)
			}
			checked++
			if checked == 50_000 {
				break
			}
		}
		for _, h := range []uint64{1, ^uint64(0)} {
			if ok, err := l.has(h); err != nil || ok {
				t.Errorf("%d hashes: %x was never added: %v", n, h, err)
			}
		}
		if err := l.close(); err != nil {
			t.Error(err)
		}
	}
}
