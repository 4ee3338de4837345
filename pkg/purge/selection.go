package purge

import (
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/partition"
)

// Selection says which rows of one table go. Its condition is the one by which they are counted, archived and deleted.
type Selection struct {
	Table   string
	Columns partition.Columns
	// Retention is added to create_time where the table has no expiry column; ignored where it has one.
	Retention time.Duration
	// From (inclusive; zero: no bound) and To (exclusive) bound the expiry, UTC, whole milliseconds.
	From, To time.Time
	// Cutoff is the database's clock as the plan read it. A row created after it is never selected, whatever its expiry says
	// (hazard P18).
	Cutoff time.Time
}

const sqlTime = "'2006-01-02 15:04:05.000'"

// literal writes a time as the SQL literal that every statement of a run shares (hazard P3).
func literal(t time.Time) string { return t.UTC().Format(sqlTime) }

// expiryColumn is the column that bounds are compared with, and what is added to its values to get the expiry.
func (s Selection) expiryColumn() (name string, plus time.Duration) {
	if s.Columns.ExpireAt != "" {
		return s.Columns.ExpireAt, 0
	}
	return s.Columns.CreateTime, s.Retention
}

// Where is the condition, ready to follow WHERE. It compares bare columns with literals, so that an index serves it.
func (s Selection) Where() string {
	return s.whereExpiry() + " AND " + mysqlx.Quote(s.Columns.CreateTime) + " <= " + literal(s.Cutoff)
}

// whereExpiry is its part that bounds the expiry.
func (s Selection) whereExpiry() string {
	column, plus := s.expiryColumn()
	column = mysqlx.Quote(column)
	where := column + " < " + literal(s.To.Add(-plus))
	if !s.From.IsZero() {
		where = column + " >= " + literal(s.From.Add(-plus)) + " AND " + where
	}
	return where
}
