package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/idemctl/idemctl/internal/doctor"
	"github.com/idemctl/idemctl/internal/doctor/inspect"
	"github.com/idemctl/idemctl/internal/render"
	"github.com/idemctl/idemctl/pkg/replay"
)

// inspectResult is what inspect says.
type inspectResult struct {
	Orders []inspect.Order `json:"orders"`
	// Searched is the range that was looked through, where one was asked for.
	Searched *searchedRange `json:"searched,omitempty"`
}

// searchedRange is what was read of the topic, over all handlers and orders.
type searchedRange struct {
	Topic string `json:"topic"`
	Range string `json:"range"`
	// Complete says that the whole range was read, and nothing of it held back by an open transaction.
	Complete bool `json:"complete"`
	Clipped  bool `json:"clipped,omitempty"`
}

func (r *inspectResult) searched(report *replay.Report, clipped bool) {
	if r.Searched == nil {
		r.Searched = &searchedRange{Topic: report.Topic, Range: report.Range, Complete: true}
	}
	r.Searched.Complete = r.Searched.Complete && report.Complete()
	r.Searched.Clipped = r.Searched.Clipped || clipped
}

func (r *inspectResult) incomplete() bool {
	if r.Searched != nil && !r.Searched.Complete {
		return true
	}
	for i := range r.Orders {
		for j := range r.Orders[i].Keys {
			if r.Orders[i].Keys[j].MarkerError != "" {
				return true
			}
		}
	}
	return false
}

func (r *inspectResult) render(format render.Format) render.Result {
	if format == render.FormatTable {
		var page []string
		for i := range r.Orders {
			if i > 0 {
				page = append(page, "")
			}
			page = append(page, orderPage(&r.Orders[i], r.Searched)...)
		}
		return render.Result{Notes: page}
	}
	t := render.Table{Columns: []render.Column{
		{Name: "order_id"}, {Name: "biz_type"}, {Name: "finding"}, {Name: "marker"}, {Name: "ttl_ms"}, {Name: "table"}, {Name: "create_time"}, {Name: "expire_at"}, {Name: "source"}, {Name: "verdict"},
	}}
	out := render.Result{Value: r, Lines: []any{}}
	for i := range r.Orders {
		o := &r.Orders[i]
		out.Lines = append(out.Lines, o)
		for j := range o.Keys {
			addInspected(&t, o.OrderID, &o.Keys[j])
		}
	}
	out.Tables = []render.Table{t}
	return out
}

// addInspected adds a row for each table that has the key, or one where none has.
func addInspected(t *render.Table, orderID string, k *inspect.Key) {
	marker, ttl := "", ""
	if k.Marker != nil {
		marker, ttl = k.Marker.Value, strconv.FormatInt(k.Marker.TTLMillis, 10)
	}
	rows := k.Rows
	if len(rows) == 0 {
		rows = []inspect.Row{{}}
	}
	for i := range rows {
		r := &rows[i]
		t.Add(orderID, k.BizType, string(k.Finding), marker, ttl, r.Table, machineTime(r.CreateTime), machineTime(r.ExpireAt), r.Source, k.Verdict)
	}
}

func machineTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// inspectHang is the column at which the facts of a page stand.
const inspectHang = 10

// orderPage is one order for people: the verdict of each key, then what it rests on.
func orderPage(o *inspect.Order, searched *searchedRange) []string {
	key := render.Cut(render.Key([]byte(o.OrderID)), render.DefaultWidth-len("order "))
	page := []string{"order " + key}
	if len(o.Keys) == 0 {
		page = append(page, "", "Not found anywhere: no month has a row of it, and no handler is configured whose",
			"marker could be looked up (--biz-type names one).")
	}
	for i := range o.Keys {
		page = append(page, "")
		page = append(page, keyPage(&o.Keys[i], o.Now, searched)...)
	}
	return append(page, runsPage(o.Runs)...)
}

func keyPage(k *inspect.Key, now time.Time, searched *searchedRange) []string {
	page := []string{wrap(render.Text(k.BizType)+": "+render.Text(k.Verdict), render.DefaultWidth)}
	fact := func(head, format string, args ...any) {
		page = append(page, fmt.Sprintf("  %-*s%s", inspectHang-2, head, hang(render.Text(fmt.Sprintf(format, args...)), inspectHang))) //nolint:mnd // the indent
	}
	markerFact(k, fact)
	if len(k.Rows) == 0 {
		fact("row", "none in any month or held table")
	}
	for i := range k.Rows {
		rowFact(&k.Rows[i], now, fact)
	}
	if !k.MemorySince.IsZero() {
		fact("memory", "complete after %s", utcTime(k.MemorySince))
	}
	stateFact(k.State, fact)
	recordFacts(k.Records, searched, fact)
	return page
}

