package main

import (
	"encoding/json"
	"testing"
)

func TestCountsInShort(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string]string{
		`{"deleted":12,"skipped":0,"run":"00ab12cd","dropped":["a","b"],"deferred":null,"archives":[]}`: "deleted 12, dropped 2",
		`{"total":{"executed":3,"failed":0,"deeper":{"n":1}},"ended":"end"}`:                            "executed 3",
		`{"rate":0.0,"share":0.5}`: "share 0.5",
		`{"a":1,"b":`:              "a 1",
		`[1,2]`:                    "",
		`null`:                     "",
		``:                         "",
		`"text"`:                   "",
	} {
		if got := countsInShort(json.RawMessage(doc)); got != want {
			t.Errorf("%s: %q, want %q", doc, got, want)
		}
	}
}
