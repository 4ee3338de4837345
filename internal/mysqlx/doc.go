// Package mysqlx is what the project needs of a MySQL-family server beyond database/sql: connections whose session is
// pinned (UTC, READ COMMITTED, strict), named error numbers, transactions whose rollback survives cancellation, named
// locks on a connection of their own, and the differences between MySQL and MariaDB.
//
// It owns no state: callers own the *sql.DB they open here and close it.
package mysqlx
