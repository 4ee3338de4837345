package purge

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// ConflictKey is a business key of any bytes.
type ConflictKey struct{ BizType, OrderID string }

// MarshalJSON writes bytes that are not UTF-8 in base64, under a name with _b64 added.
func (k ConflictKey) MarshalJSON() ([]byte, error) {
	out := map[string]string{}
	for name, v := range map[string]string{"biz_type": k.BizType, "order_id": k.OrderID} {
		if utf8.ValidString(v) {
			out[name] = v
		} else {
			out[name+"_b64"] = base64.StdEncoding.EncodeToString([]byte(v))
		}
	}
	return json.Marshal(out)
}

// restoreRow is one row of an archive, ready to be written.
type restoreRow struct {
	key      ConflictKey
	identity string // see identityOf
	args     []any  // in the order of insertColumns
	size     int    // about, in bytes
}

// insertColumns are the columns that a restored row is written with: those that the archive and the table both have.
type insertColumns struct {
	list     string // (`order_id`, …)
	from     []int  // places in the archive's lines; -1: the new expiry
	kinds    []valueKind
	expiry   string
	identity []int // places of identityColumns in the archive's lines; -1: it has none
}

func newInsertColumns(archived []ArchiveColumn, table columnSet, expiry time.Time) insertColumns {
	c := insertColumns{expiry: expiry.UTC().Format("2006-01-02 15:04:05.000")}
	var names []string
	for i, a := range archived {
		switch {
		case a.Computed || !table.has(a.Name):
			continue
		case strings.EqualFold(a.Name, "expire_at"):
			c.from = append(c.from, -1)
		default:
			c.from = append(c.from, i)
		}
		names = append(names, mysqlx.Quote(a.Name))
		c.kinds = append(c.kinds, kindOf(a.Type))
	}
	c.list = "(" + strings.Join(names, ", ") + ")"
	for _, name := range identityColumns() {
		c.identity = append(c.identity, slices.IndexFunc(archived, func(a ArchiveColumn) bool { return strings.EqualFold(a.Name, name) }))
	}
	return c
}

// row copies what the reader lends.
func (c *insertColumns) row(values []lineValue, keys keyColumns) restoreRow {
	r := restoreRow{
		key:  ConflictKey{BizType: string(values[keys.biz].bytes), OrderID: string(values[keys.order].bytes)},
		args: make([]any, len(c.from)),
	}
	for i, at := range c.from {
		if at < 0 {
			r.args[i] = c.expiry
			continue
		}
		v := values[at]
		switch {
		case v.null:
		case c.kinds[i] == kindBytes || c.kinds[i] == kindHex:
			r.args[i] = bytes.Clone(v.bytes)
		default:
			r.args[i] = string(v.bytes)
		}
		r.size += len(v.bytes)
	}
	identity := make([][]byte, len(c.identity))
	for i, at := range c.identity {
		if at >= 0 && !values[at].null {
			identity[i] = values[at].bytes
			if identity[i] == nil {
				identity[i] = []byte{}
			}
		}
	}
	r.identity = identityOf(identity)
	return r
}

// identityOf makes one comparable value of what two entries must share; nil is NULL, and not an empty value.
func identityOf(values [][]byte) string {
	var b []byte
	for _, v := range values {
		if v == nil {
			b = append(b, "-;"...)
			continue
		}
		b = append(b, '+')
		b = append(base64.StdEncoding.AppendEncode(b, v), ';')
	}
	return string(b)
}
