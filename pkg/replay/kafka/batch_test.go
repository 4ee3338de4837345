package kafka_test

import (
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// oneBatch is a well-formed batch of offsets 0 and 1 that kept one record, as a broker sends it.
func oneBatch() []byte {
	rec := kmsg.Record{Key: nil, Value: []byte("a")}
	rec.Length = int32(len(rec.AppendTo(nil)) - 1)
	batch := kmsg.RecordBatch{
		Magic:           2,
		ProducerID:      -1,
		ProducerEpoch:   -1,
		FirstSequence:   -1,
		LastOffsetDelta: 1,
		NumRecords:      1,
		Records:         rec.AppendTo(nil),
	}
	raw := batch.AppendTo(nil)
	batch.Length = int32(len(raw) - 12)
	batch.CRC = int32(crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return batch.AppendTo(nil)
}
