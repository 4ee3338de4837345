package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// StateStore reads and writes the tables of state machines. It opens nothing; the caller owns both pools.
type StateStore struct {
	tx   *sql.DB
	read *sql.DB
}

// NewStateStore returns the store of a schema's state machines. tx must be opened for a guard and read must not, as for
// NewStore (see OpenConnections). tx may be nil for a store that is only read.
func NewStateStore(tx, read *sql.DB) *StateStore { return &StateStore{tx: tx, read: read} }

// State is where one order stands in one machine.
type State struct {
	Key       Key
	State     string
	Version   int64     // 1 for the initial state, one more with each transition
	UpdatedAt time.Time // UTC, the database's clock
}

// StateChange is one transition that was made.
type StateChange struct {
	Key     Key
	Version int64 // that it led to
	// From is empty where the order was begun.
	From, To string
	At       time.Time // UTC, the database's clock
	ClaimID  ClaimID
	Who, Why string
}

// Find reads where an order stands, in every machine that knows it, by biz_type.
func (s *StateStore) Find(ctx context.Context, orderID string) ([]State, error) {
	rows, err := s.read.QueryContext(ctx, "SELECT order_id, biz_type, state, version, updated_at FROM "+StateTable+
		" WHERE order_id = ? ORDER BY biz_type", []byte(orderID))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", StateTable, noTables(err))
	}
	states, err := scanStates(rows)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", StateTable, err)
	}
	return states, nil
}

func scanStates(rows *sql.Rows) ([]State, error) {
	defer rows.Close()
	var states []State
	for rows.Next() {
		var st State
		if err := rows.Scan(&st.Key.OrderID, &st.Key.BizType, &st.State, &st.Version, &st.UpdatedAt); err != nil {
			return nil, err
		}
		states = append(states, st)
	}
	return states, rows.Err()
}

// History reads the transitions of an order, the oldest first.
func (s *StateStore) History(ctx context.Context, k Key) ([]StateChange, error) {
	rows, err := s.read.QueryContext(ctx, "SELECT version, from_state, to_state, at, claim_id, who, why FROM "+StateHistoryTable+
		" WHERE order_id = ? AND biz_type = ? ORDER BY version", []byte(k.OrderID), []byte(k.BizType))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", StateHistoryTable, noTables(err))
	}
	defer rows.Close()
	var changes []StateChange
	for rows.Next() {
		c := StateChange{Key: k}
		var claim []byte
		if err := rows.Scan(&c.Version, &c.From, &c.To, &c.At, &claim, &c.Who, &c.Why); err != nil {
			return nil, fmt.Errorf("read %s: %w", StateHistoryTable, err)
		}
		copy(c.ClaimID[:], claim)
		changes = append(changes, c)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read %s: %w", StateHistoryTable, err)
	}
	return changes, nil
}

// look reads one order's state; lock is a locking clause or "". found is false where the machine does not know the order.
func (s *StateStore) look(ctx context.Context, q mysqlx.Queryer, k Key, lock string) (st State, found bool, err error) {
	st.Key = k
	err = q.QueryRowContext(ctx, "SELECT state, version, updated_at FROM "+StateTable+" WHERE order_id = ? AND biz_type = ?"+lock,
		[]byte(k.OrderID), []byte(k.BizType)).Scan(&st.State, &st.Version, &st.UpdatedAt)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return st, false, nil
	case err != nil:
		return st, false, fmt.Errorf("read %s: %w", StateTable, noTables(err))
	}
	return st, true, nil
}

// stateShare makes a look wait for a transition that has not ended.
const stateShare = " LOCK IN SHARE MODE"

// begin writes an order down in its initial state: a plain INSERT (invariant 5).
func (s *StateStore) begin(ctx context.Context, ex mysqlx.Execer, k Key, state string) error {
	_, err := ex.ExecContext(ctx, "INSERT INTO "+StateTable+" (order_id, biz_type, state, version, updated_at) VALUES (?, ?, ?, 1, UTC_TIMESTAMP(3))",
		[]byte(k.OrderID), []byte(k.BizType), []byte(state))
	return err
}

// move is the compare-and-set on which all rests. version changes with every transition, so a moved row is a changed row
// and the count is the same whether a connection counts rows found or rows changed (hazard G20).
func (s *StateStore) move(ctx context.Context, ex mysqlx.Execer, k Key, t Transition) (moved bool, err error) {
	res, err := ex.ExecContext(ctx, "UPDATE "+StateTable+" SET state = ?, version = version + 1, updated_at = UTC_TIMESTAMP(3)"+
		" WHERE order_id = ? AND biz_type = ? AND state = ?", []byte(t.To), []byte(k.OrderID), []byte(k.BizType), []byte(t.From))
	if err != nil {
		return false, fmt.Errorf("update %s: %w", StateTable, noTables(err))
	}
	n, err := res.RowsAffected()
	if err != nil {
		return false, fmt.Errorf("update %s: %w", StateTable, err)
	}
	return n == 1, nil
}

// errHistoryRow says that a transition left other than one history row.
var errHistoryRow = errors.New("the transition's history row was not written")

// note writes the history row of the transition that the same transaction has just made.
func (s *StateStore) note(ctx context.Context, ex mysqlx.Execer, k Key, t Transition, id ClaimID, who, why string) error {
	res, err := ex.ExecContext(ctx, "INSERT INTO "+StateHistoryTable+" (order_id, biz_type, version, from_state, to_state, at, claim_id, who, why)"+
		" SELECT order_id, biz_type, version, ?, state, updated_at, ?, ?, ? FROM "+StateTable+" WHERE order_id = ? AND biz_type = ?",
		[]byte(t.From), id[:], []byte(who), []byte(why), []byte(k.OrderID), []byte(k.BizType))
	if err != nil {
		return fmt.Errorf("insert into %s: %w", StateHistoryTable, noTables(err))
	}
	if n, err := res.RowsAffected(); err != nil || n != 1 {
		return fmt.Errorf("insert into %s: %d rows: %w", StateHistoryTable, n, errors.Join(errHistoryRow, err))
	}
	return nil
}

// made reports whether a claim has made a transition of the order.
func (s *StateStore) made(ctx context.Context, q mysqlx.Queryer, k Key, id ClaimID) (bool, error) {
	var n int
	err := q.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+StateHistoryTable+" WHERE order_id = ? AND biz_type = ? AND claim_id = ?",
		[]byte(k.OrderID), []byte(k.BizType), id[:]).Scan(&n)
	if err != nil {
		return false, fmt.Errorf("read %s: %w", StateHistoryTable, noTables(err))
	}
	return n > 0, nil
}

// was reports whether an order has ever been in a state.
func (s *StateStore) was(ctx context.Context, q mysqlx.Queryer, k Key, state string) (bool, error) {
	var n int
	err := q.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+StateHistoryTable+" WHERE order_id = ? AND biz_type = ? AND to_state = ?",
		[]byte(k.OrderID), []byte(k.BizType), []byte(state)).Scan(&n)
	if err != nil {
		return false, fmt.Errorf("read %s: %w", StateHistoryTable, noTables(err))
	}
	return n > 0, nil
}
