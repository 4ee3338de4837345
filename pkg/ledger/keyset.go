package ledger

import "hash/maphash"

// KeySetBuilder collects names for a KeySet. It keeps some 2 MB in memory and the rest in a temp file.
type KeySetBuilder struct {
	seed maphash.Seed // random, so that nobody can choose names that collide
	b    *hashBuilder
}

// NewKeySetBuilder expects about so many names.
func NewKeySetBuilder(expected int64) *KeySetBuilder {
	return &KeySetBuilder{seed: maphash.MakeSeed(), b: newHashBuilder(expected)}
}

// Add puts a name in; it may be there already.
func (b *KeySetBuilder) Add(name string) error { return b.b.add(maphash.String(b.seed, name)) }

// Close lets go of a builder that is not finished.
func (b *KeySetBuilder) Close() error { return b.b.close() }

// Finish returns the set; the builder is done.
func (b *KeySetBuilder) Finish() (*KeySet, error) {
	list, err := b.b.finish()
	if err != nil {
		return nil, err
	}
	return &KeySet{seed: b.seed, list: list}, nil
}

// KeySet is a set of names, each kept as a 64-bit hash: a name that is not in it is taken for one of a million that are once
// in 10^13. It is safe for concurrent use.
type KeySet struct {
	seed maphash.Seed
	list *hashList
}

// Has reports whether a name was added.
func (s *KeySet) Has(name string) (bool, error) { return s.list.has(maphash.String(s.seed, name)) }

// Close lets go of the temp file.
func (s *KeySet) Close() error { return s.list.close() }
