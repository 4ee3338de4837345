package main

import (
	"context"
	"errors"

	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/replay"
)

// guardHandler puts a guard behind replay's Handler: the only place where the two packages meet.
type guardHandler struct {
	guard   *ledger.Guard
	effect  *replay.Effect // nil in verify
	mode    replay.Mode
	bizType string
	turns   keyTurns
}

// Handle implements replay.Handler. It is called for several partitions at once.
func (h *guardHandler) Handle(ctx context.Context, items []replay.Item) ([]replay.Verdict, error) {
	messages := h.messages(items)
	if h.mode != replay.ModeVerify {
		done, err := h.turns.take(ctx, messages)
		if err != nil {
			return nil, err
		}
		defer done()
	}
	var results []ledger.Result
	switch h.mode {
	case replay.ModeVerify:
		var err error
		if results, err = h.guard.Classify(ctx, messages); err != nil {
			return nil, err
		}
	case replay.ModeRehearse:
		results = h.guard.RehearseBatch(ctx, messages, h.run(items))
	case replay.ModeExecute:
		results = h.guard.DoBatch(ctx, messages, h.run(items))
	}
	verdicts := make([]replay.Verdict, len(items))
	for i := range results {
		verdicts[i] = h.verdict(&results[i])
	}
	return verdicts, nil
}

// run is the effect of the items, as the guard calls it.
func (h *guardHandler) run(items []replay.Item) ledger.BatchEffect {
	return func(ctx context.Context, tx ledger.Tx, indexes []int) error {
		args := make([]replay.Args, len(indexes))
		for n, i := range indexes {
			args[n] = items[i].Args
		}
		return h.effect.RunAll(ctx, tx, args)
	}
}

func (h *guardHandler) messages(items []replay.Item) []ledger.Message {
	messages := make([]ledger.Message, len(items))
	sources := make([]ledger.Source, len(items))
	for i := range items {
		item := &items[i]
		sources[i] = ledger.Source{Topic: item.Record.Topic, Partition: item.Record.Partition, Offset: item.Record.Offset}
		messages[i] = ledger.Message{
			Key: ledger.Key{BizType: h.bizType, OrderID: item.OrderID}, Time: item.Time, Fingerprint: item.Fingerprint, Source: &sources[i],
		}
	}
	return messages
}

func (h *guardHandler) verdict(r *ledger.Result) replay.Verdict {
	v := replay.Verdict{Outcome: r.Outcome.String(), Reason: r.Reason, Degraded: r.Degraded, RetryAfter: r.RetryAfter}
	switch r.Outcome {
	case ledger.Executed:
		v.Class = replay.Executed
		if !h.mode.Writes() {
			v.Outcome = replay.OutcomeWouldExecute
		}
	case ledger.AbsorbedFilter, ledger.AbsorbedLedger:
		v.Class = replay.Absorbed
	case ledger.Failed:
		v.Class = replay.Failed
		v.Reason = r.Err.Error()
		if _, ok := errors.AsType[*ledger.EffectError](r.Err); !ok {
			v.Stop = r.Err // a server, or the set-up: going on would fail as well
		}
	case ledger.InFlight, ledger.Conflict, ledger.OutsideHorizon, ledger.Invalid, ledger.Phantom:
		v.Class = replay.Held
	}
	if r.Entry != nil && r.Entry.Source != nil {
		v.By = &replay.Position{Topic: r.Entry.Source.Topic, Partition: r.Entry.Source.Partition, Offset: r.Entry.Source.Offset}
	}
	return v
}
