package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// The tables of state machines. All machines of a schema share them: biz_type tells them apart.
const (
	// StateTable has one row per order and machine: where it stands.
	StateTable = "t_idempotent_state"
	// StateHistoryTable has one row per transition.
	StateHistoryTable = "t_idempotent_state_history"
)

// stateDDL: keys and states are VARBINARY, since every collation merges something (hazard G6). The index serves the
// question which orders stand still.
const stateDDL = `CREATE TABLE IF NOT EXISTS ` + StateTable + ` (
  order_id   VARBINARY(128) NOT NULL,
  biz_type   VARBINARY(32)  NOT NULL,
  state      VARBINARY(64)  NOT NULL,
  version    BIGINT         NOT NULL,
  updated_at DATETIME(3)    NOT NULL,
  PRIMARY KEY (order_id, biz_type),
  KEY idx_standing (biz_type, state, updated_at)
) ENGINE=InnoDB`

// historyDDL: a version of an order is written once, so no transition can be recorded twice, nor two for one.
const historyDDL = `CREATE TABLE IF NOT EXISTS ` + StateHistoryTable + ` (
  order_id   VARBINARY(128) NOT NULL,
  biz_type   VARBINARY(32)  NOT NULL,
  version    BIGINT         NOT NULL,
  from_state VARBINARY(64)  NOT NULL,
  to_state   VARBINARY(64)  NOT NULL,
  at         DATETIME(3)    NOT NULL,
  claim_id   BINARY(16)     NOT NULL,
  who        VARBINARY(128) NOT NULL,
  why        VARBINARY(512) NOT NULL,
  PRIMARY KEY (order_id, biz_type, version)
) ENGINE=InnoDB`

// stateTables are both tables, in the order in which they are made.
func stateTables() []stateTable {
	return []stateTable{
		{name: StateTable, ddl: stateDDL, key: "order_id, biz_type", columns: []string{
			"order_id varbinary(128)", "biz_type varbinary(32)", "state varbinary(64)", "version bigint", "updated_at datetime(3)",
		}},
		{name: StateHistoryTable, ddl: historyDDL, key: "order_id, biz_type, version", columns: []string{
			"order_id varbinary(128)", "biz_type varbinary(32)", "version bigint", "from_state varbinary(64)", "to_state varbinary(64)",
			"at datetime(3)", "claim_id binary(16)", "who varbinary(128)", "why varbinary(512)",
		}},
	}
}

type stateTable struct {
	name, ddl, key string
	columns        []string // name and type
}

var (
	// ErrNoStateTables says that the tables of state machines are not there.
	ErrNoStateTables = errors.New("the tables of state machines are missing (run: idemctl state create --execute)")
	// ErrUnsafeStateTable says that a table of state machines is not what a transition relies on.
	ErrUnsafeStateTable = errors.New("table cannot serve a state machine")
)

// StatePlan says which tables CreateTables makes.
type StatePlan struct {
	Create  []string `json:"create"`
	Present []string `json:"present"`
}

// PlanTables looks which tables of state machines are missing. One that is there and is not what it should be is an error
// that wraps ErrUnsafeStateTable.
func (s *StateStore) PlanTables(ctx context.Context) (StatePlan, error) {
	p := StatePlan{Create: []string{}, Present: []string{}}
	for _, t := range stateTables() {
		there, err := s.verifyTable(ctx, t)
		switch {
		case err != nil:
			return p, err
		case there:
			p.Present = append(p.Present, t.name)
		default:
			p.Create = append(p.Create, t.name)
		}
	}
	return p, nil
}

