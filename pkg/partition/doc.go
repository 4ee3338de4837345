// Package partition owns the ledger's monthly tables: which months there are, what they are called, what they look like,
// and the catalog, the one row that says all of it to guards and purges, with the horizon of what the ledger remembers.
//
// Month and Scheme are pure. Catalog is a value read in one SELECT and changed by compare-and-set on its generation.
// Manager plans and makes tables. Callers own the *sql.DB.
package partition
