package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/idemctl/idemctl/pkg/replay"
	"github.com/idemctl/idemctl/pkg/replay/kafka"
)

// Topics is what the checks ask of Kafka; *kafka.Client answers it.
type Topics interface {
	// Retention is how far back a topic can be replayed.
	Retention(ctx context.Context, topic string) (kafka.TopicRetention, error)
	// GroupLag is how far a group has come; kafka.ErrNoGroup where it has committed nothing.
	GroupLag(ctx context.Context, group string, topics ...string) ([]kafka.GroupLag, error)
	// NewestRecord is the latest timestamp of a topic, and whether the brokers wrote it.
	NewestRecord(ctx context.Context, topic string) (newest time.Time, byBroker bool, err error)
}

var _ Topics = (*kafka.Client)(nil)

// topics are those of the handlers.
func (s *Setup) topics() []string {
	var all []string
	for _, h := range s.Handlers {
		all = append(all, h.Topic)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// checkTopicRetention holds the ledger's retention against what can still be replayed (hazard P16).
func checkTopicRetention(ctx context.Context, f *Facts) (Result, error) {
	topics := f.topics()
	if len(topics) == 0 {
		return skipped("no handler is configured"), nil
	}
	now := f.Now()
	var bad []Result
	var longest time.Duration
	var errs []error
	for _, topic := range topics {
		r, err := f.Kafka.Retention(ctx, topic)
		if _, missing := errors.AsType[*replay.TopicError](err); missing {
			bad = append(bad, finding(Fail, err.Error(), "Its handler gets no orders at all.", "correct handlers.NAME.topic, or make the topic"))
			continue
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		longest = max(longest, r.Reach(now))
		if res, found := judgeRetention(topic, r, f.Retention, now); found {
			bad = append(bad, res)
		}
	}
	if len(errs) > 0 {
		return Result{}, errors.Join(errs...)
	}
	return merge(ok("ledger.retention %s; %s can be replayed %s back at most", Short(f.Retention), count(len(topics), "topic"), Short(longest)), bad), nil
}

func judgeRetention(topic string, r kafka.TopicRetention, retention time.Duration, now time.Time) (Result, bool) {
	const why = "A replay, or a group that is set back, meets orders whose rows are gone: without a business time they run again, with one they are refused."
	age := ""
	if !r.OldestRecord.IsZero() {
		age = ", oldest record " + Short(now.Sub(r.OldestRecord).Round(time.Minute)) + " old"
	}
	longer := fmt.Sprintf("set ledger.retention above it before the next purge, or %s's retention.ms below it", topic)
	switch {
	case r.Unlimited && !r.OldestRecord.IsZero() && now.Sub(r.OldestRecord) > retention:
		return finding(Fail, fmt.Sprintf("%s keeps records for ever%s; ledger.retention %s", topic, age, Short(retention)), why, longer), true
	case r.Unlimited:
		return finding(Warn, fmt.Sprintf("%s keeps records for ever%s; ledger.retention %s", topic, age, Short(retention)), why, longer), true
	case r.Retention > retention:
		return finding(Fail, fmt.Sprintf("%s: retention.ms is %s%s; ledger.retention %s", topic, Short(r.Retention), age, Short(retention)), why, longer), true
	case r.Reach(now) > retention:
		return finding(Fail, fmt.Sprintf("%s: retention.ms is %s, but there are older records%s; ledger.retention %s", topic, Short(r.Retention), age, Short(retention)), why, longer), true
	}
	return Result{}, false
}

// checkGroup holds the age of what a group has not read yet against what will remove it.
func checkGroup(ctx context.Context, f *Facts) (Result, error) {
	topics := f.topics()
	switch {
	case f.Group == "":
		return skipped("no group was named (--group)"), nil
	case len(topics) == 0:
		return skipped("no handler is configured"), nil
	}
	lags, err := f.Kafka.GroupLag(ctx, f.Group, topics...)
	if errors.Is(err, kafka.ErrNoGroup) {
		return finding(Fail, fmt.Sprintf("group %s has committed nothing for %s", f.Group, list(topics)),
			"Nobody works on these orders; or the name is wrong and the lag of the true group is not known.", "correct --group, or start the consumer"), nil
	}
	if err != nil {
		return Result{}, err
	}
	now := f.Now()
	reach := map[string]kafka.TopicRetention{}
	var bad []Result
	var behind int64
	var oldest time.Duration
	for _, g := range lags {
		r, known := reach[g.Topic]
		if !known {
			if r, err = f.Kafka.Retention(ctx, g.Topic); err != nil {
				return Result{}, err
			}
			reach[g.Topic] = r
		}
		behind += g.Lag()
		if !g.Oldest.IsZero() {
			oldest = max(oldest, now.Sub(g.Oldest))
		}
		bad = append(bad, judgeLag(g, r, f.Retention, now)...)
	}
	return merge(ok("%s is %s behind, the oldest %s old", f.Group, count(int(behind), "record"), Short(oldest.Round(time.Second))), bad), nil
}

func judgeLag(g kafka.GroupLag, r kafka.TopicRetention, retention time.Duration, now time.Time) []Result {
	at := fmt.Sprintf("%s[%d]", g.Topic, g.Partition)
	var bad []Result
	if lost := g.Lost(); lost > 0 {
		bad = append(bad, finding(Fail, fmt.Sprintf("%s: %d records were removed unread (committed %d, log starts at %d)", at, lost, g.Committed, g.LogStart),
			"These orders are lost to this consumer: nobody will deliver them again.", "have upstream publish them again; the guard absorbs what was done"))
	}
	if g.Committed < 0 && g.Lag() > 0 {
		bad = append(bad, finding(Warn, fmt.Sprintf("%s: nothing committed, %d records there", at, g.Lag()),
			"A consumer that starts without a committed offset begins where its own setting says: at the end, it passes these orders over.", "look at who reads this partition, and at auto.offset.reset"))
		return bad
	}
	if g.Oldest.IsZero() {
		return bad
	}
	age, bound, name := now.Sub(g.Oldest), retention, "ledger.retention"
	if !r.Unlimited && r.Retention < bound {
		bound, name = r.Retention, "retention.ms"
	}
	const late, last = 50, 90 // percent of the time there is
	used := int64(100 * age.Seconds() / bound.Seconds())
	if used < late {
		return bad
	}
	status := Warn
	if used >= last {
		status = Fail
	}
	why := "Records are removed before they are read: those orders are lost."
	if name == "ledger.retention" {
		why = "Orders that were done long ago, and their rows purged, are met again by a consumer this far behind."
	}
	return append(bad, finding(status, fmt.Sprintf("%s: %d records behind, the oldest %s old: %d%% of %s (%s)", at, g.Lag(), Short(age.Round(time.Minute)), used, name, Short(bound)),
		why, "add consumers, or raise the topic's retention.ms until the lag is gone"))
}

func list(names []string) string {
	const most = 3
	if len(names) > most {
		return fmt.Sprintf("%d topics", len(names))
	}
	return strings.Join(names, ", ")
}
