package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/idemctl/idemctl/pkg/replay/kafka"
)

// topicReach is how far back a handler's topic can be replayed, against how long the ledger remembers (hazard P16).
type topicReach struct {
	Topic    string   `json:"topic"`
	Handlers []string `json:"handlers"`
	// Retention is the topic's own setting in seconds; not given where it is unlimited, or could not be had.
	Retention    float64   `json:"retention_seconds,omitempty"`
	Unlimited    bool      `json:"unlimited,omitempty"`
	OldestRecord time.Time `json:"oldest_record,omitzero"`
	// Further says that it reaches further back than the ledger remembers.
	Further bool   `json:"reaches_further"`
	Error   string `json:"error,omitempty"`

	retention time.Duration
}

// replayRisk is the comparison of the ledger's retention with the topics.
type replayRisk struct {
	// Remembered is how long the ledger keeps an entry for sure, in seconds: its retention and, with --before, what is left
	// standing beyond it.
	Remembered float64      `json:"remembered_seconds"`
	Topics     []topicReach `json:"topics"`
	// Note says why no comparison was made, if none was.
	Note string `json:"note,omitempty"`

	remembered time.Duration
	failed     error // the first topic that could not be asked
}

// replayRisk asks the brokers about each handler's topic. What it finds, and what it could not ask, is in the result; it is
// for the caller to refuse.
func (a *app) replayRisk(ctx context.Context, now, cutoff time.Time) (replayRisk, error) {
	remembered := a.config.Ledger.Retention + now.Sub(cutoff)
	risk := replayRisk{Remembered: remembered.Seconds(), remembered: remembered, Topics: []topicReach{}}
	switch {
	case len(a.config.Handlers) == 0:
		risk.Note = "no handlers are configured"
	case len(a.config.Kafka.Brokers) == 0:
		risk.Note = "kafka.brokers is not configured"
	}
	if risk.Note != "" {
		return risk, nil
	}
	client, err := a.Kafka(nil)
	if err != nil {
		return risk, err
	}
	handlers := map[string][]string{}
	for _, name := range sortedKeys(a.config.Handlers) {
		topic := a.config.Handlers[name].Topic
		handlers[topic] = append(handlers[topic], name)
	}
	for _, topic := range sortedKeys(handlers) {
		if ctx.Err() != nil {
			return risk, ctx.Err()
		}
		t := topicReach{Topic: topic, Handlers: handlers[topic]}
		kept, err := client.Retention(ctx, topic)
		if err != nil {
			t.Error = err.Error()
			risk.failed = cmpErr(risk.failed, err)
			risk.Topics = append(risk.Topics, t)
			if errors.Is(err, kafka.ErrUnreachable) {
				break // the next one would wait as long for the same answer
			}
			continue
		}
		t.Unlimited, t.OldestRecord = kept.Unlimited, kept.OldestRecord
		t.retention, t.Retention = kept.Retention, kept.Retention.Seconds()
		t.Further = kept.Unlimited || kept.Reach(now) > remembered
		risk.Topics = append(risk.Topics, t)
	}
	return risk, nil
}

func cmpErr(first, err error) error {
	if first != nil {
		return first
	}
	return err
}

// refusal is why a purge must not go on without --accept-replay-risk; nil: it may. A topic that reaches further is a matter
// of configuration; one that could not be asked is not known to be safe.
func (r *replayRisk) refusal() error {
	if r.failed != nil {
		return fmt.Errorf("compare the ledger's retention with the topics: %w (--accept-replay-risk purges without)", r.failed)
	}
	further := r.further()
	if len(further) == 0 {
		return nil
	}
	return usageErrorf("%s; what is purged and then replayed would no longer be recognised. Raise ledger.retention, keep more with --before, or --accept-replay-risk", r.describe(further[0]))
}

func (r *replayRisk) further() []topicReach {
	return slices.DeleteFunc(slices.Clone(r.Topics), func(t topicReach) bool { return !t.Further })
}

func (r *replayRisk) describe(t topicReach) string {
	keeps := "keeps records for ever"
	if !t.Unlimited {
		keeps = "keeps records for " + formatDuration(t.retention)
		if !t.OldestRecord.IsZero() {
			keeps += ", the oldest is of " + t.OldestRecord.Format(time.DateTime)
		}
	}
	return fmt.Sprintf("topic %s %s, the ledger remembers %s", t.Topic, keeps, formatDuration(r.remembered.Truncate(time.Minute)))
}

// notes say it for people.
func (r *replayRisk) notes() []string {
	if r.Note != "" {
		return []string{"Retention was not compared with the topics': " + r.Note + "."}
	}
	var notes []string
	var safe []string
	for _, t := range r.Topics {
		switch {
		case t.Error != "":
			notes = append(notes, "Not compared with topic "+t.Topic+": "+t.Error+".")
		case t.Further:
			notes = append(notes, "Replay risk: "+r.describe(t)+".")
		default:
			safe = append(safe, t.Topic)
		}
	}
	if len(safe) > 0 {
		notes = append(notes, "The ledger remembers longer than these topics can be replayed: "+strings.Join(safe, ", ")+".")
	}
	return notes
}
