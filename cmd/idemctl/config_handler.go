package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/idemctl/idemctl/pkg/ledger"
	"github.com/idemctl/idemctl/pkg/replay"
)

// extractor is what the handler needs of a message, but for the values of its effect, in the shape of pkg/replay.
func (h *HandlerConfig) extractor(loc *time.Location) replay.ExtractorConfig {
	return replay.ExtractorConfig{
		Key:             h.Key,
		EventTime:       h.EventTime,
		EventTimeFormat: h.EventTimeFormat,
		Fallback:        h.Fallback,
		Fingerprint:     h.Fingerprint,
		BizType:         h.BizType,
		Location:        loc,
		ValidateKey:     ledger.ValidateOrderID,
	}
}

var errMemorySince = errors.New("expected a date (2026-11-01) or RFC 3339")

// memorySince reads memory_since: a date means its midnight in the ledger's zone. Not set: zero.
func (h *HandlerConfig) memorySince(loc *time.Location) (time.Time, error) {
	return parseSince(h.MemorySince, loc)
}

// parseSince reads a memory-since: a date means its midnight in loc; empty: zero.
func parseSince(s string, loc *time.Location) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if t, err := time.ParseInLocation(time.DateOnly, s, loc); err == nil {
		return t.UTC(), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q: %w", s, errMemorySince)
	}
	return t.UTC().Truncate(time.Millisecond), nil
}

// Handler is one configured handler, ready for use.
type Handler struct {
	HandlerConfig

	Name string
	// Since is what memory_since vouches for; zero: nothing.
	Since time.Time
}

// HandlersOf returns the handlers of a topic by name, those of one biz_type where it is not empty.
func (c *Config) HandlersOf(topic, bizType string) ([]Handler, error) {
	var found []Handler
	for _, name := range slices.Sorted(maps.Keys(c.Handlers)) {
		h := c.Handlers[name]
		if h.Topic != topic || bizType != "" && h.BizType != bizType {
			continue
		}
		since, err := h.memorySince(c.location)
		if err != nil {
			return nil, usageErrorf("handlers.%s.memory_since: %w", name, err)
		}
		found = append(found, Handler{Name: name, HandlerConfig: h, Since: since})
	}
	return found, nil
}

// Handler returns the one handler that a command means: the topic's only one, or the one of bizType. None or several is a
// usage error that lists what there is.
func (c *Config) Handler(topic, bizType string) (Handler, error) {
	found, err := c.HandlersOf(topic, bizType)
	if err != nil {
		return Handler{}, err
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return Handler{}, c.noHandler(topic, bizType)
	}
	return Handler{}, usageErrorf("topic %q feeds several handlers: say which with --biz-type: %s", topic, describeHandlers(found))
}

func (c *Config) noHandler(topic, bizType string) error {
	others, err := c.HandlersOf(topic, "")
	if err != nil {
		return err
	}
	if bizType != "" && len(others) > 0 {
		return usageErrorf("topic %q has no handler of biz_type %q; it has %s", topic, bizType, describeHandlers(others))
	}
	topics := map[string]bool{}
	for _, h := range c.Handlers {
		topics[h.Topic] = true
	}
	names := slices.Sorted(maps.Keys(topics))
	hint := "the configuration has none at all"
	if near, ok := nearest(topic, names); ok {
		hint = fmt.Sprintf("did you mean topic %q?", near)
	} else if len(names) > 0 {
		hint = "there are handlers for " + strings.Join(names, ", ")
	}
	return usageErrorf("no handler is configured for topic %q; %s", topic, hint)
}

func describeHandlers(hs []Handler) string {
	texts := make([]string, len(hs))
	for i, h := range hs {
		texts[i] = fmt.Sprintf("%s (handler %s)", h.BizType, h.Name)
	}
	return strings.Join(texts, ", ")
}
