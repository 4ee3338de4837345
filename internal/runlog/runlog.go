// Package runlog keeps t_idempotent_run: one row per idemctl run that may write, so that whoever asks later what happened
// to an order can see which runs touched the ledger.
package runlog

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// Table holds the runs.
const Table = "t_idempotent_run"

const ddl = `CREATE TABLE IF NOT EXISTS ` + Table + ` (
  id          BIGINT         NOT NULL AUTO_INCREMENT PRIMARY KEY,
  prefix      VARBINARY(64)  NOT NULL,
  command     VARCHAR(64)    NOT NULL,
  args        TEXT           NOT NULL,
  who         VARCHAR(128)   NOT NULL,
  host        VARCHAR(255)   NOT NULL,
  version     VARCHAR(128)   NOT NULL,
  started_at  DATETIME(3)    NOT NULL,
  finished_at DATETIME(3)    NULL,
  plan        MEDIUMBLOB     NULL,
  counts      MEDIUMBLOB     NULL,
  result      VARCHAR(32)    NOT NULL,
  KEY idx_started_at (started_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4`

// ErrNoTable says that the ledger has no run table yet (partition create makes it).
var ErrNoTable = errors.New("no table " + Table)

// Running is the result of a run that has not ended, or was killed.
const Running = "running"

// Run is one run.
type Run struct {
	Prefix  string // of the ledger's tables
	Command string
	Args    string // the command line, secrets removed
	Who     string
	Host    string
	Version string
	Plan    any // as JSON
}

// Log writes runs.
type Log struct{ db *sql.DB }

// New returns a log over a pool that commits by itself.
func New(db *sql.DB) *Log { return &Log{db: db} }

// Ensure makes the table if it is not there.
func (l *Log) Ensure(ctx context.Context) error {
	if _, err := l.db.ExecContext(ctx, ddl); err != nil {
		return fmt.Errorf("create %s: %w", Table, err)
	}
	return nil
}

// Begin writes a run down before it changes anything, and returns its number. It returns ErrNoTable where there is no table.
func (l *Log) Begin(ctx context.Context, r Run) (int64, error) {
	plan, err := json.Marshal(r.Plan)
	if err != nil {
		return 0, fmt.Errorf("record the run: %w", err)
	}
	res, err := l.db.ExecContext(ctx, "INSERT INTO "+Table+` (prefix, command, args, who, host, version, started_at, plan, result)
		VALUES (?, ?, ?, ?, ?, ?, UTC_TIMESTAMP(3), ?, ?)`,
		[]byte(r.Prefix), cut(r.Command, 64), cut(r.Args, 16_000), cut(r.Who, 128), cut(r.Host, 255), cut(r.Version, 128), plan, Running)
	if mysqlx.Number(err) == mysqlx.ErrNoSuchTable {
		return 0, ErrNoTable
	}
	if err != nil {
		return 0, fmt.Errorf("record the run: %w", err)
	}
	id, err := res.LastInsertId()
	if err != nil {
		return 0, fmt.Errorf("record the run: %w", err)
	}
	return id, nil
}

// finishTimeout bounds the note of a run's end, which is written even when the run was interrupted.
const finishTimeout = 5 * time.Second

// Finish writes down how a run ended.
func (l *Log) Finish(ctx context.Context, id int64, result string, counts any) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	body, err := json.Marshal(counts)
	if err != nil {
		return fmt.Errorf("record the end of run %d: %w", id, err)
	}
	if _, err := l.db.ExecContext(ctx, "UPDATE "+Table+" SET finished_at = UTC_TIMESTAMP(3), counts = ?, result = ? WHERE id = ?",
		body, cut(result, 32), id); err != nil {
		return fmt.Errorf("record the end of run %d: %w", id, err)
	}
	return nil
}

// cut shortens text to n characters: a row about a run must not fail for its length.
func cut(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n])
}
