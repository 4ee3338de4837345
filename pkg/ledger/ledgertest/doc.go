// Package ledgertest is the conformance suite of ledger's Store, Filter and Guard. It runs on real servers, and any way of
// driving a guard (one message, a batch) can be put through it.
package ledgertest
