package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/idemctl/idemctl/pkg/replay"
)

const (
	// lookAtEnds is how often a bounded consumer looks whether all of the topic has reached its end.
	lookAtEnds = 300 * time.Millisecond
	// silence is how long a partition must have delivered nothing before its tail is looked at: there may be no record left
	// in it, only transaction markers or what compaction has removed (hazard R1).
	silence = time.Second
	// silenceElsewhere is the same for a partition of another member, which is given the time to say so itself.
	silenceElsewhere = 5 * time.Second
)

// endWatch ends the polls of a bounded consumer once every partition has reached Until, at this member or at another one.
type endWatch struct {
	consumer *Consumer
	ended    map[int32]bool
	quiet    map[int32]quiet
	said     string // the last error, which is not repeated
}

// quiet is where a partition stands, and since when.
type quiet struct {
	at    int64
	since time.Time
}

func newEndWatch(c *Consumer) *endWatch {
	return &endWatch{consumer: c, ended: map[int32]bool{}, quiet: map[int32]quiet{}}
}

func (e *endWatch) run(ctx context.Context) {
	tick := time.NewTicker(lookAtEnds)
	defer tick.Stop()
	for {
		if why := e.look(ctx); why != nil {
			e.consumer.stopped(why)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look returns why the polls are to end: errEnded, ErrBlocked, or nil where they are not.
func (e *endWatch) look(ctx context.Context) error {
	c := e.consumer
	committed, err := c.committed(ctx)
	if err != nil {
		e.warn(ctx, err)
		return nil
	}
	states := map[int32]PartitionState{}
	for _, s := range c.States() {
		states[s.Partition] = s
	}
	all, blocked, going := true, false, false
	for p, until := range c.cfg.Until {
		at, ok := committed[p]
		if !ok {
			at = c.cfg.Starts[p]
		}
		own, mine := states[p]
		if mine {
			at = max(at, own.Next)
		}
		if e.ended[p] = e.ended[p] || at >= until || e.nothingLeft(ctx, p, at, until, own.Waiting > 0, mine); e.ended[p] {
			continue
		}
		all = false
		blocked = blocked || own.Blocked
		going = going || mine && !own.Blocked
	}
	switch {
	case all:
		return errEnded
	case blocked && !going:
		// Whoever is left takes these partitions over, sees the same, and ends in turn.
		return ErrBlocked
	}
	return nil
}

func (e *endWatch) warn(ctx context.Context, err error) {
	if ctx.Err() == nil && err.Error() != e.said {
		e.said = err.Error()
		e.consumer.cfg.Logger.Warn("look whether the range is done", "group", e.consumer.cfg.Group, "error", err)
	}
}

// nothingLeft reports that a partition that stands still has no record left up to its end, and has the others know it.
func (e *endWatch) nothingLeft(ctx context.Context, p int32, at, until int64, waiting, mine bool) bool {
	c := e.consumer
	now, long := c.cfg.Now(), silenceElsewhere
	if mine {
		long = silence
	}
	if q, seen := e.quiet[p]; !seen || q.at != at || waiting || now.Sub(q.since) < long {
		if !seen || q.at != at || waiting {
			e.quiet[p] = quiet{at: at, since: now}
		}
		return false
	}
	e.quiet[p] = quiet{at: at, since: now}
	empty, err := c.nothingLeft(ctx, p, at, until)
	if err == nil && empty && mine {
		err = c.commit(ctx, map[int32]int64{p: until})
	}
	if err != nil {
		e.warn(ctx, err)
		return false
	}
	return empty
}

// committed are the group's offsets of the topic; a partition without one is not in it.
func (c *Consumer) committed(ctx context.Context) (map[int32]int64, error) {
	offsets, err := kadm.NewClient(c.client.kgo).FetchOffsetsForTopics(ctx, c.cfg.Group, c.cfg.Topic)
	switch {
	case errors.Is(err, kerr.GroupIDNotFound): // nobody has joined or committed yet
		return map[int32]int64{}, nil
	case err != nil:
		return nil, fmt.Errorf("offsets of group %s: %w", c.cfg.Group, err)
	}
	at := map[int32]int64{}
	offsets.Each(func(o kadm.OffsetResponse) {
		if o.Err == nil && o.Topic == c.cfg.Topic && o.At >= 0 {
			at[o.Partition] = o.At
		}
	})
	return at, nil
}

// errSomething leaves a read at its first record.
var errSomething = errors.New("there is a record")

// nothingLeft reports that a partition has no record from an offset on up to its end.
func (c *Consumer) nothingLeft(ctx context.Context, partition int32, from, until int64) (bool, error) {
	logs, err := c.client.Resolve(ctx, c.cfg.Topic, []int32{partition}, replay.Range{AllowClipped: true})
	if err != nil {
		return false, err
	}
	if len(logs) == 1 {
		from = max(from, logs[0].Start)
	}
	if from >= until {
		return true, nil
	}
	bounds := []replay.Bounds{{Partition: partition, Start: from, End: until}}
	err = c.client.Read(ctx, c.cfg.Topic, bounds, func(_ context.Context, b replay.Batch) error {
		if len(b.Records) > 0 {
			return errSomething
		}
		return nil
	})
	if errors.Is(err, errSomething) {
		return false, nil
	}
	return err == nil, err
}
