package partition

// Columns are the names of the columns that a purge or a look-up needs. BizType and ExpireAt may be empty in a ledger made
// by someone else: it has no such column.
type Columns struct {
	OrderID, BizType, CreateTime, ExpireAt string
}

// OwnColumns are those of the tables that Manager makes.
func OwnColumns() Columns {
	return Columns{OrderID: "order_id", BizType: "biz_type", CreateTime: "create_time", ExpireAt: "expire_at"}
}
