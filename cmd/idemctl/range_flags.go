package main

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/idemctl/idemctl/pkg/replay"
)

// rangeOptions say which records of a topic a command reads.
type rangeOptions struct {
	rng          string
	partitions   []int32
	allowClipped bool
}

// AddFlags declares the flags.
func (o *rangeOptions) AddFlags(fs *pflag.FlagSet) {
	fs.StringVarP(&o.rng, "range", "r", "start", "`RANGE` of records to read")
	fs.Int32SliceVarP(&o.partitions, "partition", "p", nil, "only this `PARTITION`; may be repeated")
	fs.BoolVar(&o.allowClipped, "allow-clipped", false, "read what there is of a range that the topic does not have in full")
}

// read reads the flags, times in the ledger's zone.
func (o *rangeOptions) read(a *app) (replay.Range, error) {
	cfg, err := a.Config()
	if err != nil {
		return replay.Range{}, err
	}
	return o.parse(a.now(), cfg.Location())
}

func (o *rangeOptions) parse(now time.Time, loc *time.Location) (replay.Range, error) {
	for _, p := range o.partitions {
		if p < 0 {
			return replay.Range{}, usageErrorf("--partition %d: expected 0 or more", p)
		}
	}
	r, err := replay.ParseRange(o.rng, now, loc)
	if err != nil {
		return r, usageErrorf("--range: %w", err)
	}
	r.AllowClipped = o.allowClipped
	return r, nil
}
