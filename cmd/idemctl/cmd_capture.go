package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/idemctl/idemctl/internal/render"
	"github.com/idemctl/idemctl/pkg/replay"
	"github.com/idemctl/idemctl/pkg/replay/kafka"
)

type captureOptions struct {
	rangeOptions

	key     string
	bizType string
	force   bool
}

func newCaptureCmd(a *app) *cobra.Command {
	var opts captureOptions
	cmd := &cobra.Command{
		Use:   "capture TOPIC FILE",
		Short: "Write a topic range to a file that can be replayed",
		Long: `Write the records of a topic range to a file, one JSON object a line, partition
by partition and in order of offset. It can be replayed elsewhere, or when the
topic has forgotten them: idemctl replay --input FILE. FILE - is stdout.

The lines are those of kcat -C -J; what is not UTF-8 is in key_b64, payload_b64
and headers_b64. The end of the range is pinned at the start. The file appears
under its name when it is whole, readable by its owner alone, and replaces no
other without --force. The ranges are those of idemctl replay.

Exit status:
  0    done` + exitHelp(`  4    incomplete: an open transaction holds offsets back; what could be read
       is in the file`),
		Example: `  idemctl capture order-paid --range @-1h incident.jsonl
  idemctl capture order-paid --range 10200:10300 -p 3 - | jq .key`,
		Args: cobra.ExactArgs(2), //nolint:mnd // topic and file
		RunE: func(cmd *cobra.Command, args []string) error {
			return runCapture(cmd.Context(), a, &opts, args[0], args[1])
		},
	}
	opts.AddFlags(cmd.Flags())
	return cmd
}

// AddFlags declares the command's flags.
func (o *captureOptions) AddFlags(fs *pflag.FlagSet) {
	o.rangeOptions.AddFlags(fs)
	fs.StringVar(&o.key, "key", "", "only the records of this `ORDER_ID`, as the topic's handler finds it")
	fs.StringVar(&o.bizType, "biz-type", "", "with --key, `BIZ_TYPE` of the handler, where the topic has several")
	fs.BoolVar(&o.force, "force", false, "replace a file that is there")
}

func runCapture(ctx context.Context, a *app, opts *captureOptions, topic, path string) error {
	r, err := opts.read(a)
	if err != nil {
		return err
	}
	keep, err := a.keepRecord(topic, opts)
	if err != nil {
		return err
	}
	if path == stdoutPath && a.flags.output != render.FormatTable {
		return usageErrorf("-o %s is the format of the summary, and stdout holds the records: name a file", a.flags.output)
	}
	out := newCaptureOutput(a.streams.Out, path, opts.force)
	if err := out.check(); err != nil {
		return err
	}
	source, err := a.Kafka(func(c *kafka.Config) { c.AllowClipped = opts.allowClipped })
	if err != nil {
		return err
	}
	bounds, err := source.Resolve(ctx, topic, opts.partitions, r)
	if err != nil {
		return rangeError(fmt.Errorf("resolve the range of topic %s: %w", topic, err))
	}
	job := &captureJob{app: a, source: source, out: out, keep: keep, result: newCaptureResult(topic, r, opts.key, path, bounds)}
	return job.run(ctx)
}

// keepRecord tells which records are wanted; nil: all of them.
func (a *app) keepRecord(topic string, opts *captureOptions) (func(replay.Record) (bool, error), error) {
	switch {
	case opts.key == "" && opts.bizType != "":
		return nil, usageErrorf("--biz-type says whose --key is meant, and that is missing")
	case opts.key == "":
		return nil, nil //nolint:nilnil // no filter
	}
	h, err := a.Handler(topic, opts.bizType)
	if err != nil {
		return nil, err
	}
	x, err := a.extractor(h, nil)
	if err != nil {
		return nil, err
	}
	return func(rec replay.Record) (bool, error) {
		item, err := x.Extract(rec)
		// A record of this key whose time cannot be read belongs to the incident as much as the others.
		if _, invalid := errors.AsType[*replay.InvalidError](err); err != nil && !invalid {
			return false, err //nolint:wrapcheck // the caller names the record
		}
		return item.OrderID == opts.key, nil
	}, nil
}

// captureJob is a capture whose range is pinned.
type captureJob struct {
	app    *app
	source replay.Source
	out    *captureOutput
	keep   func(replay.Record) (bool, error)
	result *captureResult
	line   []byte
}

// errReaderGone ends a capture to a pipe that nobody reads any more (hazard R8).
var errReaderGone = errors.New("the reader of stdout has gone away")

// run writes the file. Where it ends early the file is not there at all: half a capture would be taken for a whole one.
func (j *captureJob) run(ctx context.Context) error {
	if err := j.out.open(); err != nil {
		return err
	}
	defer j.out.discard()
	progress := j.app.Progress("capture", "offsets")
	err := j.read(ctx, func(done int64) { progress.Update(done, j.result.Offsets, "") })
	if err == nil {
		err = j.out.commit()
	}
	progress.Finish()
	j.result.Bytes = j.out.size
	switch {
	case errors.Is(err, errReaderGone):
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("capture %s: %s", j.result.Topic, j.ended())
	case err != nil:
		return fmt.Errorf("capture %s: %w (%s)", j.result.Topic, err, j.ended())
	}
	if err := j.print(); err != nil {
		return err
	}
	if j.result.HeldBack > 0 {
		return exitStatus(exitIncomplete)
	}
	return nil
}

