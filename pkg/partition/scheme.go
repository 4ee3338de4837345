package partition

import (
	"fmt"
	"regexp"
	"strings"
)

// ControlTable holds the catalog, one row per table prefix.
const ControlTable = "t_idempotent_control"

var prefixForm = regexp.MustCompile(`^[A-Za-z0-9_]+$`)

// Scheme maps months to table names, and says what the columns are called.
type Scheme struct {
	prefix  string
	columns Columns // zero: our own
}

// NewScheme takes a table prefix: letters, digits and underscores, at most 40, so that every name made from it is an
// identifier that needs no quoting rules of its own and stays within MySQL's 64 characters.
func NewScheme(prefix string) (Scheme, error) {
	if len(prefix) > 40 || !prefixForm.MatchString(prefix) {
		return Scheme{}, fmt.Errorf("table prefix %q: expected 1 to 40 of A-Z a-z 0-9 _", prefix)
	}
	return Scheme{prefix: prefix}, nil
}

// WithColumns is the scheme of a ledger made by someone else, whose columns are named by c. OrderID and CreateTime, which
// every ledger has, default to their usual names; BizType and ExpireAt that are empty are not there.
func (s Scheme) WithColumns(c Columns) (Scheme, error) {
	own := OwnColumns()
	if c.OrderID == "" {
		c.OrderID = own.OrderID
	}
	if c.CreateTime == "" {
		c.CreateTime = own.CreateTime
	}
	if err := c.validate(); err != nil {
		return s, err
	}
	s.columns = c
	return s, nil
}

// Columns are the names of the columns.
func (s Scheme) Columns() Columns {
	if !s.Legacy() {
		return OwnColumns()
	}
	return s.columns
}

// Legacy reports a ledger made by someone else (WithColumns): its tables are found by name, it need not have a catalog, and
// no guard works on it.
func (s Scheme) Legacy() bool { return s.columns != Columns{} }

// foldName makes two names of one column equal: servers compare column names without case.
func foldName(name string) string { return strings.ToLower(name) }

// Prefix is the table prefix; it also names the catalog's row.
func (s Scheme) Prefix() string { return s.prefix }

// Table is the name of a month's table.
func (s Scheme) Table(m Month) string { return s.prefix + "_" + m.Digits() }

// Month returns the month that a table name stands for. Look-alikes (…_202604_bak, …_202613) are nobody's month (hazard P4).
func (s Scheme) Month(table string) (Month, bool) {
	digits, ok := strings.CutPrefix(table, s.prefix+"_")
	if !ok || len(digits) != 6 {
		return 0, false
	}
	m, err := ParseMonth(digits)
	return m, err == nil
}
