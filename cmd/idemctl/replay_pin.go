package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/internal/runlog"
	"github.com/idemctl/idemctl/pkg/replay"
	"github.com/idemctl/idemctl/pkg/replay/kafka"
)

// rangePin is a range with its ends, as the first process of a group found them. It stands in the run table: the others, and
// those that come when the first is long dead, take the same ends.
type rangePin struct {
	Group      string          `json:"group"`
	Topic      string          `json:"topic"`
	Range      string          `json:"range"` // as it was typed
	Partitions []int32         `json:"only_partitions,omitempty"`
	BizType    string          `json:"biz_type"`
	Bounds     []replay.Bounds `json:"bounds,omitempty"`

	pinned time.Time
}

const (
	// pinCommand is the command that a pin has in the run table, where only runs stand else; pinResult its result.
	pinCommand = "replay pin"
	pinResult  = "pinned"
	// pinWait is how long a process waits for another one that is pinning.
	pinWait = 30 * time.Second
)

// same reports that two processes mean the same work.
func (p *rangePin) same(o *rangePin) bool {
	return p.Topic == o.Topic && p.Range == o.Range && p.BizType == o.BizType && slices.Equal(p.Partitions, o.Partitions)
}

// what a pin is of, in words.
func (p *rangePin) what() string {
	s := fmt.Sprintf("range %s of %s (%s)", p.Range, p.Topic, p.BizType)
	if len(p.Partitions) > 0 {
		s += fmt.Sprintf(", partitions %v", p.Partitions)
	}
	return s
}

// rangePins finds and makes pins.
type rangePins struct {
	app    *app
	client *kafka.Client
}

// take returns the pin of a group, made now by the first process that asks, and what the group has committed. One process at a
// time does so: two that start together must not pin two ends. A group that is not ours is refused (hazard R6).
func (p *rangePins) take(ctx context.Context, wanted rangePin, r replay.Range) (pin *rangePin, committed map[int32]int64, err error) {
	db, err := p.app.DB(ctx)
	if err != nil {
		return nil, nil, err
	}
	schema, err := mysqlx.Schema(ctx, db)
	if err != nil {
		return nil, nil, fmt.Errorf("pin the range: %w", err)
	}
	lock, err := mysqlx.Acquire(ctx, db, mysqlx.LockName("replay", schema, p.app.config.Ledger.TablePrefix+"/"+wanted.Group), pinWait)
	if err != nil {
		return nil, nil, fmt.Errorf("pin the range: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Release(ctx)) }()
	log := runlog.New(db)
	pin, err = p.find(ctx, log, wanted.Group)
	switch {
	case errors.Is(err, runlog.ErrNoTable):
		return nil, nil, errors.New("the run table, where the range is pinned, is missing (idemctl partition create --execute makes it)")
	case err != nil:
		return nil, nil, fmt.Errorf("pin the range: %w", err)
	case pin != nil && !pin.same(&wanted):
		return nil, nil, usageErrorf("group %s replays %s, not %s: use another --group", wanted.Group, pin.what(), wanted.what())
	}
	view, err := p.client.ViewGroup(ctx, wanted.Group)
	if err != nil {
		return nil, nil, err
	}
	if pin == nil {
		if view.Exists() {
			return nil, nil, foreignGroup(wanted.Group, "it has "+groupWords(view))
		}
		pin, err = p.make(ctx, log, wanted, r)
		return pin, nil, err
	}
	if err := pin.owns(view); err != nil {
		return nil, nil, err
	}
	return pin, view.Committed[pin.Topic], nil
}

// find looks for the group's pin.
func (p *rangePins) find(ctx context.Context, log *runlog.Log, group string) (*rangePin, error) {
	runs, err := log.List(ctx, runlog.Filter{Prefix: p.app.config.Ledger.TablePrefix, Command: pinCommand})
	if err != nil {
		return nil, err
	}
	for i := range runs {
		run, err := log.Get(ctx, runs[i].ID)
		if err != nil {
			return nil, err
		}
		var pin rangePin
		if err := json.Unmarshal(run.Plan, &pin); err != nil {
			return nil, fmt.Errorf("run %d: %w", run.ID, err)
		}
		if pin.Group == group {
			pin.pinned = run.Started
			return &pin, nil
		}
	}
	return nil, nil //nolint:nilnil // nobody has pinned anything for the group
}

// make pins the range: the one INSERT does it, whatever becomes of this process after.
func (p *rangePins) make(ctx context.Context, log *runlog.Log, pin rangePin, r replay.Range) (*rangePin, error) {
	var err error
	if pin.Bounds, err = p.client.Resolve(ctx, pin.Topic, pin.Partitions, r); err != nil {
		return nil, rangeError(err)
	}
	pin.pinned = p.app.now().UTC()
	host, _ := os.Hostname() // an unnamed machine is recorded as such
	id, err := log.Begin(ctx, runlog.Run{
		Prefix: p.app.config.Ledger.TablePrefix, Command: pinCommand, Args: "--group " + pin.Group + ": " + pin.what(),
		Who: userName(), Host: host, Version: version(), Plan: pin,
	})
	if err != nil {
		return nil, fmt.Errorf("pin the range: %w", err)
	}
	if err := log.Finish(ctx, id, pinResult, nil); err != nil {
		p.app.log().Warn("the pin is not marked as such in the run table; it holds all the same", "run", id, "error", err)
	}
	return &pin, nil
}

// owns refuses a group that somebody else uses too: its members or its offsets are not those of this range.
func (p *rangePin) owns(v kafka.GroupView) error {
	for _, topic := range v.Topics {
		if topic != p.Topic {
			return foreignGroup(p.Group, "a member of it consumes "+topic)
		}
	}
	for topic, offsets := range v.Committed {
		if topic != p.Topic {
			return foreignGroup(p.Group, "it has committed offsets of "+topic)
		}
		for partition, at := range offsets {
			i := slices.IndexFunc(p.Bounds, func(b replay.Bounds) bool { return b.Partition == partition })
			if i < 0 || at < p.Bounds[i].Start || at > max(p.Bounds[i].Start, p.Bounds[i].End) {
				return foreignGroup(p.Group, fmt.Sprintf("it has committed %s[%d]@%d, outside the pinned range", topic, partition, at))
			}
		}
	}
	return nil
}

// foreignGroup refuses a group that is not this replay's own.
func foreignGroup(group, why string) error {
	return usageErrorf("group %s is not this replay's own: %s; a replay takes a group that nobody else uses", group, why)
}

func groupWords(v kafka.GroupView) string {
	if v.Members > 0 {
		return count(int64(v.Members), "member")
	}
	return "committed offsets of " + strings.Join(sortedKeys(v.Committed), ", ")
}
