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
}

// Handle implements replay.Handler.
func (h *guardHandler) Handle(ctx context.Context, items []replay.Item) ([]replay.Verdict, error) {
	if h.mode == replay.ModeVerify {
		return h.verify(ctx, items)
	}
	verdicts := make([]replay.Verdict, 0, len(items))
	for i := range items {
		v, err := h.one(ctx, &items[i])
		if err != nil {
			return nil, err
		}
		verdicts = append(verdicts, v)
		if v.Stop != nil {
			break
		}
	}
	return verdicts, nil
}

func (h *guardHandler) verify(ctx context.Context, items []replay.Item) ([]replay.Verdict, error) {
	messages := make([]ledger.Message, len(items))
	for i := range items {
		messages[i] = h.message(&items[i])
	}
	results, err := h.guard.Classify(ctx, messages)
	if err != nil {
		return nil, err
	}
	verdicts := make([]replay.Verdict, len(items))
	for i, r := range results {
		verdicts[i] = h.verdict(r)
	}
	return verdicts, nil
}

func (h *guardHandler) one(ctx context.Context, item *replay.Item) (replay.Verdict, error) {
	effect := func(ctx context.Context, tx ledger.Tx) error { return h.effect.Run(ctx, tx, item.Args) }
	do := h.guard.Do
	if h.mode == replay.ModeRehearse {
		do = h.guard.Rehearse
	}
	res, err := do(ctx, h.message(item), effect)
	v := h.verdict(res)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return v, ctx.Err()
	default:
		v.Reason = err.Error()
		if _, ok := errors.AsType[*ledger.EffectError](err); !ok {
			v.Stop = err
		}
	}
	return v, nil
}

func (h *guardHandler) message(item *replay.Item) ledger.Message {
	return ledger.Message{
		Key:         ledger.Key{BizType: h.bizType, OrderID: item.OrderID},
		Time:        item.Time,
		Fingerprint: item.Fingerprint,
		Source:      &ledger.Source{Topic: item.Record.Topic, Partition: item.Record.Partition, Offset: item.Record.Offset},
	}
}

func (h *guardHandler) verdict(r ledger.Result) replay.Verdict {
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
	case ledger.InFlight, ledger.Conflict, ledger.OutsideHorizon, ledger.Invalid, ledger.Phantom:
		v.Class = replay.Held
	}
	if r.Entry != nil && r.Entry.Source != nil {
		v.By = &replay.Position{Topic: r.Entry.Source.Topic, Partition: r.Entry.Source.Partition, Offset: r.Entry.Source.Offset}
	}
	return v
}
