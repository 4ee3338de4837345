package ledger

// CompletedMarker is what the guard writes after a commit.
func CompletedMarker(ledgerID string, fingerprint []byte) string {
	return completed(ledgerID, fingerprint)
}

// ProcessingMarker is what a claim writes.
func ProcessingMarker(owner string) string { return processing(owner) }
