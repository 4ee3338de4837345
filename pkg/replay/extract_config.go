package replay

import (
	"fmt"
	"strings"
	"time"
)

// ExtractorError says that a setting of an ExtractorConfig cannot be used.
type ExtractorError struct {
	Setting string // as in the configuration file: key, event_time, event_time_format, fallback, fingerprint, effect
	Value   string
	Err     error
}

func (e *ExtractorError) Error() string {
	return fmt.Sprintf("%s %q: %s", e.Setting, e.Value, e.Err)
}

// Unwrap gives the reason.
func (e *ExtractorError) Unwrap() error { return e.Err }

// NewExtractor checks a configuration; the error is an *ExtractorError.
//
// With event time key:LAYOUT the date is the leftmost part of the order id, as wide as the layout, that reads as a time of
// it within 2000 to 2100; where it starts with a digit it must start a run of digits. So key:20060102 finds 2026-11-11 in
// 20261111-8842 and in ORD20261111000012, and nothing in 1020261111.
func NewExtractor(cfg ExtractorConfig) (*Extractor, error) {
	x := &Extractor{
		tree:        newPathTree(),
		bizType:     cfg.BizType,
		loc:         cfg.Location,
		validateKey: cfg.ValidateKey,
		argIndex:    make(map[string]int, len(cfg.ArgPaths)),
	}
	if x.loc == nil {
		x.loc = time.UTC
	}
	var err error
	if x.key, err = newKeySource(cfg.Key, x.tree); err != nil {
		return nil, &ExtractorError{Setting: "key", Value: cfg.Key, Err: err}
	}
	if x.time, err = newTimeSource(cfg.EventTime, x.tree); err != nil {
		return nil, &ExtractorError{Setting: "event_time", Value: cfg.EventTime, Err: err}
	}
	if err = x.time.setFormat(cfg.EventTimeFormat); err != nil {
		return nil, &ExtractorError{Setting: "event_time_format", Value: cfg.EventTimeFormat, Err: err}
	}
	switch cfg.Fallback {
	case "":
	case "record":
		x.time.fallback = true
	default:
		return nil, &ExtractorError{Setting: "fallback", Value: cfg.Fallback, Err: errFallback}
	}
	if err := x.addFingerprint(cfg.Fingerprint); err != nil {
		return nil, err
	}
	if err := x.addArgs(cfg.ArgPaths); err != nil {
		return nil, err
	}
	return x, nil
}

func (x *Extractor) addFingerprint(paths []string) error {
	parts := make([]fingerprintPath, 0, len(paths))
	for _, text := range paths {
		p, err := ParsePath(strings.TrimPrefix(text, "value:"))
		if err != nil {
			return &ExtractorError{Setting: "fingerprint", Value: text, Err: err}
		}
		parts = append(parts, fingerprintPath{name: p.prefix(len(p.segments)), slot: x.tree.add(p)})
	}
	x.fingerprint = newFingerprinter(parts)
	return nil
}

// addArgs takes each name once: an effect may use it several times.
func (x *Extractor) addArgs(names []string) error {
	for _, name := range names {
		if _, seen := x.argIndex[name]; seen {
			continue
		}
		arg := argSource{name: name, slot: -1}
		if !isBuiltinArg(name) {
			p, err := ParsePath(name)
			if err != nil {
				return &ExtractorError{Setting: "effect", Value: name, Err: err}
			}
			arg.slot = x.tree.add(p)
		}
		x.argIndex[name] = len(x.args)
		x.args = append(x.args, arg)
	}
	return nil
}