// CreateTables makes the tables of a plan. It is idempotent, and harmless when two runs race. A guard or a machine never
// makes tables on its own: DDL commits whatever is open.
func (s *StateStore) CreateTables(ctx context.Context, p StatePlan) error {
	for _, t := range stateTables() {
		if !slices.Contains(p.Create, t.name) {
			continue
		}
		if _, err := s.read.ExecContext(ctx, t.ddl); err != nil {
			return fmt.Errorf("create %s: %w", t.name, err)
		}
		if _, err := s.verifyTable(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// VerifyTables returns ErrNoStateTables or an error that wraps ErrUnsafeStateTable unless both tables are what a transition
// relies on: InnoDB, which rolls back; the whole key as primary key, no other unique key, exact columns; no trigger.
func (s *StateStore) VerifyTables(ctx context.Context) error {
	for _, t := range stateTables() {
		there, err := s.verifyTable(ctx, t)
		if err != nil {
			return err
		}
		if !there {
			return fmt.Errorf("%w: %s", ErrNoStateTables, t.name)
		}
	}
	return nil
}

func (s *StateStore) verifyTable(ctx context.Context, t stateTable) (there bool, err error) {
	var kind, engine string
	err = s.read.QueryRowContext(ctx, `SELECT table_type, COALESCE(engine, '?') FROM information_schema.tables
		WHERE table_schema = DATABASE() AND table_name = ?`, t.name).Scan(&kind, &engine)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look at %s: %w", t.name, err)
	}
	var wrong []string
	if kind != "BASE TABLE" || !strings.EqualFold(engine, "InnoDB") {
		wrong = append(wrong, fmt.Sprintf("it is a %s of engine %s, not a table of InnoDB", strings.ToLower(kind), engine))
	}
	columns, err := s.words(ctx, t.name, `SELECT CONCAT(LOWER(column_name), ' ', LOWER(column_type)) FROM information_schema.columns
		WHERE table_schema = DATABASE() AND table_name = ?`)
	if err != nil {
		return false, err
	}
	for i, c := range columns {
		columns[i], _, _ = strings.Cut(c, " bigint(") // MariaDB still shows a display width
		if columns[i] != c {
			columns[i] += " bigint"
		}
	}
	for _, want := range t.columns {
		if !slices.Contains(columns, want) {
			wrong = append(wrong, "it has no column "+want)
		}
	}
	keys, err := s.words(ctx, t.name, `SELECT CONCAT(index_name, ' (', GROUP_CONCAT(CONCAT(COALESCE(LOWER(column_name), '?'), IF(sub_part IS NULL, '', '(part)'))
		ORDER BY seq_in_index SEPARATOR ', '), ')') FROM information_schema.statistics
		WHERE table_schema = DATABASE() AND table_name = ? AND non_unique = 0 GROUP BY index_name`)
	if err != nil {
		return false, err
	}
	if want := "PRIMARY (" + t.key + ")"; !slices.Equal(keys, []string{want}) {
		wrong = append(wrong, fmt.Sprintf("its unique keys are %s, not %s alone", strings.Join(keys, ", "), want))
	}
	triggers, err := s.words(ctx, t.name, `SELECT trigger_name FROM information_schema.triggers
		WHERE event_object_schema = DATABASE() AND event_object_table = ?`)
	if err != nil {
		return false, err
	}
	if len(triggers) > 0 {
		wrong = append(wrong, "it has a trigger "+strings.Join(triggers, ", "))
	}
	if len(wrong) > 0 {
		return true, fmt.Errorf("%w: %s: %s", ErrUnsafeStateTable, t.name, strings.Join(wrong, "; "))
	}
	return true, nil
}

func (s *StateStore) words(ctx context.Context, table, query string) ([]string, error) {
	rows, err := s.read.QueryContext(ctx, query, table)
	if err != nil {
		return nil, fmt.Errorf("look at %s: %w", table, err)
	}
	defer rows.Close()
	var words []string
	for rows.Next() {
		var w string
		if err := rows.Scan(&w); err != nil {
			return nil, fmt.Errorf("look at %s: %w", table, err)
		}
		words = append(words, w)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("look at %s: %w", table, err)
	}
	return words, nil
}

// noTables makes a missing table say what to do about it.
func noTables(err error) error {
	if mysqlx.Number(err) == mysqlx.ErrNoSuchTable {
		return ErrNoStateTables // the error around it names the table
	}
	return err
}
