package mysqlx

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"

	"github.com/go-sql-driver/mysql"
)

// Server error numbers that decide something here. The names are the servers' own.
const (
	ErrDupEntry          = 1062 // a unique key, which one is not said reliably
	ErrNoSuchTable       = 1146
	ErrLockWaitTimeout   = 1205 // rolls back the statement only
	ErrLockDeadlock      = 1213 // the server has rolled back the whole transaction
	ErrCheckread         = 1020 // MariaDB 11.6+: row changed since the snapshot (innodb_snapshot_isolation)
	ErrSPDoesNotExist    = 1305 // also: SAVEPOINT does not exist
	ErrTableExists       = 1050
	ErrDBAccessDenied    = 1044
	ErrTableAccessDenied = 1142
	ErrBadDB             = 1049
	ErrBadField          = 1054 // no such column
	ErrLockNowait        = 3572 // MySQL; MariaDB says 1205
	ErrCannotConvert     = 3854 // MySQL: bytes that are no text of the character set asked for
)

// Number returns the server's error number, or 0 for an error that no server sent.
func Number(err error) uint16 {
	if me, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return me.Number
	}
	return 0
}

// IsRetryable reports an error after which the whole transaction may be run again: deadlock, lock wait timeout, or a row
// changed since the snapshot.
func IsRetryable(err error) bool {
	switch Number(err) {
	case ErrLockDeadlock, ErrLockWaitTimeout, ErrCheckread:
		return true
	}
	return false
}

// IsCharset reports a value that the character set of a column cannot hold: beside one other value, two, more, by itself,
// and MySQL's own. The statement was not carried out.
func IsCharset(err error) bool {
	switch Number(err) {
	case 1267, 1270, 1271, 1300, ErrCannotConvert:
		return true
	}
	return false
}

// IsLocked reports that a statement that was not to wait met a lock.
func IsLocked(err error) bool {
	n := Number(err)
	return n == ErrLockNowait || n == ErrLockWaitTimeout
}

// IsServerTrouble reports an error that says nothing about the statement: the server takes no writes, is full, is shutting
// down, or refuses this user. Whoever tries again later may succeed.
func IsServerTrouble(err error) bool {
	switch Number(err) {
	case 3, 1021, 1114: // no space: error writing file, disk full, table full
		return true
	case 1290, 1836, 3100: // read-only mode
		return true
	case 1040, 1053, 1317, 1927, 3024: // too many connections, shutdown, interrupted, connection killed, time limit
		return true
	case ErrDBAccessDenied, ErrTableAccessDenied, 1143, 1203, 1226: // privileges and quotas
		return true
	}
	return false
}

// IsConnLost reports that no answer came from the server: what the last statement did is unknown.
func IsConnLost(err error) bool {
	if err == nil || Number(err) != 0 {
		return false
	}
	var ne net.Error
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, sql.ErrConnDone) || errors.Is(err, mysql.ErrBusyBuffer) ||
		errors.As(err, &ne) || errors.Is(err, context.DeadlineExceeded)
}
