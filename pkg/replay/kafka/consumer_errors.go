package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// lookTimeout bounds the questions that make an error's text complete.
const lookTimeout = 5 * time.Second

// fetchError takes what a poll has to say beside records. What goes away by itself is logged: the client tries it again.
func (c *Consumer) fetchError(ctx context.Context, partition int32, err error) {
	group, isGroup := errors.AsType[*kgo.ErrGroupSession](err)
	switch {
	case ctx.Err() != nil || errors.Is(err, context.Canceled):
	case isGroup && passing(group.Err):
		c.cfg.Logger.Warn("the group was lost and is joined again", "group", c.cfg.Group, "error", group.Err)
	case isGroup:
		c.stopped(fmt.Errorf("join group %s: %w%s", c.cfg.Group, group.Err, groupAdvice(group.Err)))
	case errors.Is(err, kerr.OffsetOutOfRange):
		c.stopped(c.offsetGone(ctx, partition))
	case retriable(err):
		c.cfg.Logger.Warn("fetch", "topic", c.cfg.Topic, "partition", partition, "error", err)
	default:
		c.stopped(fmt.Errorf("consume %s[%d]: %w", c.cfg.Topic, partition, err))
	}
}

// passing tells errors of a group session after which the member joins again by itself: its session ended while it was
// stalled or cut off, or the coordinator moved. Any other is one of the set-up.
func passing(err error) bool {
	for _, known := range []error{kerr.UnknownMemberID, kerr.IllegalGeneration, kerr.MemberIDRequired, kerr.StaleMemberEpoch, kerr.RebalanceInProgress} {
		if errors.Is(err, known) {
			return true
		}
	}
	return retriable(err)
}

// groupAdvice says what to do about an error that keeps the member out of its group.
func groupAdvice(err error) string {
	switch {
	case errors.Is(err, kerr.InconsistentGroupProtocol):
		return " (its members are no cooperative consumers: this is another application's group)"
	case errors.Is(err, kerr.FencedInstanceID):
		return " (another process has joined with the same instance id)"
	case errors.Is(err, kerr.InvalidSessionTimeout):
		return " (the brokers bound the session timeout: group.min.session.timeout.ms, group.max.session.timeout.ms)"
	}
	return ""
}

// offsetGone names the offset that is gone and what there is instead.
func (c *Consumer) offsetGone(ctx context.Context, partition int32) error {
	gone := fmt.Errorf("consume %s[%d] as group %s: %w", c.cfg.Topic, partition, c.cfg.Group, ErrOffsetGone)
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	committed, err := c.committed(ctx)
	if err != nil {
		return gone
	}
	at, ok := committed[partition]
	if !ok {
		at, ok = c.cfg.Starts[partition]
	}
	starts, err := c.client.listOffsets(ctx, c.cfg.Topic, []int32{partition}, atStart, readUncommitted)
	if err != nil || !ok {
		return gone
	}
	return fmt.Errorf("%w: it is to go on at %d, and the log begins at %d (see what is missing, then set the group's offset)", gone, at, starts[partition])
}