func markerFact(k *inspect.Key, fact func(head, format string, args ...any)) {
	switch m := k.Marker; {
	case k.MarkerError != "":
		fact("marker", "not known: %s", k.MarkerError)
	case m == nil:
		fact("marker", "not looked up: Redis is not configured")
	case m.State == "none":
		fact("marker", "%s", m.Meaning)
		fact("", "%s", render.Key([]byte(m.Name)))
	default:
		left := "without TTL"
		if m.TTLMillis >= 0 {
			left = doctor.Short(time.Duration(m.TTLMillis)*time.Millisecond) + " left"
		}
		fact("marker", "%s, %s: %s", render.Key([]byte(m.Value)), left, m.Meaning)
		fact("", "%s", render.Key([]byte(m.Name)))
	}
}

func rowFact(r *inspect.Row, now time.Time, fact func(head, format string, args ...any)) {
	where := r.Table
	if r.State != "live" {
		where += " (" + string(r.State) + ")"
	}
	if r.Source != "" {
		where += ", by " + r.Source
	}
	fact("row", "%s", where)
	times := "created " + utcTime(r.CreateTime)
	switch {
	case r.ExpireAt.IsZero():
	case r.ExpireAt.After(now):
		times += ", expires " + utcTime(r.ExpireAt)
	default:
		times += ", expired " + utcTime(r.ExpireAt)
	}
	fact("", "%s", times)
	claim := "no claim id: written by another service"
	if r.ClaimID != "" {
		claim = "claim " + r.ClaimID
	}
	if r.Fingerprint != "" {
		claim += ", fingerprint " + r.Fingerprint
	}
	fact("", "%s", claim)
	if r.StoredAs != "" {
		fact("", "stored as %s", render.Key([]byte(r.StoredAs)))
	}
}

func utcTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

func stateFact(s *inspect.State, fact func(head, format string, args ...any)) {
	if s == nil {
		return
	}
	fact("state", "%s since %s", s.State, utcTime(s.UpdatedAt))
	const most = 5
	from := max(0, len(s.History)-most)
	if from > 0 {
		fact("", "(%d transitions before; idemctl state show has them)", from)
	}
	for i := range s.History[from:] {
		c := &s.History[from+i]
		step := c.From + " -> " + c.To
		if c.From == "" {
			step = "begun as " + c.To
		}
		who := c.Who
		if c.Why != "" {
			who += ": " + c.Why
		}
		fact("", "%s %s, %s", utcTime(c.At), step, who)
	}
}

// shownRecords is how many records of a key one screen has room for.
const shownRecords = 10

func recordFacts(records []inspect.Record, searched *searchedRange, fact func(head, format string, args ...any)) {
	if searched == nil {
		return
	}
	fact("topic", "%s, range %s: %s with this key", searched.Topic, searched.Range, count(int64(len(records)), "record"))
	for i := range records {
		if i == shownRecords {
			fact("", "and %d more (-o json has them)", len(records)-shownRecords)
			break
		}
		r := &records[i]
		line := fmt.Sprintf("[%d]@%d %s %s", r.Partition, r.Offset, utcTime(r.Time), r.Outcome)
		if r.By != "" {
			line += " by " + strings.TrimPrefix(r.By, r.Topic)
		} else if r.Reason != "" {
			line += ": " + r.Reason
		}
		fact("", "%s", line)
	}
	if !searched.Complete {
		fact("", "not the whole range could be read")
	}
}

// runsPage lists the runs that may have touched the order, the newest few.
func runsPage(runs []inspect.Run) []string {
	if len(runs) == 0 {
		return nil
	}
	const most = 5
	page := []string{"", "Runs of idemctl that may have touched it (idemctl history has all):"}
	for i := range runs {
		if i == most {
			page = append(page, fmt.Sprintf("  and %d more", len(runs)-most))
			break
		}
		r := &runs[i]
		head := fmt.Sprintf("  %d %s by %s@%s, %s, %s", r.ID, utcTime(r.Started), r.Who, r.Host, r.Result, r.Why)
		page = append(page, render.Cut(render.Text(head), render.DefaultWidth), "    "+render.Cut(render.Text(r.Args), render.DefaultWidth-4)) //nolint:mnd // the indent
	}
	return page
}
