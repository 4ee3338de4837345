package main

import "slices"

// line is what one BENCH line compares.
type line struct {
	name, unit string
	// ours and rival say in a few words what the sides are.
	ours, rival string
	// wanted is the ratio ours/rival aimed at: at least it, or at most where atMost is set.
	wanted float64
	atMost bool
}

// The names of the lines.
const (
	guardFresh           = "guard_fresh"
	guardFreshLimit      = "guard_fresh_limit"
	guardDuplicate       = "guard_duplicate"
	guardDuplicateLedger = "guard_duplicate_ledger"
	replayVerify         = "replay_verify"
	replayVerifyLimit    = "replay_verify_limit"
	replayMemory         = "replay_memory"
	startup              = "startup"
	purgeRows            = "purge_rows"
	purgeArchive         = "purge_archive"
	purgeMonth           = "purge_month"
	purgeScale           = "purge_scale"
	purgeMemory          = "purge_memory"
	reconcileScan        = "reconcile_scan"
	reconcileMemory      = "reconcile_memory"
)

// Units.
const (
	perSecond = "msg/s"
	recordsPS = "rec/s"
	rowsPS    = "rows/s"
	keysPS    = "keys/s"
	mebibytes = "MiB"
	millis    = "ms"
)

// lines are all lines, in the order of the table.
func lines() []line {
	return []line{
		{name: guardFresh, unit: perSecond, ours: "batches", rival: "one at a time, 32 workers", wanted: 20},
		{name: guardFreshLimit, unit: perSecond, ours: "batches", rival: "raw multi-row INSERTs", wanted: 0.6},
		{name: guardDuplicate, unit: perSecond, ours: "batches", rival: "SET NX, 32 workers", wanted: 6},
		{name: guardDuplicateLedger, unit: perSecond, ours: "batches", rival: "one at a time, 32 workers", wanted: 15},
		{name: replayVerify, unit: recordsPS, ours: "replay --mode verify", rival: "kcat -C -e", wanted: 0.3},
		{name: replayVerifyLimit, unit: recordsPS, ours: "replay --mode verify", rival: "the look-ups alone", wanted: 0.7},
		{name: replayMemory, unit: mebibytes, ours: "10x the range", rival: "1x the range", wanted: 1.1, atMost: true},
		{name: purgeRows, unit: rowsPS, ours: "purge --rows-only", rival: "pt-archiver --purge", wanted: 1.3},
		{name: purgeArchive, unit: rowsPS, ours: "purge --rows-only --archive", rival: "pt-archiver --file", wanted: 1.5},
		{name: purgeMonth, unit: rowsPS, ours: "purge of a whole month", rival: "purge --rows-only", wanted: 50},
		{name: purgeScale, unit: rowsPS, ours: "purge of three whole months", rival: "purge --rows-only", wanted: 10},
		{name: purgeMemory, unit: mebibytes, ours: "10x the rows", rival: "1x the rows", wanted: 1.1, atMost: true},
		{name: reconcileScan, unit: keysPS, ours: "reconcile", rival: "redis-cli --scan", wanted: 0.3},
		{name: reconcileMemory, unit: mebibytes, ours: "10x the keys", rival: "1x the keys", wanted: 1.1, atMost: true},
		{name: startup, unit: millis, ours: "idemctl version", rival: "kcat -V", wanted: 3, atMost: true},
	}
}

func lineNames() []string {
	var names []string
	for _, l := range lines() {
		names = append(names, l.name)
	}
	return names
}

func known(name string) bool { return slices.Contains(lineNames(), name) }
