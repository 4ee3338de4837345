// Package kafka reads a pinned range of a Kafka topic, and consumes a topic as a member of a group.
//
// Client implements replay.Source. It owns the connection to the brokers, the snapshot of a partition's ends, and the reading
// up to that snapshot. It joins no consumer group and commits no offset, so a live group on the same topic does not notice it,
// and it never creates a topic.
//
// The reader issues its own Fetch requests, one partition and one position at a time, and never asks past the end that was
// pinned. Every position is therefore settled by an answer of the partition's leader: records, offsets that hold none
// (transaction markers, aborted transactions, what compaction took), or an error. Nothing is concluded from silence, from a
// number of empty polls or from a time that went by, and a position that the log no longer has is an error, never a reset.
//
// Consumer is the other way in: one member of a group, with a worker for each partition. Records go through a Passage (a
// replay.Gate), and an offset is committed when its record and all before it have passed, never sooner. Partitions move to
// other members between two batches. DeadLetters writes what is parked, and is acknowledged before the offset passes.
//
// Callers own the range (replay.Range), what to do with records, and the Config with its secrets.
package kafka
