package main

import (
	"context"
	"strconv"
	"time"
)

// startupTurns is how often each side is started in a turn: one start is too short to measure.
const startupTurns = 20

// startup compares the time from the start to the end of a command that asks no server.
func (b *bench) startup(ctx context.Context) error {
	if !b.opts.wants(startup) || b.without(startup) {
		return nil
	}
	starts := func(argv ...string) measure {
		return func(ctx context.Context) (float64, error) {
			times := make([]float64, startupTurns)
			for i := range times {
				took, err := wall(ctx, argv...)
				if err != nil {
					return 0, err
				}
				times[i] = float64(took) / float64(time.Millisecond)
			}
			return median(times), nil
		}
	}
	return b.compare(ctx, startup, starts(b.binary(), "version"), starts(b.kcat, "-V"))
}

// without says that a line is left out where there is no kcat.
func (b *bench) without(name string) bool {
	if b.kcat == "" {
		b.notef("%s is left out: there is no kcat on this machine", name)
		return true
	}
	return false
}

func (b *bench) wantsReplay() bool {
	return b.opts.wants(replayVerify) || b.opts.wants(replayVerifyLimit) || b.opts.wants(replayMemory)
}

// replays compares what works on the topic: every order once, all of them in the ledger and in Redis.
func (b *bench) replays(ctx context.Context) error {
	if !b.wantsReplay() {
		return nil
	}
	b.notef("publishing and executing %d orders", len(b.shop.messages))
	if err := b.writeConfig(); err != nil {
		return err
	}
	if err := b.publish(ctx); err != nil {
		return err
	}
	if err := b.shop.fill(ctx, len(b.shop.messages)); err != nil {
		return err
	}
	each := len(b.shop.messages) / partitions // records of a partition
	verify := b.perSecond(len(b.shop.messages), b.verify(each)...)
	if b.opts.wants(replayVerify) && !b.without(replayVerify) {
		err := b.compare(ctx, replayVerify, verify,
			b.perSecond(len(b.shop.messages), b.kcat, "-C", "-q", "-e", "-o", "beginning", "-b", b.lab.Brokers[0], "-t", topic))
		if err != nil {
			return err
		}
	}
	if err := b.compare(ctx, replayVerifyLimit, verify, b.looksAlone); err != nil {
		return err
	}
	memory := func(records int) measure {
		return func(ctx context.Context) (float64, error) { return peak(ctx, b.verify(records)...) }
	}
	return b.compare(ctx, replayMemory, memory(each), memory(each/10)) //nolint:mnd // the line's tenth
}

// verify is the command on the first records of each partition. It ends with exit code 0 only if it found every one of
// them absorbed.
func (b *bench) verify(records int) []string {
	return []string{
		b.binary(), "replay", topic, "--mode", "verify", "--range", "0:" + strconv.Itoa(records), "--config", b.config(),
	}
}

// perSecond is a turn of a program that reads so many records or keys.
func (b *bench) perSecond(records int, argv ...string) measure {
	return func(ctx context.Context) (float64, error) {
		took, err := wall(ctx, argv...)
		if err != nil {
			return 0, err
		}
		return float64(records) / took.Seconds(), nil
	}
}
