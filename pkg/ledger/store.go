package ledger

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/partition"
)

// Store reads and writes ledger rows. Its SQL stays within what MySQL 8.0+ and MariaDB 10.6+ share.
type Store struct {
	tx     *sql.DB // the guard's own connections: autocommit=0, READ COMMITTED
	read   *sql.DB // connections that commit by themselves
	scheme partition.Scheme
	// probeLock makes a look at another month wait for a claim that has not ended (invariant 8).
	probeLock string
}

// NewStore returns the store of one ledger. tx must be opened for a guard (mysqlx.Options.Guard; see OpenConnections),
// read must not. A scheme with a column map (partition.Scheme.Legacy) is that of a ledger made by someone else, which can be
// looked into and never written (ErrLegacy).
func NewStore(tx, read *sql.DB, scheme partition.Scheme) *Store {
	return &Store{tx: tx, read: read, scheme: scheme, probeLock: " LOCK IN SHARE MODE"}
}

// ErrUnsafeSession says that connections meant for a guard are not what invariant 6 needs.
var ErrUnsafeSession = errors.New("the connection is not fit for a guard")

// Verify refuses a server or a session on which two claims of one key could both pass: a multi-primary cluster, a read-only
// server, a session that commits by itself or has another isolation than READ COMMITTED. The connections for reading must
// commit by themselves.
func (s *Store) Verify(ctx context.Context) error {
	_, err := s.verify(ctx)
	return err
}

// verify is Verify, and says which server it is.
func (s *Store) verify(ctx context.Context) (mysqlx.Server, error) {
	server, err := mysqlx.Inspect(ctx, s.read)
	if err != nil {
		return server, err
	}
	return server, s.verifySession(ctx, server)
}

func (s *Store) verifySession(ctx context.Context, server mysqlx.Server) error {
	if err := errors.Join(server.RequireSingleWriter(), server.RequireWritable()); err != nil {
		return err
	}
	isolation := "@@transaction_isolation"
	if server.MariaDB {
		isolation = "@@tx_isolation" // MariaDB knows the other name from 11.1 on
	}
	var level string
	var autocommit bool
	if err := s.read.QueryRowContext(ctx, "SELECT @@autocommit").Scan(&autocommit); err != nil {
		return fmt.Errorf("ledger session: %w", err)
	}
	if !autocommit { // what is written over it, the catalog, would never be committed
		return fmt.Errorf("%w: autocommit is off on the connections for reading", ErrUnsafeSession)
	}
	err := mysqlx.WithTx(ctx, s.tx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT @@autocommit, "+isolation).Scan(&autocommit, &level)
	})
	switch {
	case err != nil:
		return fmt.Errorf("guard session: %w", err)
	case autocommit:
		return fmt.Errorf("%w: autocommit is on", ErrUnsafeSession)
	case level != "READ-COMMITTED":
		return fmt.Errorf("%w: isolation is %s, not READ-COMMITTED", ErrUnsafeSession, level)
	}
	return nil
}

// ErrBlind says that the user may not see what must be checked.
var ErrBlind = errors.New("the user may not see the triggers of the months (grant TRIGGER on the schema)")

// verifySight refuses a user from whom MySQL hides triggers: one on a month could not be noticed (invariant 5). MariaDB
// shows them to whoever may read the table.
func (s *Store) verifySight(ctx context.Context, server mysqlx.Server) error {
	if server.MariaDB {
		return nil
	}
	sees, err := mysqlx.MayTrigger(ctx, s.read)
	if err != nil {
		return err
	}
	if !sees {
		return ErrBlind
	}
	return nil
}

const entryColumns = "order_id, biz_type, create_time, expire_at, claim_id, fingerprint, src_topic, src_partition, src_offset"

// find reads the rows of keys of one biz_type; lock is a locking clause or "". The caller keeps pages small (some hundred
// keys), and compares the keys found byte by byte.
func (s *Store) find(ctx context.Context, q mysqlx.Queryer, table, biz string, orderIDs []string, lock string) ([]Entry, error) {
	switch {
	case len(orderIDs) == 0:
		return nil, nil
	case s.Legacy():
		return s.findLegacy(ctx, q, table, biz, orderIDs)
	}
	const idText = 48
	text := append(make([]byte, 0, idText*(len(orderIDs)+8)), "SELECT "+entryColumns+" FROM "+mysqlx.Quote(table)+" WHERE order_id IN ("...)
	var args []any
	for i, id := range orderIDs {
		if i > 0 {
			text = append(text, ',')
		}
		text, args = mysqlx.AppendText(text, args, id)
	}
	text = append(text, ") AND biz_type = '"+biz+"'"+lock...)
	return s.query(ctx, q, table, string(text), args...)
}

