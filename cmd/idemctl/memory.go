package main

import "runtime/debug"

// What a run needs stays within a few tens of megabytes however long its range is, so the collector may come less often
// than it would by itself, until the heap is large after all.
const (
	collectAt  = 300       // percent of what lives
	softMemory = 400 << 20 // bytes
)

// tuneCollector sets the garbage collector for a short run over many small records. GOGC and GOMEMLIMIT still hold where
// they are set.
func tuneCollector(getenv func(string) string) {
	if getenv("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}
	if getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(softMemory)
	}
}
