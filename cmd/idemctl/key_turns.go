package main

import (
	"context"
	"sync"

	"github.com/idemctl/idemctl/pkg/ledger"
)

// keyTurns keep the partitions of one run, which are read at once, from meeting at a key: the second would find the first
// one's lease, and report as held by another owner what this very run is doing.
type keyTurns struct {
	mu      sync.Mutex
	busy    map[string]bool
	changed chan struct{} // closed when a page ends; nil while nobody waits
}

// take waits until no other page is at any of the messages' keys, and takes them all at once, so that two pages never wait
// for each other. done gives them back.
func (k *keyTurns) take(ctx context.Context, messages []ledger.Message) (done func(), err error) {
	for {
		wait := k.try(messages)
		if wait == nil {
			return func() { k.give(messages) }, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-wait:
		}
	}
}

// try takes the keys, or returns what is closed when it is worth another try.
func (k *keyTurns) try(messages []ledger.Message) <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range messages {
		if k.busy[messages[i].Key.OrderID] {
			if k.changed == nil {
				k.changed = make(chan struct{})
			}
			return k.changed
		}
	}
	if k.busy == nil {
		k.busy = map[string]bool{}
	}
	for i := range messages {
		k.busy[messages[i].Key.OrderID] = true
	}
	return nil
}

func (k *keyTurns) give(messages []ledger.Message) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range messages {
		delete(k.busy, messages[i].Key.OrderID)
	}
	if k.changed != nil {
		close(k.changed)
		k.changed = nil
	}
}