func (s *Store) query(ctx context.Context, q mysqlx.Queryer, table, query string, args ...any) ([]Entry, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var entries []Entry
	var scanner entryScanner
	for rows.Next() {
		e, err := scanner.scan(rows)
		if err != nil {
			return nil, err
		}
		e.Table = table
		entries = append(entries, e)
	}
	return entries, rows.Err()
}

// entryScanner reads rows without keeping what the driver lends it.
type entryScanner struct {
	order, biz, claim, fingerprint, topic sql.RawBytes
	part                                  sql.NullInt32
	off                                   sql.NullInt64
	lastBiz, lastTopic                    string // most rows have the same
}

func (s *entryScanner) scan(rows *sql.Rows) (Entry, error) {
	var e Entry
	if err := rows.Scan(&s.order, &s.biz, &e.CreateTime, &e.ExpireAt, &s.claim, &s.fingerprint, &s.topic, &s.part, &s.off); err != nil {
		return e, err
	}
	if string(s.biz) != s.lastBiz {
		s.lastBiz = string(s.biz)
	}
	e.Key = Key{BizType: s.lastBiz, OrderID: string(s.order)}
	if len(s.claim) == len(ClaimID{}) {
		id := ClaimID(s.claim)
		e.ClaimID = &id
	}
	if len(s.fingerprint) > 0 {
		e.Fingerprint = bytes.Clone(s.fingerprint)
	}
	if s.topic != nil && s.part.Valid && s.off.Valid {
		if string(s.topic) != s.lastTopic {
			s.lastTopic = string(s.topic)
		}
		e.Source = &Source{Topic: s.lastTopic, Partition: s.part.Int32, Offset: s.off.Int64}
	}
	return e, nil
}

// generation reads the catalog's generation: the last thing that a claim does before its effect (invariant 8). It is 0 where
// a ledger made by someone else has no catalog.
func (s *Store) generation(ctx context.Context, q mysqlx.Queryer) (int64, error) {
	var gen int64
	err := q.QueryRowContext(ctx, "SELECT generation FROM "+mysqlx.Quote(partition.ControlTable)+" WHERE name = ?", []byte(s.scheme.Prefix())).Scan(&gen)
	none := errors.Is(err, sql.ErrNoRows)
	switch {
	case s.Legacy() && (none || mysqlx.Number(err) == mysqlx.ErrNoSuchTable):
		return 0, nil
	case none:
		return 0, partition.ErrNoCatalog
	}
	return gen, err
}

// empty reports that a table has no row, not even one of a transaction that has not ended. It never waits: a row that
// someone has locked shows as an error that mysqlx.IsLocked knows, and rolls back nothing but the statement or, by the
// server's configuration, the whole transaction: the caller must begin it again.
func (s *Store) empty(ctx context.Context, q mysqlx.Queryer, table, lockNoWait string) (bool, error) {
	var one int
	err := q.QueryRowContext(ctx, "SELECT 1 FROM "+mysqlx.Quote(table)+" LIMIT 1"+lockNoWait).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return true, nil
	}
	return false, err
}

// ForeignWriters samples the newest rows of each month for rows of biz that no guard wrote: their writers do not look into
// other months before they insert (hazard G26). It returns the first table that has one, or "". Of a ledger made by someone
// else every row is such a row: ErrLegacy.
func (s *Store) ForeignWriters(ctx context.Context, biz string) (string, error) {
	if s.Legacy() {
		return "", ErrLegacy
	}
	cat, err := partition.LoadCatalog(ctx, s.read, s.scheme)
	if err != nil {
		return "", err
	}
	for _, t := range cat.Tables {
		if t.State != partition.Live {
			continue
		}
		var n int64
		err := s.read.QueryRowContext(ctx, `SELECT COUNT(*) FROM (SELECT biz_type, claim_id FROM `+mysqlx.Quote(t.Name)+
			` ORDER BY expire_at DESC, create_time DESC LIMIT 1000) newest WHERE claim_id IS NULL AND biz_type = ?`, []byte(biz)).Scan(&n)
		switch {
		case mysqlx.Number(err) == mysqlx.ErrNoSuchTable:
			continue
		case err != nil:
			return "", fmt.Errorf("look for rows of other writers in %s: %w", t.Name, err)
		case n > 0:
			return t.Name, nil
		}
	}
	return "", nil
}
