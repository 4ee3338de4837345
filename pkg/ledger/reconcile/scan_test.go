package reconcile

import (
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/idemctl/idemctl/internal/testenv"
)

// Every kind is found exactly, repaired exactly, and a second run finds only what no repair can mend. hazard C2, C4, C5, G26, G27
func TestPlantedFindings(t *testing.T) {
	t.Parallel()
	for _, db := range testenv.Databases(t) {
		t.Run(db.Name, func(t *testing.T) {
			t.Parallel()
			const each = 7
			p := plant(t, db.Schema(t), testenv.Redis(t), nil)
			clean := orders(t)
			p.clean(int(clean))
			p.faults(each)
			r := p.reconciler()
			f := p.scan(r)
			p.check(f, p.want)
			if !f.Found() {
				t.Error("nothing was found")
			}
			if f.KeysScanned < clean || f.RowsScanned < clean || f.LedgerID != p.id {
				t.Errorf("%+v", f.Report)
			}
			for _, finding := range f.Findings {
				if len(finding.Examples) != min(int(finding.Count), defaultExamples) {
					t.Errorf("%s: %d examples", finding.Kind, len(finding.Examples))
				}
			}

			plan, err := f.Plan(fixable())
			if err != nil {
				t.Fatal(err)
			}
			undo := NewUndoFile(filepath.Join(t.TempDir(), "undo.jsonl"))
			rep, err := r.Fix(t.Context(), plan, undo, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := undo.Close(); err != nil {
				t.Fatal(err)
			}
			for _, c := range rep.Kinds {
				left := int64(0)
				if c.Kind == Malformed {
					left = 1 // the list
				}
				if c.Applied != p.want[c.Kind]-left || c.Left != left || c.Changed+c.Gone != 0 {
					t.Errorf("repaired: %+v, want %d", c, p.want[c.Kind])
				}
			}
			// A row whose marker was deleted is cold now, and so is that of a lease let go; nothing else is new.
			p.check(p.scan(r), map[Kind]int64{
				Malformed: 1, Twice: each, FingerprintMismatch: each, AlienKey: each, Unremembered: each, Cold: each,
			})

			back, err := ReadUndo(undo.path)
			if err != nil {
				t.Fatal(err)
			}
			if back.Total != rep.Applied() || back.Torn {
				t.Errorf("undo file: %+v, applied %d", back, rep.Applied())
			}
			ur, err := r.Undo(t.Context(), back, nil)
			if err != nil {
				t.Fatal(err)
			}
			// Phantoms, and foreign markers without a row, are not put back.
			if want := (UndoReport{Restored: rep.Applied() - 2*each, Refused: 2 * each}); ur != want {
				t.Errorf("undone: %+v, want %+v", ur, want)
			}
			again := map[Kind]int64{Cold: each}
			maps.Copy(again, p.want)
			again[Phantom] = 0
			again[ForeignLedger] = each
			again[Stuck] += again[Abandoned] // its age is not known any more
			again[Abandoned] = 0
			p.check(p.scan(r), again)
		})
	}
}

func TestNothingPlanted(t *testing.T) {
	t.Parallel()
	p := plant(t, testenv.MySQL(t), testenv.Redis(t), nil)
	f := p.scan(p.reconciler())
	p.check(f, nil)
	if f.Found() || f.Suspects != 0 || f.Sample != 100 || f.Finished.Before(f.Started) || f.Finished.Sub(f.Started) > time.Minute {
		t.Errorf("%+v", f.Report)
	}
}

// orders is among how many consistent orders the findings are planted: IDEMCTL_TEST_ORDERS, or 20,000.
func orders(t *testing.T) int64 {
	t.Helper()
	text := os.Getenv("IDEMCTL_TEST_ORDERS")
	if text == "" {
		return 20_000
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		t.Fatalf("IDEMCTL_TEST_ORDERS=%s: expected a number", text)
	}
	return n
}
