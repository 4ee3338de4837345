package inspect

import (
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/pkg/partition"
)

// Row is a ledger entry, and where it lies.
type Row struct {
	Table   string          `json:"table"`
	Month   string          `json:"month,omitempty"`
	State   partition.State `json:"table_state"` // live, moving or held
	BizType string          `json:"biz_type"`
	// StoredAs is the key as it is stored, where a lax collation found it under another one than was asked for.
	StoredAs    string    `json:"stored_as,omitempty"`
	CreateTime  time.Time `json:"create_time"`
	ExpireAt    time.Time `json:"expire_at,omitzero"`
	ClaimID     string    `json:"claim_id,omitempty"` // hex; empty: written by another service
	Fingerprint string    `json:"fingerprint,omitempty"`
	Source      string    `json:"source,omitempty"` // the record that executed it: topic[partition]@offset
}

// rows reads the order's rows in every table of the ledger, held ones too. A table that is being renamed is under one of
// its names.
func (l *Looker) rows(ctx context.Context, orderID string) ([]Row, error) {
	var all []Row
	for _, t := range l.tables {
		for _, name := range t.Names() {
			found, err := l.rowsIn(ctx, name, orderID)
			if mysqlx.Number(err) == mysqlx.ErrNoSuchTable {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("look into %s: %w", name, err)
			}
			for _, r := range found {
				r.Table, r.State = name, t.State
				if t.Month != 0 {
					r.Month = t.Month.String()
				}
				all = append(all, r)
			}
		}
	}
	return all, nil
}

// anyBizType stands for the one effect of a ledger that has no such column.
const anyBizType = "-"

func (l *Looker) rowsIn(ctx context.Context, table, orderID string) ([]Row, error) {
	c := l.opts.Scheme.Columns()
	biz, expire, own := "NULL", "NULL", "NULL, NULL, NULL, NULL, NULL"
	// A text column is compared as text, or its index would be of no use.
	var key any = orderID
	if c.BizType != "" {
		biz = mysqlx.Quote(c.BizType)
	}
	if c.ExpireAt != "" {
		expire = mysqlx.Quote(c.ExpireAt)
	}
	if !l.opts.Scheme.Legacy() {
		own, key = "claim_id, fingerprint, src_topic, src_partition, src_offset", []byte(orderID)
	}
	query := fmt.Sprintf("SELECT %s, %s, %s, %s, %s FROM %s WHERE %s = ?", //nolint:gosec // quoted identifiers of the configuration
		mysqlx.Quote(c.OrderID), biz, mysqlx.Quote(c.CreateTime), expire, own, mysqlx.Quote(table), mysqlx.Quote(c.OrderID))
	rows, err := l.opts.DB.QueryContext(ctx, query, key)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var found []Row
	for rows.Next() {
		var (
			r                                 Row
			stored, claim, fingerprint, topic []byte
			bizType                           sql.NullString
			create, expires                   sql.NullTime
			part                              sql.NullInt32
			off                               sql.NullInt64
		)
		if err := rows.Scan(&stored, &bizType, &create, &expires, &claim, &fingerprint, &topic, &part, &off); err != nil {
			return nil, err
		}
		r.BizType, r.CreateTime, r.ExpireAt = bizType.String, create.Time, expires.Time
		if c.BizType == "" {
			r.BizType = l.onlyBizType()
		}
		if l.opts.Only != "" && r.BizType != l.opts.Only {
			continue
		}
		if string(stored) != orderID {
			r.StoredAs = string(stored)
		}
		r.ClaimID, r.Fingerprint = hex.EncodeToString(claim), hex.EncodeToString(fingerprint)
		if topic != nil && part.Valid && off.Valid {
			r.Source = position(string(topic), part.Int32, off.Int64)
		}
		found = append(found, r)
	}
	return found, rows.Err()
}

// onlyBizType is whose rows a ledger without such a column has.
func (l *Looker) onlyBizType() string {
	switch {
	case l.opts.Only != "":
		return l.opts.Only
	case len(l.opts.BizTypes) == 1:
		return l.opts.BizTypes[0]
	}
	return anyBizType
}

// touched finds the runs that name the order on their command line, or were at work when one of its rows was written.
func (l *Looker) touched(orderID string, rows []Row) []Run {
	found := []Run{}
	for i := range l.runs {
		e := &l.runs[i]
		why := ""
		for _, r := range rows {
			if !r.CreateTime.Before(e.Started) && (e.Finished.IsZero() && e.Result == "running" || !r.CreateTime.After(e.Finished)) {
				why = "at work when the row was written"
			}
		}
		if names(e.Args, orderID) {
			why = "names the order"
		}
		if why == "" {
			continue
		}
		found = append(found, Run{
			ID: e.ID, Command: e.Command, Args: e.Args, Who: e.Who, Host: e.Host, Started: e.Started, Finished: e.Finished, Result: e.Result, Why: why,
		})
	}
	return found
}

// names reports whether a command line has the order as one of its words. An id with spaces in it is looked for as it is:
// the words were joined by spaces.
func names(args, orderID string) bool {
	if strings.ContainsAny(orderID, " \t\n") {
		return strings.Contains(args, orderID)
	}
	for word := range strings.FieldsSeq(args) {
		if _, value, joined := strings.Cut(word, "="); word == orderID || joined && value == orderID {
			return true
		}
	}
	return false
}
