// Package reconcile compares the filter (markers in Redis) with the ledger (rows in MySQL or MariaDB), in both directions,
// and repairs markers.
//
// Nothing is believed at first sight: work in flight, expiry and a clock a little off look like faults for a moment. What a
// first look suspects is read again on both sides after a pause, and only what has stayed as it was is a finding. A repair
// looks a third time, and changes a marker only if it still is what was seen (compare-and-set). Rows are never changed.
//
// The package owns nothing. Callers own the connections; the ledger's must go to the primary, and read what is committed.
package reconcile
