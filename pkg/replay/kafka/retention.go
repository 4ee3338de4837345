package kafka

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// The settings of a topic that say how long it keeps its records.
const (
	configRetention = "retention.ms"
	configCleanup   = "cleanup.policy"
)

// TopicRetention is how far back a topic can be replayed.
type TopicRetention struct {
	// Retention is the topic's retention.ms. A broker removes whole segments, so records stay longer than this.
	Retention time.Duration
	// Unlimited: no record is ever removed for its age (retention.ms=-1, or a cleanup.policy without delete).
	Unlimited bool
	// OldestRecord is the timestamp of the first record that is there, the oldest of all partitions, UTC; zero: there is none.
	OldestRecord time.Time
}

// Reach is how long before now a record may lie that can still be replayed: the retention, or the age of the oldest record
// where that is more. It has no meaning for an Unlimited topic.
func (r TopicRetention) Reach(now time.Time) time.Duration {
	if r.OldestRecord.IsZero() {
		return r.Retention
	}
	return max(r.Retention, now.Sub(r.OldestRecord))
}

// Retention asks the brokers how long a topic keeps its records, within the connect timeout. The error is a
// *replay.TopicError for a topic that the cluster does not have, an *UnreachableError when no broker answered. The user
// needs DESCRIBE and DESCRIBE_CONFIGS on the topic.
func (c *Client) Retention(ctx context.Context, topic string) (TopicRetention, error) {
	var out TopicRetention
	op := "read the retention of " + topic
	err := c.firstContact(ctx, op, func(ctx context.Context) error {
		if _, err := c.describe(ctx, topic); err != nil {
			return err
		}
		admin := kadm.NewClient(c.kgo)
		configs, err := admin.DescribeTopicConfigs(ctx, topic)
		if err != nil {
			return fmt.Errorf("%s: %w", op, err)
		}
		if out, err = configuredRetention(configs); err != nil {
			return fmt.Errorf("%s: %w", op, err)
		}
		// The first record of each partition that has a time at all.
		first, err := admin.ListOffsetsAfterMilli(ctx, 0, topic)
		if err == nil {
			err = first.Error()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", op, err)
		}
		first.Each(func(o kadm.ListedOffset) {
			if t := time.UnixMilli(o.Timestamp).UTC(); o.Timestamp >= 0 && (out.OldestRecord.IsZero() || t.Before(out.OldestRecord)) {
				out.OldestRecord = t
			}
		})
		return nil
	})
	if err != nil {
		return TopicRetention{}, err
	}
	return out, nil
}

// configuredRetention reads the settings that brokers give for every topic, changed or not.
func configuredRetention(configs kadm.ResourceConfigs) (TopicRetention, error) {
	var r TopicRetention
	if len(configs) != 1 {
		return r, fmt.Errorf("the broker answered for %d topics", len(configs))
	}
	if err := configs[0].Err; err != nil {
		return r, err //nolint:wrapcheck // the caller says what was asked
	}
	values := map[string]string{}
	for _, c := range configs[0].Configs {
		values[c.Key] = c.MaybeValue()
	}
	ms, err := strconv.ParseInt(values[configRetention], 10, 64)
	if err != nil {
		return r, fmt.Errorf("%s is %q", configRetention, values[configRetention])
	}
	policies := strings.Split(strings.ReplaceAll(values[configCleanup], " ", ""), ",")
	const forever = int64(1<<63-1) / int64(time.Millisecond) // what does not fit a Duration is no limit either
	if ms < 0 || ms > forever || !slices.Contains(policies, "delete") {
		r.Unlimited = true
		return r, nil
	}
	r.Retention = time.Duration(ms) * time.Millisecond
	return r, nil
}
