package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/replay"
	"github.com/idemctl/idemctl/pkg/replay/kafka"
)

// effect reads the handler's SQL. verify needs none.
func (a *app) effect(h Handler, mode replay.Mode) (*replay.Effect, error) {
	if h.Effect == "" {
		if mode == replay.ModeVerify {
			return nil, nil //nolint:nilnil // verify runs no effect
		}
		return nil, usageErrorf("handlers.%s.effect is not set: --mode %s has nothing to run", h.Name, mode)
	}
	text, err := os.ReadFile(h.Effect)
	if err != nil {
		return nil, usageErrorf("handlers.%s.effect: %w", h.Name, err)
	}
	effect, err := replay.ParseEffect(h.Effect, string(text))
	if err != nil {
		return nil, fmt.Errorf("handlers.%s.effect: %w", h.Name, err)
	}
	return effect, nil
}

// extractor finds what the handler and its effect need in a record.
func (a *app) extractor(h Handler, effect *replay.Effect) (*replay.Extractor, error) {
	cfg := replay.ExtractorConfig{
		Key: h.Key, EventTime: h.EventTime, EventTimeFormat: h.EventTimeFormat, Fallback: h.Fallback, Fingerprint: h.Fingerprint,
		BizType: h.BizType, Location: a.config.Location(), ValidateKey: ledger.ValidateOrderID,
	}
	if effect != nil {
		cfg.ArgPaths = effect.Names()
	}
	x, err := replay.NewExtractor(cfg)
	if err != nil {
		return nil, usageErrorf("handlers.%s: %w", h.Name, err)
	}
	return x, nil
}

func (a *app) openGuard(ctx context.Context, opts guardOptions, h Handler, mode replay.Mode, effect *replay.Effect) (*ledger.Guard, error) {
	store, err := a.Store(ctx)
	if err != nil {
		return nil, err
	}
	if mode != replay.ModeVerify && store.Legacy() {
		return nil, usageErrorf("ledger.columns: %w", ledger.ErrLegacy)
	}
	filter, err := a.guardFilter(ctx, opts)
	if err != nil {
		return nil, err
	}
	g, err := ledger.NewGuard(ctx, ledger.GuardOptions{
		Store: store, Filter: filter, BizType: h.BizType, Zone: a.config.Location(), Retention: a.config.Ledger.Retention,
		Slack: a.config.Ledger.HorizonSlack, MemorySince: h.Since, AlwaysLook: opts.alwaysLook, Now: a.now, Logger: a.log(),
		Phantom: opts.phantom, BeyondHorizon: opts.beyondHorizon,
	})
	if errors.Is(err, ledger.ErrTimeZone) {
		return nil, usageErrorf("ledger.time_zone: %w", err)
	}
	if errors.Is(err, ledger.ErrColumnMap) {
		return nil, usageErrorf("ledger.columns: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	if mode == replay.ModeVerify {
		return g, nil
	}
	db, err := a.DB(ctx)
	if err != nil {
		return nil, err
	}
	if err := effect.Check(ctx, db); err != nil {
		return nil, fmt.Errorf("handlers.%s.effect: %w", h.Name, err)
	}
	if mode == replay.ModeExecute && !opts.foreignWriters {
		table, err := store.ForeignWriters(ctx, h.BizType)
		if err != nil {
			return nil, fmt.Errorf("open the ledger: %w", err)
		}
		if table != "" {
			return nil, fmt.Errorf("%s has rows of %s that no guard wrote: their writer does not look into other months, so a key could run twice (--accept-foreign-writers)", table, h.BizType)
		}
	}
	return g, nil
}

func (a *app) replaySource(opts *replayOptions) (replay.Source, error) {
	if opts.input != "" {
		return newCapture(string(opts.input)), nil
	}
	return a.Kafka(func(c *kafka.Config) { c.AllowClipped = opts.allowClipped })
}
