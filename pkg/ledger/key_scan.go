package ledger

import "strings"

// Prefix is what every Redis key of the template begins with: the text before the biz_type. It may be empty.
func (t KeyTemplate) Prefix() string { return t.before }

// Pattern is a glob, for SCAN, that matches the Redis keys of a biz_type; of the whole template where biz is empty. It may
// match others too: what it finds is to be parsed.
func (t KeyTemplate) Pattern(biz string) string {
	if biz == "" {
		return globText(t.before) + "*"
	}
	return globText(t.before+biz+t.between) + "*"
}

// globText is a pattern that matches s and nothing else.
func globText(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(s)
}

// CompletedMarker is the value by which a filter marks a committed entry: with the ledger's id, and the fingerprint where
// there is one, or the bare word as other services write it.
func CompletedMarker(ledgerID string, fingerprint []byte, bare bool) string {
	if bare {
		return wordCompleted
	}
	return completed(ledgerID, fingerprint)
}
