package purge_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/purge"
)

// damage gives a fresh copy of an archive's two files to a change, and returns what opening and verifying it says.
func damage(t *testing.T, a *purge.Archive, change func(data, manifest *[]byte)) error {
	t.Helper()
	dir := t.TempDir()
	data, err := os.ReadFile(a.Path())
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := os.ReadFile(a.ManifestPath())
	if err != nil {
		t.Fatal(err)
	}
	change(&data, &manifest)
	path := filepath.Join(dir, filepath.Base(a.Path()))
	for name, b := range map[string][]byte{path: data, filepath.Join(dir, filepath.Base(a.ManifestPath())): manifest} {
		if b != nil {
			if err := os.WriteFile(name, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	again, err := purge.OpenArchive(path)
	if err != nil {
		return err
	}
	return again.Verify(t.Context())
}

// hazard P8: whatever happens to an archive is noticed, and told apart.
func TestArchiveDamage(t *testing.T) {
	t.Parallel()
	s := newShelf(t, testenv.MySQL(t))
	s.fill(s.table, 500)
	a := s.archive()
	other := s.archive()
	otherManifest, err := os.ReadFile(other.ManifestPath())
	s.must(err)
	if err := damage(t, a, func(_, _ *[]byte) {}); err != nil {
		t.Fatalf("a mere copy: %v", err)
	}
	for _, c := range []struct {
		name   string
		change func(data, manifest *[]byte)
		want   purge.Fault
	}{
		{"no manifest", func(_, m *[]byte) { *m = nil }, purge.FaultNoManifest},
		{"no data", func(d, _ *[]byte) { *d = nil }, purge.FaultNoData},
		{"one byte short", func(d, _ *[]byte) { *d = (*d)[:len(*d)-1] }, purge.FaultTruncated},
		{"empty", func(d, _ *[]byte) { *d = []byte{} }, purge.FaultTruncated},
		{"one byte more", func(d, _ *[]byte) { *d = append(*d, 0) }, purge.FaultChanged},
		{"another's manifest", func(d, m *[]byte) { *d, *m = append(*d, 0), otherManifest }, purge.FaultWrongManifest},
		{"empty manifest", func(_, m *[]byte) { *m = []byte{} }, purge.FaultManifest},
		{"manifest one byte short", func(_, m *[]byte) { *m = (*m)[:len(*m)-1] }, purge.FaultManifest},
		{"manifest with a blank", func(_, m *[]byte) { *m = append(*m, ' ') }, purge.FaultManifest},
		{"manifest of a later version", func(_, m *[]byte) { *m = []byte(strings.Replace(string(*m), `"version": 1`, `"version": 2`, 1)) }, purge.FaultManifest},
		{"manifest with other rows", func(_, m *[]byte) { *m = []byte(strings.Replace(string(*m), `"rows": 500`, `"rows": 501`, 1)) }, purge.FaultManifest},
	} {
		fault(t, damage(t, a, c.change), c.want)
	}
}

// Each bit of each byte of both files counts.
func TestArchiveEveryBit(t *testing.T) {
	t.Parallel()
	s := newShelf(t, testenv.MySQL(t))
	s.fill(s.table, 50)
	a := s.archive()
	data, err := os.ReadFile(a.Path())
	s.must(err)
	manifest, err := os.ReadFile(a.ManifestPath())
	s.must(err)
	dir := s.TempDir()
	path := filepath.Join(dir, filepath.Base(a.Path()))
	mpath := filepath.Join(dir, filepath.Base(a.ManifestPath()))
	check := func(d, m []byte) error {
		s.must(os.WriteFile(path, d, 0o600))
		s.must(os.WriteFile(mpath, m, 0o600))
		again, err := purge.OpenArchive(path)
		if err != nil {
			return err
		}
		return again.Verify(t.Context())
	}
	s.must(check(data, manifest))
	rapid.Check(t, func(rt *rapid.T) {
		d, m := slices.Clone(data), slices.Clone(manifest)
		of, want := d, purge.FaultChanged
		if rapid.Bool().Draw(rt, "manifest") {
			of, want = m, purge.FaultManifest
		}
		at := rapid.IntRange(0, len(of)-1).Draw(rt, "at")
		of[at] ^= 1 << rapid.IntRange(0, 7).Draw(rt, "bit")
		err := check(d, m)
		if got, ok := errors.AsType[*purge.ArchiveError](err); !ok || got.Fault != want {
			rt.Fatalf("byte %d: %v, want %s", at, err, want)
		}
	})
}

// What is read after the archive was opened is compared as well: it may be changed in between.
func TestArchiveChangedWhileRead(t *testing.T) {
	t.Parallel()
	s := newShelf(t, testenv.MySQL(t))
	s.fill(s.table, 500)
	a := s.archive()
	b, err := os.ReadFile(a.Path())
	s.must(err)
	flipped := slices.Clone(b)
	flipped[len(b)/2] ^= 1
	for name, changed := range map[string][]byte{
		"flipped":   flipped,
		"one short": b[:len(b)-1],
		// An empty frame to be skipped: the rows are the same.
		"longer": append(slices.Clone(b), 0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0),
	} {
		s.must(os.WriteFile(a.Path(), changed, 0o600))
		r, err := a.Rows(t.Context())
		s.must(err)
		for err == nil {
			_, err = r.Next(100)
		}
		if damaged, ok := errors.AsType[*purge.ArchiveError](err); !ok || damaged.Fault != purge.FaultChanged && damaged.Fault != purge.FaultTruncated {
			t.Errorf("%s: %v", name, err)
		}
		s.must(r.Close())
	}
}

// The list shows what is good, what is not, and what was never finished.
func TestListArchives(t *testing.T) {
	t.Parallel()
	s := newShelf(t, testenv.MySQL(t))
	s.fill(s.table, 20)
	good, cut, flipped, lost := s.archive(), s.archive(), s.archive(), s.archive()
	b, err := os.ReadFile(cut.Path())
	s.must(err)
	s.must(os.WriteFile(cut.Path(), b[:len(b)-1], 0o600))
	b, err = os.ReadFile(flipped.Path())
	s.must(err)
	b[10] ^= 4
	s.must(os.WriteFile(flipped.Path(), b, 0o600))
	s.must(os.Remove(lost.ManifestPath()))
	s.must(os.WriteFile(s.path(".x.jsonl.zst.tmp"), nil, 0o600))
	s.must(os.WriteFile(s.path("alone.manifest.json"), []byte("{}"), 0o600))
	s.must(os.WriteFile(s.path("notes.txt"), nil, 0o600))
	s.must(os.Mkdir(s.path("folder.jsonl.zst"), 0o700))
	for _, verify := range []bool{true, false} {
		infos, err := purge.ListArchives(t.Context(), s.dir, verify)
		s.must(err)
		var got []string
		for _, i := range infos {
			word := string(i.Fault)
			if i.Verified {
				word = "verified"
			}
			got = append(got, i.File+" "+word)
		}
		want := []string{
			".x.jsonl.zst.tmp unfinished", "alone.jsonl.zst bad manifest", filepath.Base(good.Path()) + " verified", filepath.Base(cut.Path()) + " truncated",
			filepath.Base(flipped.Path()) + " changed", filepath.Base(lost.Path()) + " no manifest",
		}
		if !verify {
			want[2], want[4] = filepath.Base(good.Path())+" ", filepath.Base(flipped.Path())+" "
		}
		if !slices.Equal(got, want) {
			t.Errorf("verify %t: got\n%s\nwant\n%s", verify, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	if _, err := purge.ListArchives(t.Context(), s.path("none"), true); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
	if _, err := purge.OpenArchive(s.path("notes.txt")); !errors.Is(err, purge.ErrNotArchive) {
		t.Errorf("no archive: %v", err)
	}
	if _, err := purge.OpenArchive(s.path("none.jsonl.zst")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nothing: %v", err)
	}
	_, err = purge.OpenArchive(s.path(".x.jsonl.zst.tmp"))
	fault(t, err, purge.FaultUnfinished)
}