// ended says what there is of a capture that was cut short.
func (j *captureJob) ended() string {
	if j.out.path == stdoutPath {
		return fmt.Sprintf("ended after %d records", j.result.Records)
	}
	return fmt.Sprintf("%s was not written; %d records had been read", j.out.path, j.result.Records)
}

// read takes one partition after the other, so that the same range always makes the same file.
func (j *captureJob) read(ctx context.Context, moved func(done int64)) error {
	var before int64
	for i := range j.result.Partitions {
		p := &j.result.Partitions[i]
		err := j.source.Read(ctx, j.result.Topic, []replay.Bounds{p.Bounds}, func(_ context.Context, b replay.Batch) error {
			if err := j.write(p, b.Records); err != nil {
				return err
			}
			moved(before + b.Next - p.Start)
			return nil
		})
		if err != nil {
			return err //nolint:wrapcheck // the source names topic and partition, run the rest
		}
		before += p.Len()
	}
	return nil
}

func (j *captureJob) write(p *capturedPartition, records []replay.Record) error {
	for _, rec := range records {
		if j.keep != nil {
			kept, err := j.keep(rec)
			if err != nil {
				return fmt.Errorf("read the record at %s[%d]@%d: %w", rec.Topic, rec.Partition, rec.Offset, err)
			}
			if !kept {
				p.Filtered++
				j.result.Filtered++
				continue
			}
		}
		var err error
		if j.line, err = replay.AppendEnvelope(j.line[:0], rec); err != nil {
			return err //nolint:wrapcheck // names the record
		}
		if err := j.out.write(j.line); err != nil {
			return err
		}
		p.Records++
		j.result.Records++
	}
	select {
	case <-j.app.streams.Out.Gone():
		if j.out.path == stdoutPath {
			return errReaderGone
		}
	default:
	}
	return nil
}

// print shows the summary: on stderr where stdout holds the records.
func (j *captureJob) print() error {
	result := j.result.render()
	if j.out.path != stdoutPath {
		return j.app.Print(result)
	}
	p := render.Printer{W: j.app.streams.Err, Format: render.FormatTable, Command: j.app.command, Version: version(), Width: j.app.streams.Width}
	return p.Print(result) //nolint:wrapcheck // says what it was writing
}

// captureResult is what `capture` says.
type captureResult struct {
	Topic      string              `json:"topic"`
	Range      string              `json:"range"`
	Key        string              `json:"key,omitempty"`
	File       string              `json:"file"`
	Partitions []capturedPartition `json:"partitions"`
	Offsets    int64               `json:"offsets"` // in the pinned range
	Records    int64               `json:"records"`
	Filtered   int64               `json:"filtered,omitempty"` // records of other keys
	Bytes      int64               `json:"bytes"`              // of the file
	HeldBack   int64               `json:"held_back,omitempty"`
	Clipped    bool                `json:"clipped,omitempty"`
}

// capturedPartition is what came of one partition.
type capturedPartition struct {
	replay.Bounds

	Records  int64 `json:"records"`
	Filtered int64 `json:"filtered,omitempty"`
}

func newCaptureResult(topic string, r replay.Range, key, path string, bounds []replay.Bounds) *captureResult {
	c := &captureResult{Topic: topic, Range: r.String(), Key: key, File: path, Partitions: make([]capturedPartition, len(bounds))}
	for i, b := range bounds {
		c.Partitions[i].Bounds = b
		c.Offsets += b.Len()
		c.HeldBack += b.HeldBack
		c.Clipped = c.Clipped || b.Clipped
	}
	return c
}

func (c *captureResult) render() render.Result {
	t := render.Table{Columns: []render.Column{
		{Name: "partition", Number: true}, {Name: "range read"}, {Name: "records", Align: render.Right, Number: true},
		{Name: "other keys", Align: render.Right, Number: true}, {Name: "held back", Align: render.Right, Number: true},
	}}
	for i := range c.Partitions {
		p := &c.Partitions[i]
		t.Add(strconv.Itoa(int(p.Partition)), fmt.Sprintf("%d:%d", p.Start, p.End), strconv.FormatInt(p.Records, 10),
			strconv.FormatInt(p.Filtered, 10), strconv.FormatInt(p.HeldBack, 10))
	}
	return render.Result{Value: c, Tables: []render.Table{t}, Notes: c.notes()}
}

func (c *captureResult) notes() []string {
	file := c.File
	if file == stdoutPath {
		file = "stdout"
	}
	notes := []string{wrap(fmt.Sprintf("%s of %s, range %s, in %s (%s).", count(c.Records, "record"), c.Topic, c.Range, render.Text(file), byteSize(c.Bytes)),
		render.DefaultWidth)}
	if c.Offsets == 0 {
		notes = append(notes, "The range is empty: there is nothing to read.")
	}
	if c.Clipped {
		notes = append(notes, "The topic has less than the range asked for; what there is was read.")
	}
	if c.HeldBack > 0 {
		notes = append(notes, wrap(count(c.HeldBack, "offset")+" held back by an open transaction, and not in the file; all before them is. "+
			"To capture them when it has ended:", render.DefaultWidth))
		for i := range c.Partitions {
			if p := &c.Partitions[i]; p.HeldBack > 0 {
				notes = append(notes, fmt.Sprintf("  idemctl capture %s -p %d --range %d:%d FILE", asTyped(c.Topic), p.Partition, p.End, p.End+p.HeldBack))
			}
		}
	}
	if c.Records > 0 && c.File != stdoutPath {
		notes = append(notes, "To replay them: idemctl replay --input "+asTyped(c.File))
	}
	return notes
}
