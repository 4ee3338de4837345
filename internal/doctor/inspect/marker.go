package inspect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemctl/idemctl/internal/doctor"
	"github.com/idemctl/idemctl/pkg/ledger"
)

// Marker is what Redis holds for a key.
type Marker struct {
	Name  string `json:"name"`  // of the Redis key
	Value string `json:"value"` // as it is; empty: there is none
	// State is none, processing, completed or malformed.
	State string `json:"state"`
	// TTLMillis is the time left; -1: it never ends.
	TTLMillis int64 `json:"ttl_ms"`
	// Meaning in words.
	Meaning string `json:"meaning"`

	parsed ledger.Marker
}

// The states of a marker.
const (
	stateNone       = "none"
	stateProcessing = "processing"
	stateCompleted  = "completed"
	stateMalformed  = "malformed"
)

// addMarker reads a key's marker. A Redis that does not answer is part of what is found. A biz_type that no key can have (a
// row of another service) has no marker.
func (l *Looker) addMarker(ctx context.Context, k *Key, orderID string) {
	switch {
	case l.opts.Redis == nil || ledger.ValidateBizType(k.BizType) != nil:
		return
	case l.opts.RedisErr != nil:
		k.MarkerError = l.opts.RedisErr.Error()
		return
	}
	m, err := l.readMarker(ctx, l.opts.Template.Name(ledger.Key{BizType: k.BizType, OrderID: orderID}))
	if err != nil {
		k.MarkerError = err.Error()
		return
	}
	m.Meaning = l.meaning(&m)
	k.Marker = &m
}

func (l *Looker) readMarker(ctx context.Context, name string) (Marker, error) {
	m := Marker{Name: name, State: stateNone}
	raw, err := l.opts.Redis.Get(ctx, name).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return m, nil
	case redis.HasErrorPrefix(err, "WRONGTYPE"):
		m.parsed = ledger.Marker{State: ledger.MarkerMalformed}
	case err != nil:
		return m, fmt.Errorf("read the marker: %w", err)
	default:
		m.parsed = ledger.ParseMarker(raw)
	}
	ttl, err := l.opts.Redis.PTTL(ctx, name).Result()
	const gone, never = -2, -1
	switch {
	case err != nil:
		return m, fmt.Errorf("read the marker's TTL: %w", err)
	case ttl == gone:
		return Marker{Name: name, State: stateNone}, nil
	case ttl == never:
		m.TTLMillis = never
		m.parsed.TTL = never
	default:
		m.TTLMillis = ttl.Milliseconds()
		m.parsed.TTL = ttl
	}
	m.Value = raw
	switch m.parsed.State {
	case ledger.MarkerProcessing:
		m.State = stateProcessing
	case ledger.MarkerCompleted:
		m.State = stateCompleted
	case ledger.MarkerMalformed, ledger.MarkerNone:
		m.State = stateMalformed
	}
	return m, nil
}

// ours reports a COMPLETED that this ledger wrote after a commit.
func (l *Looker) ours(m *Marker) bool {
	return m.State == stateCompleted && l.hasCatalog && !l.opts.Bare && m.parsed.Ledger == l.cat.LedgerID
}

// meaning says what a marker and its TTL say.
func (l *Looker) meaning(m *Marker) string {
	switch m.State {
	case stateProcessing:
		switch {
		case m.TTLMillis < 0:
			return fmt.Sprintf("a lease that never ends: a guard takes it over after it has seen it for %s", doctor.Short(l.opts.Lease))
		case m.parsed.TTL > l.opts.Lease+time.Second:
			return "a lease longer than redis.lease: written by another service"
		case m.parsed.Owner == "":
			return "a lease of nobody knows whom (the bare word)"
		}
		return "a claim's lease: its owner is at work, or has died"
	case stateCompleted:
		switch {
		case l.ours(m):
			return "by this ledger, after a commit: absorbs alone"
		case m.parsed.Ledger == "":
			return "the bare word: nobody can say whose; the ledger is asked"
		}
		return "of another ledger (id " + m.parsed.Ledger + "): the ledger is asked"
	case stateMalformed:
		return "no marker: a guard cannot claim this name, the ledger decides alone"
	}
	return "none: it ended, was evicted, or never was; says nothing"
}
