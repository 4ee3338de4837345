package reconcile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/ledger/ledgertest"
	"github.com/idemctl/idemctl/pkg/partition"
)

// What changes between the last look and the repair is left alone, whatever it became, and counted. hazard C2
func TestChangedUnderneath(t *testing.T) {
	t.Parallel()
	p := plant(t, testenv.MySQL(t), testenv.Redis(t), nil)
	own := "COMPLETED:" + p.id
	p.row("renewed", 10*time.Minute, month, "", "")
	p.marker("renewed", "PROCESSING:a", 10*time.Second)
	p.marker("retaken", "PROCESSING:b", 0)
	p.marker("replaced", own, 50*time.Minute)
	p.marker("another type", own, 50*time.Minute)
	p.marker("expired", own, 50*time.Minute)
	p.marker("same", own, 50*time.Minute)
	p.row("done", 10*time.Minute, month, "", "")
	p.marker("done", own, 0)
	p.flush()
	change := func() {
		set := func(id, value string, ttl time.Duration) { p.client.Set(t.Context(), p.name(id), value, ttl) }
		set("renewed", "PROCESSING:a", time.Minute) // the same words, a new lease
		set("retaken", "PROCESSING:b", time.Minute)
		set("replaced", "PROCESSING:c", time.Minute)
		p.client.Del(t.Context(), p.name("another type"), p.name("expired"))
		p.client.LPush(t.Context(), p.name("another type"), "x")
		set("done", own, 20*time.Minute) // it has a TTL now
	}
	r := p.reconciler(func(o *Options) { o.beforeChange = change })
	f := p.scan(r)
	p.check(f, map[Kind]int64{StaleProcessing: 1, Stuck: 1, Phantom: 4, Immortal: 1})
	rep := p.fixAll(r, f)
	want := map[Kind]FixCount{
		StaleProcessing: {Changed: 1}, Stuck: {Changed: 1}, Immortal: {Changed: 1}, Phantom: {Applied: 1, Changed: 2, Gone: 1},
	}
	for _, c := range rep.Kinds {
		w := want[c.Kind]
		w.Kind = c.Kind
		if c != w {
			t.Errorf("%+v, want %+v", c, w)
		}
	}
	for id, value := range map[string]string{"renewed": "PROCESSING:a", "retaken": "PROCESSING:b", "replaced": "PROCESSING:c", "same": "", "done": own} {
		if got := p.client.Get(t.Context(), p.name(id)).Val(); got != value {
			t.Errorf("%s: %q, want %q", id, got, value)
		}
	}
}

// A row that was committed since the scan makes its marker what it should be: the last look sees it, and the undo file does
// not name it. hazard C2
func TestRowArrivesBeforeRepair(t *testing.T) {
	t.Parallel()
	for _, db := range testenv.Databases(t) {
		t.Run(db.Name, func(t *testing.T) {
			t.Parallel()
			p := plant(t, db.Schema(t), testenv.Redis(t), nil)
			p.marker("late", "COMPLETED:"+p.id, 50*time.Minute)
			p.marker("purged", "COMPLETED:"+p.id, 50*time.Minute)
			p.flush()
			r := p.reconciler()
			f := p.scan(r)
			p.check(f, map[Kind]int64{Phantom: 2})
			p.row("late", 0, month, "", "")
			p.flush()
			// The horizon is raised before the first row goes: what it covers is not missing any more.
			p.Catalog(func(c *partition.Catalog) {
				c.Biz[ledgertest.Biz] = partition.Memory{Since: p.Now.Add(-time.Hour), Purged: p.Now}
			})
			path := filepath.Join(t.TempDir(), "undo")
			plan, err := f.Plan([]Kind{Phantom})
			if err != nil {
				t.Fatal(err)
			}
			rep, err := r.Fix(t.Context(), plan, NewUndoFile(path), nil)
			if err != nil || rep.Applied() != 0 || rep.Kinds[0].Changed != 2 || rep.Undo != "" {
				t.Errorf("%+v, %v", rep, err)
			}
			if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("an undo file for nothing: %v", err)
			}
		})
	}
}

