package runlog

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// ErrNoRun says that no run has the number asked for.
var ErrNoRun = errors.New("there is no such run")

// Entry is a run as it was recorded. All times are UTC.
type Entry struct {
	ID      int64     `json:"id"`
	Prefix  string    `json:"prefix"`
	Command string    `json:"command"`
	Args    string    `json:"args"` // the command line, secrets removed
	Who     string    `json:"who"`
	Host    string    `json:"host"`
	Version string    `json:"version"`
	Started time.Time `json:"started_at"`
	// Finished is zero while the run goes on, and for ever where it was killed.
	Finished time.Time       `json:"finished_at,omitzero"`
	Result   string          `json:"result"`
	Plan     json.RawMessage `json:"plan,omitempty"`
	Counts   json.RawMessage `json:"counts,omitempty"`
}

// Filter narrows a list of runs down; what is zero does not.
type Filter struct {
	Prefix  string // of the ledger's tables
	Command string // "purge" also finds "purge restore"
	Since   time.Time
	Limit   int // the newest so many; 0: all of them
}

const entryColumns = "id, prefix, command, args, who, host, version, started_at, finished_at, result, counts"

// List returns the runs that f lets pass, the newest first, without their plans. It returns ErrNoTable where there is no
// table.
func (l *Log) List(ctx context.Context, f Filter) (entries []Entry, err error) {
	query, args := f.query()
	rows, err := l.db.QueryContext(ctx, query, args...)
	if mysqlx.Number(err) == mysqlx.ErrNoSuchTable {
		return nil, ErrNoTable
	}
	if err != nil {
		return nil, fmt.Errorf("list the runs: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		e, err := scan(rows.Scan)
		if err != nil {
			return nil, fmt.Errorf("list the runs: %w", err)
		}
		entries = append(entries, e)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list the runs: %w", err)
	}
	return entries, nil
}

func (f Filter) query() (query string, args []any) {
	var where []string
	if f.Prefix != "" {
		where, args = append(where, "prefix = ?"), append(args, []byte(f.Prefix))
	}
	if f.Command != "" {
		where, args = append(where, "(command = ? OR command LIKE ?)"), append(args, f.Command, likeEscape(f.Command)+" %")
	}
	if !f.Since.IsZero() {
		where, args = append(where, "started_at >= ?"), append(args, f.Since.UTC())
	}
	query = "SELECT " + entryColumns + " FROM " + Table
	if len(where) > 0 {
		query += " WHERE " + strings.Join(where, " AND ")
	}
	query += " ORDER BY id DESC"
	if f.Limit > 0 {
		query, args = query+" LIMIT ?", append(args, f.Limit)
	}
	return query, args
}

// likeEscape makes text stand for itself in LIKE.
func likeEscape(s string) string {
	return strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(s)
}

// Get returns one run, wholly. It returns ErrNoRun, or ErrNoTable where there is no table.
func (l *Log) Get(ctx context.Context, id int64) (Entry, error) {
	var plan []byte
	e, err := scan(func(into ...any) error {
		return l.db.QueryRowContext(ctx, "SELECT "+entryColumns+", plan FROM "+Table+" WHERE id = ?", id).Scan(append(into, &plan)...)
	})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return e, fmt.Errorf("run %d: %w", id, ErrNoRun)
	case mysqlx.Number(err) == mysqlx.ErrNoSuchTable:
		return e, ErrNoTable
	case err != nil:
		return e, fmt.Errorf("read run %d: %w", id, err)
	}
	e.Plan = document(plan)
	return e, nil
}

func scan(row func(...any) error) (Entry, error) {
	var (
		e        Entry
		finished sql.NullTime
		counts   []byte
	)
	err := row(&e.ID, &e.Prefix, &e.Command, &e.Args, &e.Who, &e.Host, &e.Version, &e.Started, &finished, &e.Result, &counts)
	if finished.Valid {
		e.Finished = finished.Time
	}
	e.Counts = document(counts)
	return e, err
}

// document takes a column that should hold JSON. Whatever else stands in it must not make the whole list unreadable.
func document(b []byte) json.RawMessage {
	if len(b) == 0 || string(b) == "null" || !json.Valid(b) {
		return nil
	}
	return b
}
