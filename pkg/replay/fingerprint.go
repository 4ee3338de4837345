package replay

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// FingerprintSize is the length of a fingerprint in bytes, that of the ledger's column.
const FingerprintSize = 16

// fingerprinter condenses the values that must not change between two deliveries of one key into 16 bytes, the head of a
// SHA-256. Equal content gives equal fingerprints, in every delivery and every version of this program; what counts as
// equal:
//
//   - the order of an object's members, white space, and how a string is escaped ("\u0041" is "A") do not count;
//   - a number counts digit by digit: 12.5, 12.50 and "12.5" are three contents. Treating two spellings as one amount is a
//     guess about the producer; taking them for different ends in a conflict, which executes nothing and is looked at;
//   - a missing member and one that is null are two contents;
//   - the order in which paths are configured, or one given twice, does not count, but which paths does: the same message
//     has another fingerprint after a path was added.
type fingerprinter struct {
	paths []fingerprintPath // sorted by text, each once
}

type fingerprintPath struct {
	name string
	slot int
}

func newFingerprinter(paths []fingerprintPath) fingerprinter {
	paths = slices.Clone(paths)
	slices.SortFunc(paths, func(a, b fingerprintPath) int { return cmp.Compare(a.name, b.name) })
	paths = slices.CompactFunc(paths, func(a, b fingerprintPath) bool { return a.slot == b.slot })
	return fingerprinter{paths: paths}
}

// of gives the fingerprint of what was found, or nil where no path is configured. Each part is preceded by its length, so
// that no two lists of parts run together into the same bytes.
func (f fingerprinter) of(found []foundValue) ([]byte, error) {
	if len(f.paths) == 0 {
		return nil, nil
	}
	var buf []byte
	for _, p := range f.paths {
		v := found[p.slot]
		canonical, err := canonicalValue(v)
		if err != nil {
			return nil, err
		}
		buf = appendPart(buf, []byte(p.name))
		buf = append(buf, fingerprintTag(v.kind))
		buf = appendPart(buf, canonical)
	}
	sum := sha256.Sum256(buf)
	return slices.Clone(sum[:FingerprintSize]), nil
}

// fingerprintTag is part of what is stored: the letters must never change meaning.
func fingerprintTag(k valueKind) byte {
	switch k {
	case valueNull:
		return 'z'
	case valueBool:
		return 'b'
	case valueNumber:
		return 'n'
	case valueString:
		return 's'
	case valueArray:
		return 'a'
	case valueObject:
		return 'o'
	case valueAbsent:
	}
	return '-'
}

func appendPart(dst, part []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(part))) //nolint:gosec // a record's value is far below 4 GiB
	return append(dst, part...)
}

// canonicalValue is one spelling of a value. Numbers stay as written at any depth: the usual canonical form puts them
// through a float, in which two amounts beyond 2^53 are one.
func canonicalValue(v foundValue) ([]byte, error) {
	switch v.kind {
	case valueString:
		return v.text(), nil
	case valueArray, valueObject:
		return jsontext.AppendFormat(nil, v.raw,
			jsontext.ReorderRawObjects(true),
			jsontext.CanonicalizeRawInts(false),
			jsontext.CanonicalizeRawFloats(false))
	case valueAbsent:
		return nil, nil
	case valueNull, valueBool, valueNumber:
	}
	return v.raw, nil
}
