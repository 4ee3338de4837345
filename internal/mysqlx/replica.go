package mysqlx

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrNotReplica says that a server replicates from nobody.
var ErrNotReplica = errors.New("the server is not a replica")

// errSyntax is the servers' number for a statement that they do not understand.
const errSyntax = 1064

// ReplicaLag says how far a replica is behind its source, by its own account in whole seconds (Seconds_Behind_Source, or
// _Master). known is false while the replica itself does not know: replication is stopped, broken or connecting. Of several
// channels the worst counts. A server that replicates from nobody is ErrNotReplica.
//
// The user needs REPLICATION CLIENT (MySQL) or REPLICA MONITOR (MariaDB).
func ReplicaLag(ctx context.Context, q Queryer) (lag time.Duration, known bool, err error) {
	// MariaDB shows the channels together only by the first, MySQL always; MySQL before 8.0.22 knows only the last.
	for _, statement := range []string{"SHOW ALL REPLICAS STATUS", "SHOW REPLICA STATUS", "SHOW SLAVE STATUS"} {
		lag, known, err = replicaStatus(ctx, q, statement)
		if Number(err) != errSyntax {
			break
		}
	}
	if err != nil {
		return 0, false, fmt.Errorf("replica status: %w", err)
	}
	return lag, known, nil
}

func replicaStatus(ctx context.Context, q Queryer, statement string) (lag time.Duration, known bool, err error) {
	rows, err := q.QueryContext(ctx, statement)
	if err != nil {
		return 0, false, err //nolint:wrapcheck // the caller says what was asked
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns, err := rows.Columns()
	if err != nil {
		return 0, false, err //nolint:wrapcheck // the caller says what was asked
	}
	behind := slices.IndexFunc(columns, func(c string) bool {
		return strings.EqualFold(c, "Seconds_Behind_Source") || strings.EqualFold(c, "Seconds_Behind_Master")
	})
	if behind < 0 {
		return 0, false, errors.New("it has no column Seconds_Behind_Source")
	}
	cells := make([]sql.RawBytes, len(columns))
	into := make([]any, len(columns))
	for i := range cells {
		into[i] = &cells[i]
	}
	channels := 0
	known = true
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return 0, false, err //nolint:wrapcheck // the caller says what was asked
		}
		channels++
		seconds, err := strconv.ParseInt(string(cells[behind]), 10, 64)
		if err != nil { // NULL
			known = false
			continue
		}
		lag = max(lag, time.Duration(seconds)*time.Second)
	}
	if err := rows.Err(); err != nil {
		return 0, false, err //nolint:wrapcheck // the caller says what was asked
	}
	if channels == 0 {
		return 0, false, ErrNotReplica
	}
	if !known {
		lag = 0
	}
	return lag, known, nil
}
