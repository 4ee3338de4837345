package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// GroupView is what a group is doing, and how far it has come.
type GroupView struct {
	// Members counts the processes that have joined.
	Members int
	// Topics are what the members subscribe to, sorted, as far as they have said so: while a group rebalances they have not.
	Topics []string
	// Committed are the group's offsets by topic and partition.
	Committed map[string]map[int32]int64
}

// Exists reports that somebody uses the group, or has.
func (v *GroupView) Exists() bool { return v.Members > 0 || len(v.Committed) > 0 }

// ViewGroup looks at a group without joining it. One that does not exist has neither members nor offsets. The error is an
// *UnreachableError when no broker answered. The user needs DESCRIBE on the group.
func (c *Client) ViewGroup(ctx context.Context, group string) (GroupView, error) {
	op := "look at group " + group
	view := GroupView{Committed: map[string]map[int32]int64{}}
	err := c.firstContact(ctx, op, func(ctx context.Context) error {
		admin := kadm.NewClient(c.kgo)
		committed, err := committedBy(ctx, admin, group)
		if err != nil {
			return fmt.Errorf("%s: %w", op, err)
		}
		committed.Each(func(o kadm.OffsetResponse) {
			if o.At < 0 {
				return
			}
			if view.Committed[o.Topic] == nil {
				view.Committed[o.Topic] = map[int32]int64{}
			}
			view.Committed[o.Topic][o.Partition] = o.At
		})
		if err := whileSettling(ctx, func() error { return view.see(ctx, admin, group) }); err != nil {
			return fmt.Errorf("%s: %w", op, err)
		}
		return nil
	})
	return view, err
}

// see counts the members and their topics. From Kafka 4 on a group that is not there has an error of its own, and groups of
// the newer protocol have another request.
func (v *GroupView) see(ctx context.Context, admin *kadm.Client, group string) error {
	described, err := admin.DescribeGroups(ctx, group)
	if err != nil {
		return err
	}
	g := described[group]
	switch {
	case errors.Is(g.Err, kerr.GroupIDNotFound):
		return v.seeNew(ctx, admin, group)
	case g.Err != nil:
		return g.Err
	}
	v.Members = len(g.Members)
	for i := range g.Members {
		if meta, ok := g.Members[i].Join.AsConsumer(); ok {
			v.Topics = append(v.Topics, meta.Topics...)
		}
	}
	slices.Sort(v.Topics)
	v.Topics = slices.Compact(v.Topics)
	return nil
}

func (v *GroupView) seeNew(ctx context.Context, admin *kadm.Client, group string) error {
	described, err := admin.DescribeConsumerGroups(ctx, group)
	if err != nil {
		return nil //nolint:nilerr // a cluster without that protocol has no such group
	}
	g := described[group]
	if g.Err != nil && !errors.Is(g.Err, kerr.GroupIDNotFound) && !errors.Is(g.Err, kerr.UnsupportedVersion) {
		return g.Err
	}
	v.Members = len(g.Members)
	for i := range g.Members {
		v.Topics = append(v.Topics, g.Members[i].SubscribedTopics...)
	}
	slices.Sort(v.Topics)
	v.Topics = slices.Compact(v.Topics)
	return nil
}
