package replay

import (
	"fmt"
	"time"
)

// Record is one message as the broker keeps it. A nil Key or Value is null (a nil Value is a tombstone), an empty one is
// present and empty.
type Record struct {
	Topic     string
	Partition int32
	Offset    int64
	Timestamp time.Time // UTC
	Key       []byte
	Value     []byte
	Headers   []Header
}

// Header is one of a record's headers; keys may repeat, and order is kept.
type Header struct {
	Key   string
	Value []byte
}

// Position names a record: topic[partition]@offset.
type Position struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
}

// String is topic[partition]@offset.
func (p Position) String() string { return fmt.Sprintf("%s[%d]@%d", p.Topic, p.Partition, p.Offset) }
