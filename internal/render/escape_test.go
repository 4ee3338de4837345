package render_test

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/idemctl/idemctl/internal/render"
)

func TestKey(t *testing.T) { // hazard T2
	t.Parallel()
	for in, want := range map[string]string{
		"ORD-1":           "ORD-1",
		"20261111-8842":   "20261111-8842",
		"订单-1":            "订单-1",
		"":                "''",
		"ORD-1 ":          "$'ORD-1 '", // another key than ORD-1, and it must look so
		"\x1b[2Jboo":      `$'\x1b[2Jboo'`,
		"a\nb\tc\r":       `$'a\nb\tc\r'`,
		"\xff\xfe":        `$'\xff\xfe'`,
		"it's\x00":        `$'it\'s\x00'`,
		`back\slash`:      `back\slash`,
		"back\\slash\x07": `$'back\\slash\x07'`,
		"\u202eevil":      `$'\xe2\x80\xaeevil'`, // turns the direction of what follows
		"zero\u200bwidth": `$'zero\xe2\x80\x8bwidth'`,
		"$'x'":            `$'$\'x\''`,
		"''":              `$'\'\''`,
		"\ufffd":          "\ufffd",
		"inner space":     "inner space",
	} {
		if got := render.Key([]byte(in)); got != want {
			t.Errorf("Key(%q) = %s, want %s", in, got, want)
		}
	}
}

// Nothing that Key returns can do anything to a terminal, and no two keys look alike.
func TestKeyIsSafeAndInjective(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		gen := rapid.OneOf(rapid.SliceOfN(rapid.Byte(), 0, 12), rapid.Map(rapid.StringOf(rapid.RuneFrom([]rune(`$'\ax1b é`))), func(s string) []byte { return []byte(s) }))
		a, b := gen.Draw(t, "a"), gen.Draw(t, "b")
		shown := render.Key(a)
		if !utf8.ValidString(shown) {
			t.Fatalf("Key(%q) = %q is not UTF-8", a, shown)
		}
		for _, r := range shown {
			if !unicode.IsPrint(r) {
				t.Fatalf("Key(%q) = %q holds %q", a, shown, r)
			}
		}
		if !bytes.Equal(a, b) && shown == render.Key(b) {
			t.Fatalf("%q and %q are both shown as %s", a, b, shown)
		}
	})
}

// What is shown escaped is what a shell reads back.
func TestKeyReadsBack(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash to read it back")
	}
	for _, key := range []string{"\x1b[2Jboo", "a\nb\tc\r", "\xff\xfe7f", "it's \\ \x01", "\u202eevil", "$'x'", "ORD-1 ", "''"} {
		shown := render.Key([]byte(key))
		out, err := exec.CommandContext(t.Context(), bash, "-c", "printf %s "+shown).Output()
		if err != nil || string(out) != key {
			t.Errorf("%s reads back as %q, %v, want %q", shown, out, err, key)
		}
	}
}

func TestLines(t *testing.T) {
	t.Parallel()
	if got, want := render.Lines("a\x1b\nb"), "a\\x1b\nb"; got != want {
		t.Errorf("Lines = %q, want %q", got, want)
	}
	if got := render.Text("a\nb"); strings.Contains(got, "\n") {
		t.Errorf("Text = %q", got)
	}
}
