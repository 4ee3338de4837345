// Package ledger makes a handler of at-least-once messages idempotent. A business key has one effect, whatever is
// redelivered, killed, expired, flushed or raced.
//
// Two layers do it. The Filter (Redis) absorbs most duplicates in memory; it may lose keys at any time and never decides
// that something is done unless this very ledger has said so. The Store (MySQL or MariaDB) decides: one row per key, unique,
// inserted in the transaction of the business write. Guard puts both together.
//
// The package owns the rows of the monthly tables and the markers in Redis. Callers own the connections, and the business
// tables that an Effect writes: those must be InnoDB tables of the same server.
package ledger
