package ledger_test

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/idemctl/idemctl/pkg/ledger"
)

func TestParseMarker(t *testing.T) {
	t.Parallel()
	fingerprint := bytes.Repeat([]byte{0xab}, 16)
	text := hex.EncodeToString(fingerprint)
	for raw, want := range map[string]ledger.Marker{
		"PROCESSING":                         {State: ledger.MarkerProcessing},
		"PROCESSING:0a1b":                    {State: ledger.MarkerProcessing, Owner: "0a1b"},
		"PROCESSING:host-1:pid:7":            {State: ledger.MarkerProcessing, Owner: "host-1:pid:7"}, // as others may write it
		"COMPLETED":                          {State: ledger.MarkerCompleted},
		"COMPLETED:0123":                     {State: ledger.MarkerCompleted, Ledger: "0123"},
		"COMPLETED:0123:" + text:             {State: ledger.MarkerCompleted, Ledger: "0123", Fingerprint: fingerprint},
		"":                                   {State: ledger.MarkerMalformed},
		":":                                  {State: ledger.MarkerMalformed},
		"1":                                  {State: ledger.MarkerMalformed},
		"completed":                          {State: ledger.MarkerMalformed},
		"COMPLETED ":                         {State: ledger.MarkerMalformed},
		" COMPLETED":                         {State: ledger.MarkerMalformed},
		"COMPLETED\n":                        {State: ledger.MarkerMalformed},
		"COMPLETEDX":                         {State: ledger.MarkerMalformed},
		"COMPLETED:":                         {State: ledger.MarkerMalformed},
		"COMPLETED::":                        {State: ledger.MarkerMalformed},
		"COMPLETED:0123:":                    {State: ledger.MarkerMalformed},
		"COMPLETED:0123:abab":                {State: ledger.MarkerMalformed},
		"COMPLETED:0123:zz":                  {State: ledger.MarkerMalformed},
		"COMPLETED:0123:" + text[1:]:         {State: ledger.MarkerMalformed},
		"COMPLETED:0123:" + text + ":x":      {State: ledger.MarkerMalformed},
		"COMPLETED:0123:" + text + text:      {State: ledger.MarkerMalformed},
		"COMPLETED::" + text:                 {State: ledger.MarkerMalformed},
		`"COMPLETED"`:                        {State: ledger.MarkerMalformed}, // a JSON serialiser's
		"\xac\xed\x00\x05t\x00\x09COMPLETED": {State: ledger.MarkerMalformed}, // Java's own
	} {
		got := ledger.ParseMarker(raw)
		if got.State != want.State || got.Owner != want.Owner || got.Ledger != want.Ledger || got.Raw != raw {
			t.Errorf("%q: %+v, want %+v", raw, got, want)
		}
		if want.State == ledger.MarkerCompleted && !bytes.Equal(got.Fingerprint, want.Fingerprint) {
			t.Errorf("%q: fingerprint %x, want %x", raw, got.Fingerprint, want.Fingerprint)
		}
	}
}

// What this program writes it reads back whole.
func TestMarkerRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.StringMatching(`[0-9a-f]{16}`).Draw(t, "ledger id")
		fingerprint := rapid.OneOf(rapid.Just([]byte(nil)), rapid.SliceOfN(rapid.Byte(), 16, 16)).Draw(t, "fingerprint")
		raw := ledger.CompletedMarker(id, fingerprint, false)
		if m := ledger.ParseMarker(raw); m.State != ledger.MarkerCompleted || m.Ledger != id || !bytes.Equal(m.Fingerprint, fingerprint) {
			t.Fatalf("%q is read as %+v", raw, m)
		}
		owner := rapid.StringMatching(`[0-9a-f]{32}`).Draw(t, "owner")
		raw = ledger.ProcessingMarker(owner)
		if m := ledger.ParseMarker(raw); m.State != ledger.MarkerProcessing || m.Owner != owner {
			t.Fatalf("%q is read as %+v", raw, m)
		}
	})
}

// FuzzParseMarker: no value of another service's is taken for one that this ledger has written.
func FuzzParseMarker(f *testing.F) {
	for _, s := range []string{"PROCESSING", "PROCESSING:x", "COMPLETED", "COMPLETED:0123456789abcdef", "COMPLETED:0123456789abcdef:" + strings.Repeat("ab", 16), "", "::"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		m := ledger.ParseMarker(raw)
		if m.Raw != raw {
			t.Errorf("%q: raw %q", raw, m.Raw)
		}
		switch m.State {
		case ledger.MarkerProcessing:
			if raw != "PROCESSING" && raw != ledger.ProcessingMarker(m.Owner) {
				t.Errorf("%q is taken for a lease of %q", raw, m.Owner)
			}
		case ledger.MarkerCompleted:
			if raw != "COMPLETED" && !strings.EqualFold(raw, ledger.CompletedMarker(m.Ledger, m.Fingerprint, false)) {
				t.Errorf("%q is taken for %q", raw, ledger.CompletedMarker(m.Ledger, m.Fingerprint, false))
			}
			if m.Ledger == "" && raw != "COMPLETED" {
				t.Errorf("%q is taken for the bare word", raw)
			}
		case ledger.MarkerMalformed:
			if raw == "PROCESSING" || raw == "COMPLETED" {
				t.Errorf("%q is taken for malformed", raw)
			}
		case ledger.MarkerNone:
			t.Errorf("%q is taken for no marker", raw)
		}
	})
}
