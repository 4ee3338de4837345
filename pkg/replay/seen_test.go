package replay

import (
	"os"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// hazard R12
func TestSeenSetEqualsAMap(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		set := newSeenSet(dir, rapid.IntRange(0, 8).Draw(t, "bound"))
		defer set.close()
		if rapid.Bool().Draw(t, "small file") {
			file, err := newSeenFile(dir, 1) // it grows soon
			if err != nil {
				t.Fatal(err)
			}
			set.file = file
		}
		want := map[keyHash]firstSeen{}
		for range rapid.IntRange(0, 400).Draw(t, "steps") {
			id := hashKey("COUPON", strconv.Itoa(rapid.IntRange(0, 300).Draw(t, "key")))
			if rapid.IntRange(0, 3).Draw(t, "crowd") == 0 {
				id[0], id[1], id[2], id[3], id[4], id[5], id[6], id[7] = 0, 0, 0, 0, 0, 0, 0, 1 // one block for all of them
			}
			got, ok, err := set.get(id)
			if err != nil {
				t.Fatal(err)
			}
			if w, wok := want[id]; ok != wok || got != w {
				t.Fatalf("got %v %v, want %v %v", got, ok, w, wok)
			}
			if !ok {
				v := firstSeen{
					partition: rapid.Int32Min(0).Draw(t, "partition"), offset: rapid.Int64Min(0).Draw(t, "offset"),
					hasPrint: rapid.Bool().Draw(t, "has print"),
				}
				if v.hasPrint {
					v.print = shortPrint([]byte(rapid.StringN(1, 8, 8).Draw(t, "print")))
				}
				if err := set.put(id, v); err != nil {
					t.Fatal(err)
				}
				want[id] = v
			}
		}
		for id, w := range want {
			if got, ok, err := set.get(id); err != nil || !ok || got != w {
				t.Fatalf("at the end: got %v %v %v, want %v", got, ok, err, w)
			}
		}
	})
}

func TestTempFilesAreGoneAtTheEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	source := &fakeSource{step: 3, records: map[int32][]Record{0: topicOf(0, "a", "b", "a", "c", "d", "e", "a")}}
	r, _ := newTestRunner(t, source, &fakeLedger{mode: ModeVerify})
	r.opts.TempDir, r.opts.SeenInMemory, r.opts.KeysInMemory = dir, 1, 1
	report, err := replayAll(t.Context(), t, r, Request{Mode: ModeVerify, KeepKeys: true})
	if err != nil {
		t.Fatal(err)
	}
	if report.Keys.Spilled == 0 {
		t.Error("nothing was spilled")
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestSpillThatCannotBeWrittenEndsTheRun(t *testing.T) {
	t.Parallel()
	source := &fakeSource{step: 3, records: map[int32][]Record{0: topicOf(0, "a", "b", "c")}}
	for _, keep := range []bool{false, true} {
		r, _ := newTestRunner(t, source, &fakeLedger{mode: ModeVerify})
		r.opts.TempDir, r.opts.SeenInMemory, r.opts.KeysInMemory = t.TempDir()+"/missing", 1, 1
		if keep {
			r.opts.SeenInMemory = 100
		}
		report, err := replayAll(t.Context(), t, r, Request{Mode: ModeVerify, KeepKeys: keep})
		if err == nil || report.Stop != StopOutput {
			t.Errorf("keys %v: got %v, stop %s; want an error, %s", keep, err, report.Stop, StopOutput)
		}
	}
}

func TestKeyHashTellsPairsApart(t *testing.T) {
	t.Parallel()
	if hashKey("A", "BC") == hashKey("AB", "C") || hashKey("A", "x") == hashKey("B", "x") || hashKey("A", "x") == hashKey("A", "x ") {
		t.Error("hashes do not follow the keys")
	}
}
