package purge

import "time"

// Victim is a row that is to go, by its key and by what the condition reads of it. Times are UTC. In a ledger without a
// biz_type column BizType is empty; without an expiry column Expiry is create_time plus the retention.
type Victim struct {
	OrderID, BizType   string
	CreateTime, Expiry time.Time
}
