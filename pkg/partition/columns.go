package partition

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// Columns are the names of the columns that a purge or a look-up needs. BizType and ExpireAt may be empty in a ledger made
// by someone else: it has no such column.
type Columns struct {
	OrderID, BizType, CreateTime, ExpireAt string
}

// OwnColumns are those of the tables that Manager makes.
func OwnColumns() Columns {
	return Columns{OrderID: "order_id", BizType: "biz_type", CreateTime: "create_time", ExpireAt: "expire_at"}
}

// Names are the columns that there are, in the order of the struct.
func (c Columns) Names() []string {
	var names []string
	for _, n := range []string{c.OrderID, c.BizType, c.CreateTime, c.ExpireAt} {
		if n != "" {
			names = append(names, n)
		}
	}
	return names
}

// columnForm is what MySQL and MariaDB take as an identifier in ASCII, of up to 64 characters.
var columnForm = regexp.MustCompile(`^[A-Za-z0-9_$]+$`)

// validate refuses names that are no plain identifiers, and one name for two columns.
func (c Columns) validate() error {
	used := map[string]string{}
	for _, col := range []struct{ role, name string }{
		{"order_id", c.OrderID}, {"biz_type", c.BizType}, {"create_time", c.CreateTime}, {"expire_at", c.ExpireAt},
	} {
		if col.name == "" {
			continue
		}
		if len(col.name) > 64 || !columnForm.MatchString(col.name) {
			return fmt.Errorf("column %s: name %q: expected 1 to 64 of A-Z a-z 0-9 _ $", col.role, col.name)
		}
		if other, taken := used[foldName(col.name)]; taken {
			return fmt.Errorf("column %s: name %q is also that of %s", col.role, col.name, other)
		}
		used[foldName(col.name)] = col.role
	}
	return nil
}

// Select reads the columns of the map from a table, in the order of Names. A condition may follow it.
func (c Columns) Select(table string) string {
	quoted := c.Names()
	for i, name := range quoted {
		quoted[i] = mysqlx.Quote(name)
	}
	return "SELECT " + strings.Join(quoted, ", ") + " FROM " + mysqlx.Quote(table)
}
