// Package replay reads a range of a topic through a handler and reports, message by message and key by key, what came of
// it. It owns the range syntax, finding key, time and effect values in a record, the run itself, and its report.
//
// Callers own the Source (where records come from: pkg/replay/kafka, or a captured file) and the Handler (what decides
// about a message: an adapter around ledger.Guard). Nothing here knows Kafka, MySQL or Redis.
package replay
