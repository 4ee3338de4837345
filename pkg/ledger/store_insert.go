package ledger

import (
	"context"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// literalTimes is from how many rows on it pays to ask the server for its time first, instead of having it work out both
// times of every row.
const literalTimes = 16

// insert claims keys: a plain INSERT, never IGNORE (invariant 5). create_time is the database's now or the business time,
// whichever is later; times are whole milliseconds already, since MySQL would round them and MariaDB cut them. What cannot
// need escaping is written into the statement: half of what a batch costs the server is reading it.
func (s *Store) insert(ctx context.Context, ex mysqlx.ExecQueryer, table, biz string, messages []*Message, id ClaimID, retention time.Duration) error {
	const rowText = 160
	w := insertWriter{biz: biz, claim: hex.EncodeToString(id[:]), retention: retention}
	if len(messages) >= literalTimes {
		now, err := mysqlx.Now(ctx, ex)
		if err != nil {
			return err
		}
		w.now = now
	}
	w.text = append(make([]byte, 0, rowText*(len(messages)+1)), "INSERT INTO "+mysqlx.Quote(table)+" ("+entryColumns+") VALUES "...)
	for i, m := range messages {
		if i > 0 {
			w.text = append(w.text, ',')
		}
		w.row(m)
	}
	_, err := ex.ExecContext(ctx, string(w.text), w.args...)
	return err
}

// insertWriter writes the rows of an INSERT. Only the order_id and the topic may hold any byte.
type insertWriter struct {
	biz       string // of the closed alphabet of ValidateBizType
	claim     string // hexadecimal
	retention time.Duration
	now       time.Time // the server's; zero: it works out the times itself

	text []byte
	args []any
}

func (w *insertWriter) row(m *Message) {
	w.text = append(w.text, '(')
	w.text, w.args = mysqlx.AppendText(w.text, w.args, m.Key.OrderID)
	w.text = append(w.text, ",'"...)
	w.text = append(w.text, w.biz...)
	w.text = append(w.text, "',"...)
	w.times(m.Time.UTC().Truncate(time.Millisecond))
	w.text = append(w.text, ",x'"...)
	w.text = append(w.text, w.claim...)
	w.text = append(w.text, "',"...)
	if len(m.Fingerprint) > 0 {
		w.text = append(w.text, "x'"...)
		w.text = hex.AppendEncode(w.text, m.Fingerprint)
		w.text = append(w.text, "',"...)
	} else {
		w.text = append(w.text, "NULL,"...)
	}
	if m.Source == nil {
		w.text = append(w.text, "NULL,NULL,NULL)"...)
		return
	}
	w.text, w.args = mysqlx.AppendText(w.text, w.args, m.Source.Topic)
	w.text = append(w.text, ',')
	w.text = strconv.AppendInt(w.text, int64(m.Source.Partition), 10)
	w.text = append(w.text, ',')
	w.text = strconv.AppendInt(w.text, m.Source.Offset, 10)
	w.text = append(w.text, ')')
}

// times writes create_time and expire_at.
func (w *insertWriter) times(business time.Time) {
	if w.now.IsZero() {
		w.text = append(w.text, "GREATEST(UTC_TIMESTAMP(3),CAST("...)
		w.text = appendTime(w.text, business)
		w.text = append(w.text, " AS DATETIME(3))),create_time + INTERVAL "...)
		w.text = strconv.AppendInt(w.text, int64(w.retention.Seconds()), 10)
		w.text = append(w.text, " SECOND"...)
		return
	}
	created := w.now
	if business.After(created) {
		created = business
	}
	w.text = appendTime(w.text, created)
	w.text = append(w.text, ',')
	w.text = appendTime(w.text, created.Add(w.retention.Truncate(time.Second)))
}

func appendTime(b []byte, t time.Time) []byte { return t.AppendFormat(b, "'2006-01-02 15:04:05.000'") }