// Undo puts back only what the repair left, never says done where nothing is, and gives no more time than was left. hazard C9
func TestUndo(t *testing.T) {
	t.Parallel()
	p := plant(t, testenv.MySQL(t), testenv.Redis(t), nil)
	own := "COMPLETED:" + p.id
	for _, id := range []string{"phantom", "executed since"} {
		p.marker(id, own, 50*time.Minute)
	}
	for _, id := range []string{"stuck", "taken since"} {
		p.marker(id, "PROCESSING:x", 0)
	}
	for _, id := range []string{"foreign", "rewritten since"} {
		p.row(id, 10*time.Minute, month, "", "")
		p.marker(id, "COMPLETED:0123456789abcdef", 40*time.Minute)
	}
	p.marker("over since", "DONE", 2*time.Second)
	p.marker("text", "DONE", 0)
	p.flush()
	late := time.Duration(0)
	r := p.reconciler(func(o *Options) { o.Now = func() time.Time { return time.Now().Add(late) } })
	f := p.scan(r)
	p.check(f, map[Kind]int64{Phantom: 2, Stuck: 2, ForeignLedger: 2, Malformed: 2})
	path := filepath.Join(t.TempDir(), "undo")
	plan, err := f.Plan(fixable())
	if err != nil {
		t.Fatal(err)
	}
	undo := NewUndoFile(path)
	rep, err := r.Fix(t.Context(), plan, undo, nil)
	if err != nil || rep.Applied() != 8 {
		t.Fatalf("%+v, %v", rep, err)
	}
	if err := undo.Close(); err != nil {
		t.Fatal(err)
	}
	if got := p.client.Get(t.Context(), p.name("foreign")).Val(); got != own {
		t.Errorf("repaired to %q", got)
	}

	p.row("executed since", 0, month, "", "")
	p.flush()
	p.client.Set(t.Context(), p.name("taken since"), "PROCESSING:y", time.Minute)
	p.client.Set(t.Context(), p.name("rewritten since"), own, time.Hour) // the same words, written anew
	p.client.Expire(t.Context(), p.name("rewritten since"), 20*time.Minute)
	until(t, "two seconds by the ledger's clock", func() bool {
		var n int
		err := p.Schema.DB.QueryRowContext(t.Context(), "SELECT UTC_TIMESTAMP(3) > ? + INTERVAL 3 SECOND", p.Now).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n == 1
	})
	back, err := ReadUndo(path)
	if err != nil {
		t.Fatal(err)
	}
	ur, err := r.Undo(t.Context(), back, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := (UndoReport{Restored: 4, Changed: 2, Expired: 1, Refused: 1}); ur != want {
		t.Errorf("%+v, want %+v", ur, want)
	}
	for id, want := range map[string]string{
		"phantom": "", "executed since": own, "stuck": "PROCESSING:x", "taken since": "PROCESSING:y",
		"foreign": "COMPLETED:0123456789abcdef", "rewritten since": own, "over since": "", "text": "DONE",
	} {
		if got := p.client.Get(t.Context(), p.name(id)).Val(); got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
	if ttl := p.client.PTTL(t.Context(), p.name("stuck")).Val(); ttl != noTTL {
		t.Errorf("stuck: TTL %v", ttl)
	}
	if ttl := p.client.PTTL(t.Context(), p.name("foreign")).Val(); ttl > 40*time.Minute-2*time.Second || ttl < 30*time.Minute {
		t.Errorf("foreign: TTL %v", ttl)
	}
	// Once more: nothing is as the repair left it, except where nothing was done.
	if ur, err := r.Undo(t.Context(), back, nil); err != nil || ur.Restored != 0 {
		t.Errorf("again: %+v, %v", ur, err)
	}
}

func TestUndoFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "undo")
	u := NewUndoFile(path)
	u.head = undoHead{Format: undoFormat, Version: undoVersion, Prefix: "t", Schema: "s", Ledger: "l", Made: time.Unix(1, 0).UTC()}
	left := Bytes("a\xff")
	lines := []UndoLine{
		{Kind: Phantom, Key: "k\x00\xff<&>", Before: "COMPLETED:l", BeforeTTLMS: -1, At: time.Unix(2, 0).UTC()},
		{Kind: Stuck, Key: "ключ", Before: left, Left: &left, LeftTTLMS: 5, At: time.Unix(3, 0).UTC()},
	}
	if err := errors.Join(u.write(lines[:1]), u.write(lines[1:]), u.Close()); err != nil {
		t.Fatal(err)
	}
	if err := NewUndoFile(path).write(lines); !errors.Is(err, fs.ErrExist) {
		t.Errorf("replaced: %v", err)
	}
	var got []UndoLine
	head, torn, err := eachUndoLine(path, func(l UndoLine) error {
		got = append(got, l)
		return nil
	})
	if err != nil || torn || head != u.head || fmt.Sprintf("%+v", got[0]) != fmt.Sprintf("%+v", lines[0]) || got[1].Key != "ключ" || *got[1].Left != left {
		t.Errorf("%+v %+v %v %v", head, got, torn, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}

	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		text string
		torn bool
		bad  bool
	}{
		"torn":          {text: string(text) + `{"kind":"phan`, torn: true},
		"another line":  {text: string(text) + "{}\n", bad: true},
		"not json":      {text: string(text) + "x\n", bad: true},
		"another head":  {text: "{}\n" + string(text), bad: true},
		"empty":         {text: "", bad: true},
		"newer version": {text: strings.Replace(string(text), `"version":1`, `"version":2`, 1), bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "undo")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			p, err := ReadUndo(path)
			if (err != nil) != c.bad || p.Torn != c.torn {
				t.Errorf("%+v, %v", p, err)
			}
		})
	}
}

// A repair that is planned for a kind of its own changes no other.
func TestFixOnlyWhatIsAsked(t *testing.T) {
	t.Parallel()
	p := plant(t, testenv.MySQL(t), testenv.Redis(t), nil)
	p.faults(3)
	r := p.reconciler()
	f := p.scan(r)
	plan, err := f.Plan([]Kind{Stuck, Immortal})
	if err != nil || plan.Total() != 6 {
		t.Fatalf("%+v, %v", plan, err)
	}
	rep, err := r.Fix(t.Context(), plan, NewUndoFile(filepath.Join(t.TempDir(), "undo")), nil)
	if err != nil || rep.Applied() != 6 {
		t.Fatalf("%+v, %v", rep, err)
	}
	p.want[Stuck], p.want[Immortal] = 0, 0
	f = p.scan(r)
	// The other reading has touched the abandoned ones: how old they are is not known any more.
	p.want[Stuck], p.want[Abandoned] = p.want[Abandoned], 0
	p.check(f, p.want)
	if _, err := f.Plan([]Kind{Twice}); !strings.Contains(fmt.Sprint(err), "cannot be repaired") {
		t.Errorf("planned: %v", err)
	}
	if ledger.ParseMarker(p.client.Get(t.Context(), p.name("immortal-\x00\xff'0")).Val()).State != ledger.MarkerCompleted {
		t.Error("an immortal marker is gone")
	}
}
