package purge

import (
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// deletion deletes rows of one biz_type by their keys.
type deletion struct {
	biz     string
	victims []Victim
}

// latest is the latest create_time, which the horizon must know first.
func (d deletion) latest() time.Time {
	var t time.Time
	for i := range d.victims {
		t = later(t, d.victims[i].CreateTime)
	}
	return upToMilli(t)
}

// statement names the rows by key and repeats the condition, narrowed to what was read of them: a row that was refreshed or
// made anew since then is not touched (hazard P5). The key's index is named, since with stale statistics a server may prefer
// to walk the expiry index, and locks what it walks over (hazard P13).
func (s shape) statement(sel Selection, d deletion) (query string, args []any) {
	const idText = 40
	table := mysqlx.Quote(s.table)
	text := make([]byte, 0, idText*(len(d.victims)+16))
	text = append(text, "DELETE "+table+" FROM "+table+" FORCE INDEX ("+mysqlx.Quote(s.deleteIndex)+") WHERE "...)
	if s.columns.BizType != "" {
		text = append(text, mysqlx.Quote(s.columns.BizType)+" = "...)
		text, args = s.appendValue(text, args, s.columns.BizType, d.biz)
		text = append(text, " AND "...)
	}
	text = append(text, mysqlx.Quote(s.columns.OrderID)+" IN ("...)
	first, last := d.victims[0].Expiry, d.victims[0].Expiry
	for i := range d.victims {
		v := &d.victims[i]
		if i > 0 {
			text = append(text, ',')
		}
		text, args = s.appendValue(text, args, s.columns.OrderID, v.OrderID)
		if v.Expiry.Before(first) {
			first = v.Expiry
		}
		last = later(last, v.Expiry)
	}
	sel.From = first.Truncate(time.Millisecond)
	if to := last.Truncate(time.Millisecond).Add(time.Millisecond); to.Before(sel.To) {
		sel.To = to
	}
	if created := d.latest(); created.Before(sel.Cutoff) {
		sel.Cutoff = created
	}
	return string(append(text, ") AND "+sel.Where()...)), args
}
