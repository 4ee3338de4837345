package ledger

// ProcessingMarker is what a claim writes.
func ProcessingMarker(owner string) string { return processing(owner) }
