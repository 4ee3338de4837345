package replay_test

import (
	"encoding/hex"
	"testing"

	"github.com/idemctl/idemctl/pkg/replay"
)

func fingerprintOf(t *testing.T, value string, paths ...string) string {
	t.Helper()
	item, err := extractWith(t, replay.ExtractorConfig{Key: "id", Fingerprint: paths}, replay.Record{Value: []byte(value), Timestamp: aTime()})
	if err != nil {
		t.Fatalf("%s: %v", value, err)
	}
	if len(paths) > 0 && len(item.Fingerprint) != replay.FingerprintSize {
		t.Fatalf("%s has a fingerprint of %d bytes", value, len(item.Fingerprint))
	}
	return hex.EncodeToString(item.Fingerprint)
}

// hazard G13: the same content in another spelling has the same fingerprint, another content has another one.
func TestFingerprintContent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why, a, b string
		same      bool
	}{
		{"other members do not count", `{"id":1,"x":"a","y":1}`, `{"y":2,"id":1,"x":"a"}`, true},
		{"white space and member order", `{"id":1,"x":{"a":1,"b":[1,{"c":2,"d":3}]}}`, `{"id":1, "x" : { "b":[1, {"d":3,"c":2}] ,"a": 1}}`, true},
		{"escapes", `{"id":1,"x":"A/é"}`, `{"id":1,"x":"\u0041\/\u00e9"}`, true},
		{"escapes within", `{"id":1,"x":{"A":"é"}}`, `{"id":1,"x":{"\u0041":"\u00e9"}}`, true},
		{"escapes of names", `{"id":1,"x":"a"}`, `{"id":1,"\u0078":"a"}`, true},
		{"amount", `{"id":1,"x":100}`, `{"id":1,"x":101}`, false},
		{"beyond 2^53", `{"id":1,"x":9007199254740992}`, `{"id":1,"x":9007199254740993}`, false},
		{"beyond 2^53, within", `{"id":1,"x":[9007199254740992]}`, `{"id":1,"x":[9007199254740993]}`, false},
		{"beyond 2^53, a fraction within", `{"id":1,"x":[0.12345678901234567890]}`, `{"id":1,"x":[0.12345678901234567891]}`, false},
		{"digits count", `{"id":1,"x":12.5}`, `{"id":1,"x":12.50}`, false},
		{"number and text", `{"id":1,"x":1}`, `{"id":1,"x":"1"}`, false},
		{"missing and null", `{"id":1}`, `{"id":1,"x":null}`, false},
		{"null and the text null", `{"id":1,"x":null}`, `{"id":1,"x":"null"}`, false},
		{"missing and empty", `{"id":1}`, `{"id":1,"x":""}`, false},
		{"true and false", `{"id":1,"x":true}`, `{"id":1,"x":false}`, false},
		{"array order", `{"id":1,"x":[1,2]}`, `{"id":1,"x":[2,1]}`, false},
		{"object and its text", `{"id":1,"x":{}}`, `{"id":1,"x":"{}"}`, false},
	} {
		if a, b := fingerprintOf(t, c.a, "x"), fingerprintOf(t, c.b, "x"); (a == b) != c.same {
			t.Errorf("%s: %s is %s, %s is %s", c.why, c.a, a, c.b, b)
		}
	}
}

func TestFingerprintPaths(t *testing.T) {
	t.Parallel()
	const value = `{"id":1,"a":"x","b":"y","o":{"a":"x"},"c.d":1}`
	if got := fingerprintOf(t, value); got != "" {
		t.Errorf("without paths it is %s", got)
	}
	if fingerprintOf(t, value, "a", "b") != fingerprintOf(t, value, "b", "a", "b") {
		t.Error("the order of the paths counts")
	}
	if fingerprintOf(t, value, "a", "b") == fingerprintOf(t, `{"id":1,"a":"y","b":"x"}`, "a", "b") {
		t.Error("values may change places")
	}
	if fingerprintOf(t, value, "a") == fingerprintOf(t, value, "a", "b") {
		t.Error("a path more makes no difference")
	}
	// A path that goes on beneath another one.
	if fingerprintOf(t, value, "o", "o.a") == fingerprintOf(t, `{"id":1,"o":{"a":"z"}}`, "o", "o.a") {
		t.Error("a change beneath makes no difference")
	}
	// The stored form: a change of it makes every re-delivery of an older entry a conflict.
	if got, want := fingerprintOf(t, value, "a", `c\.d`, "missing"), goldenFingerprint; got != want {
		t.Errorf("the fingerprint is %s, was %s", got, want)
	}
}

// goldenFingerprint was computed apart from this program: the head of the SHA-256 of each path's length (32 bits, big
// endian), name, tag, length of the value, value.
const goldenFingerprint = "72e6f0edff8cac339d6f7af30ea3488a"
