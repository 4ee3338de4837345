package purge

import (
	"context"
	"slices"
	"strings"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// columnSet are a table's columns.
type columnSet []ArchiveColumn

// tableColumns are the columns of a table; none: it is not there.
func tableColumns(ctx context.Context, q mysqlx.Queryer, table string) (columnSet, error) {
	var l tableLayout
	err := l.readColumns(ctx, q, table)
	return l.columns, err
}

// ownTableColumns are those of a table that is yet to be made.
func ownTableColumns() columnSet {
	var set columnSet
	for _, name := range []string{"order_id", "biz_type", "create_time", "expire_at"} {
		set = append(set, ArchiveColumn{Name: name})
	}
	for _, name := range identityColumns() {
		if !set.has(name) {
			set = append(set, ArchiveColumn{Name: name})
		}
	}
	return set
}

func (s columnSet) has(name string) bool {
	return slices.ContainsFunc(s, func(c ArchiveColumn) bool { return strings.EqualFold(c.Name, name) && !c.Computed })
}

// identityColumns are what two rows of one key must share to be the same entry. The expiry is not among them: it says how
// long the entry is kept, not what happened.
func identityColumns() []string {
	return []string{"create_time", "claim_id", "fingerprint", "src_topic", "src_partition", "src_offset"}
}
