package kafka

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type topicID = [16]byte

// leader is who to ask about a partition.
type leader struct {
	broker int32
	epoch  int32
}

// topicMeta is what the brokers say about one topic.
type topicMeta struct {
	id topicID
	// leaders has every partition; one without a leader has broker -1.
	leaders map[int32]leader
}

// describe asks for a topic without ever creating it. The error is a *replay.TopicError when the topic is unknown.
func (c *Client) describe(ctx context.Context, topic string) (topicMeta, error) {
	deadline := time.Now().Add(unknownFor)
	for {
		meta, err := c.askMetadata(ctx, topic)
		if err == nil || !isUnknownTopic(err) {
			return meta, err
		}
		if !time.Now().Before(deadline) {
			return topicMeta{}, unknownTopic(topic)
		}
		if err := pause(ctx, minMetadataAge); err != nil {
			return topicMeta{}, err
		}
	}
}

func (c *Client) askMetadata(ctx context.Context, topic string) (topicMeta, error) {
	req := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = new(topic)
	req.Topics = append(req.Topics, rt)
	req.AllowAutoTopicCreation = false
	resp, err := req.RequestWith(ctx, c.kgo)
	if err != nil {
		return topicMeta{}, fmt.Errorf("describe topic %s: %w", topic, err)
	}
	if len(resp.Topics) != 1 {
		return topicMeta{}, fmt.Errorf("describe topic %s: the broker answered for %d topics", topic, len(resp.Topics))
	}
	t := resp.Topics[0]
	if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
		return topicMeta{}, fmt.Errorf("describe topic %s: %w", topic, err)
	}
	meta := topicMeta{id: t.TopicID, leaders: make(map[int32]leader, len(t.Partitions))}
	for _, p := range t.Partitions {
		meta.leaders[p.Partition] = leader{broker: p.Leader, epoch: p.LeaderEpoch}
	}
	return meta, nil
}

// leaders is the view that the readers of one topic share: one of them looks the leaders up again, the others see it.
type leaders struct {
	client *Client
	topic  string
	id     topicID // pinned: another id is another topic

	mu   sync.Mutex
	gen  int
	meta topicMeta
}

// openLeaders looks up who leads the partitions. The topic must still be the one that Resolve pinned.
func (c *Client) openLeaders(ctx context.Context, topic string, partitions []int32) (*leaders, error) {
	var meta topicMeta
	err := c.firstContact(ctx, "read "+topic, func(ctx context.Context) error {
		var err error
		meta, err = c.describe(ctx, topic)
		return err
	})
	if err != nil {
		return nil, err
	}
	if id, ok := c.pinnedID(topic); ok && id != meta.id {
		return nil, &RecreatedError{Topic: topic}
	}
	if err := meta.has(topic, partitions); err != nil {
		return nil, err
	}
	return &leaders{client: c, topic: topic, id: meta.id, meta: meta}, nil
}

// of gives a partition's leader and the generation of that knowledge.
func (l *leaders) of(partition int32) (leader, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ld, ok := l.meta.leaders[partition]
	if !ok {
		ld = leader{broker: -1, epoch: -1}
	}
	return ld, l.gen
}

// refresh looks the leaders up again, unless that was done since the generation seen.
func (l *leaders) refresh(ctx context.Context, seen int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gen != seen {
		return nil
	}
	meta, err := l.client.describe(ctx, l.topic)
	if err != nil {
		return err
	}
	if meta.id != l.id {
		return &RecreatedError{Topic: l.topic}
	}
	l.meta = meta
	l.gen++
	return nil
}

// pause waits for d or for ctx.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
