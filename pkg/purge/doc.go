// Package purge lets expired ledger entries go: by rows, window by window, or a whole month at once, with an archive if one
// is asked for, and brings archives back.
//
// It deletes the only memory that keeps an effect from running twice, so it works in fixed steps: a plan that is a value,
// the lock, the archive and its verification, the horizon, and only then the delete. Every statement that destroys goes over
// the very connection that holds the lock.
//
// Callers own the *sql.DB. Nothing here prints; progress and reports are values.
package purge
