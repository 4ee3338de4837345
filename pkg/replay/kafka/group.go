package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// ErrNoGroup says that a group has committed nothing for the topics asked about: it does not exist, or never got that far.
var ErrNoGroup = errors.New("the group has no committed offset")

// GroupLag is how far a group has come in one partition.
type GroupLag struct {
	Topic     string
	Partition int32
	// Committed is the offset that the group goes on from; -1: it has committed none here.
	Committed int64
	// LogStart and End are the log's ends. Records from Committed up to LogStart were removed before the group read them.
	LogStart, End int64
	// Oldest is the timestamp of the first record that the group has still to read, UTC; zero: there is none.
	Oldest time.Time
}

// Lag is how many offsets are still to be read.
func (g GroupLag) Lag() int64 { return max(0, g.End-max(g.Committed, g.LogStart)) }

// Lost is how many offsets were removed before the group had read them.
func (g GroupLag) Lost() int64 {
	if g.Committed < 0 {
		return 0
	}
	return max(0, g.LogStart-g.Committed)
}

// GroupLag looks up what a group has committed in topics, without joining it, and reads the one record that it goes on from
// in each partition. Partitions come by topic and number. The error is ErrNoGroup where nothing is committed at all, an
// *UnreachableError when no broker answered. The user needs DESCRIBE on the group and READ on the topics.
func (c *Client) GroupLag(ctx context.Context, group string, topics ...string) ([]GroupLag, error) {
	op := "look at group " + group
	var lags []GroupLag
	err := c.firstContact(ctx, op, func(ctx context.Context) error {
		admin := kadm.NewClient(c.kgo)
		committed, err := committedBy(ctx, admin, group)
		if err != nil {
			return fmt.Errorf("%s: %w", op, err)
		}
		lags, err = groupLags(ctx, admin, committed, topics)
		if err != nil {
			return fmt.Errorf("%s: %w", op, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(lags, func(g GroupLag) bool { return g.Committed >= 0 }) {
		return nil, fmt.Errorf("%s: %w", op, ErrNoGroup)
	}
	for i := range lags {
		if lags[i].Oldest, err = c.timeAt(ctx, lags[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", op, err)
		}
	}
	return lags, nil
}

// committedBy asks for what a group has committed; nothing where there is no such group.
func committedBy(ctx context.Context, admin *kadm.Client, group string) (committed kadm.OffsetResponses, err error) {
	err = whileSettling(ctx, func() error {
		committed, err = admin.FetchOffsets(ctx, group)
		if err == nil {
			err = committed.Error()
		}
		if errors.Is(err, kerr.GroupIDNotFound) { // from Kafka 4 on: a group that is not there has committed nothing
			committed, err = nil, nil
		}
		return err
	})
	return committed, err
}

// whileSettling asks again while the cluster says that asking again can help. One in which no group has ever committed makes
// the place for it at the first question, and has no coordinator for that long.
func whileSettling(ctx context.Context, ask func() error) error {
	for {
		err := ask()
		if err == nil || !kerr.IsRetriable(err) {
			return err
		}
		if perr := pause(ctx, minMetadataAge); perr != nil {
			return err
		}
	}
}

func groupLags(ctx context.Context, admin *kadm.Client, committed kadm.OffsetResponses, topics []string) ([]GroupLag, error) {
	starts, err := admin.ListStartOffsets(ctx, topics...)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list the starts: %w", err)
	}
	ends, err := admin.ListEndOffsets(ctx, topics...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list the ends: %w", err)
	}
	var lags []GroupLag
	ends.Each(func(end kadm.ListedOffset) {
		lag := GroupLag{Topic: end.Topic, Partition: end.Partition, Committed: -1, End: end.Offset}
		if start, ok := starts.Lookup(end.Topic, end.Partition); ok {
			lag.LogStart = min(start.Offset, end.Offset) // records may be removed between the two questions
		}
		if at, ok := committed.Lookup(end.Topic, end.Partition); ok {
			lag.Committed = at.At
		}
		lags = append(lags, lag)
	})
	slices.SortFunc(lags, func(a, b GroupLag) int {
		if a.Topic != b.Topic {
			return strings.Compare(a.Topic, b.Topic)
		}
		return int(a.Partition - b.Partition)
	})
	return lags, nil
}

// timeAt reads the first record that is still to be read. Offsets without a record (markers of transactions, what compaction
// left out) are passed over.
func (c *Client) timeAt(ctx context.Context, g GroupLag) (time.Time, error) {
	if g.Lag() == 0 {
		return time.Time{}, nil
	}
	ls, err := c.openLeaders(ctx, g.Topic, []int32{g.Partition})
	if err != nil {
		return time.Time{}, err
	}
	f := &fetcher{
		client: c, leaders: ls, topic: g.Topic, partition: g.Partition, end: g.End, maxBytes: minPartitionBytes, decompr: kgo.DefaultDecompressor(),
	}
	for pos := max(g.Committed, g.LogStart); pos < g.End; {
		records, next, err := f.fetch(ctx, pos)
		if lost, ok := errors.AsType[*LostError](err); ok && lost.LogStart > pos {
			pos = lost.LogStart // removed just now
			continue
		}
		if err != nil {
			return time.Time{}, err
		}
		if len(records) > 0 {
			return records[0].Timestamp.UTC(), nil
		}
		pos = next
	}
	return time.Time{}, nil
}

// NewestRecord is the latest timestamp of any record of a topic, UTC; zero where there is none. byBroker says that the
// brokers wrote it (message.timestamp.type=LogAppendTime), else the producers did. It needs Kafka 3.0.
func (c *Client) NewestRecord(ctx context.Context, topic string) (newest time.Time, byBroker bool, err error) {
	op := "read the newest time of " + topic
	err = c.firstContact(ctx, op, func(ctx context.Context) error {
		if _, err := c.describe(ctx, topic); err != nil {
			return err
		}
		admin := kadm.NewClient(c.kgo)
		configs, err := admin.DescribeTopicConfigs(ctx, topic)
		if err != nil {
			return fmt.Errorf("%s: %w", op, err)
		}
		for _, rc := range configs {
			for _, kv := range rc.Configs {
				byBroker = byBroker || kv.Key == "message.timestamp.type" && kv.MaybeValue() == "LogAppendTime"
			}
		}
		last, err := admin.ListMaxTimestampOffsets(ctx, topic)
		if err == nil {
			err = last.Error()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", op, err)
		}
		last.Each(func(o kadm.ListedOffset) {
			if t := time.UnixMilli(o.Timestamp).UTC(); o.Timestamp >= 0 && t.After(newest) {
				newest = t
			}
		})
		return nil
	})
	if err != nil {
		return time.Time{}, false, err
	}
	return newest, byBroker, nil
}
