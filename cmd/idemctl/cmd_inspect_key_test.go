package main

import (
	"strings"
	"testing"

	"github.com/idemctl/idemctl/internal/render"
)

// hazard T2: a key of any bytes is given as it is shown.
func TestOrderIDs(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]string{
		"20261111-8842":                       "20261111-8842",
		"ORD-1\x20":                           "ORD-1 ",
		`a\nb`:                                `a\nb`, // no quotes: the bytes as they are
		`$'ORD\x001'`:                         "ORD\x001",
		`$'a\nb\tc\r\\\'\"'`:                  "a\nb\tc\r\\'\"",
		`$'\a\b\e\E\f\v\?'`:                   "\a\b\x1b\x1b\f\v?",
		`$'\1\12\101\0'`:                      "\x01\nA\x00",
		`$'\xfg'`:                             "\x0fg", // one digit is enough
		`$'é\u00e9\U0001F600'`:                "éé😀",
		`$'\xff'`:                             "\xff",
		`$'$\'a'`:                             "$'a",
		"$" + "x":                             "$x",
		`$'` + strings.Repeat("a", 128) + `'`: strings.Repeat("a", 128),
	} {
		got, err := orderIDs([]string{arg}, false)
		if err != nil || got[0] != want {
			t.Errorf("%s: %q, %v; want %q", arg, got, err, want)
		}
	}
	for _, arg := range []string{"", `$'`, `$'a`, `$'a\'`, `$'a'b`, `$'\q'`, `$'\x'`, `$'\xzz'`, `$'\u'`, `$'\ud800'`, `$'\U00110000'`, `$''`, strings.Repeat("a", 129)} {
		if got, err := orderIDs([]string{arg}, false); err == nil || exitCode(err) != exitUsage {
			t.Errorf("%s: %q, %v", arg, got, err)
		}
	}
	if got, err := orderIDs([]string{"4f52442d31", "00FF"}, true); err != nil || got[0] != "ORD-1" || got[1] != "\x00\xff" {
		t.Errorf("hex: %q, %v", got, err)
	}
	for _, arg := range []string{"", "4f5", "xx", "0x4f"} {
		if got, err := orderIDs([]string{arg}, true); err == nil {
			t.Errorf("hex %s: %q", arg, got)
		}
	}
}

// What a page shows can be typed.
func FuzzOrderID(f *testing.F) {
	for _, s := range []string{"ORD-1", "a\x00b", "é\xff'\\", " ", "$'a'", "\u202e", "''"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, id string) {
		if id == "" || len(id) > 128 {
			t.Skip()
		}
		shown := render.Key([]byte(id))
		got, err := orderIDs([]string{shown}, false)
		if err != nil || got[0] != id {
			t.Errorf("%q is shown as %s, and read back as %q, %v", id, shown, got, err)
		}
	})
}
