package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/idemctl/idemctl/pkg/ledger"
)

func turnMessages(ids ...string) []ledger.Message {
	messages := make([]ledger.Message, len(ids))
	for i, id := range ids {
		messages[i].Key = ledger.Key{BizType: "COUPON", OrderID: id}
	}
	return messages
}

// Two pages that share a key take turns; others do not wait; a page that is told to end does not wait on.
func TestKeyTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var turns keyTurns
		first, err := turns.take(t.Context(), turnMessages("A", "B", "A"))
		if err != nil {
			t.Fatal(err)
		}
		other, err := turns.take(t.Context(), turnMessages("D"))
		if err != nil {
			t.Fatal(err)
		}
		second := make(chan func())
		go func() {
			done, err := turns.take(t.Context(), turnMessages("C", "B"))
			if err != nil {
				t.Error(err)
			}
			second <- done
		}()
		synctest.Wait()
		// While it waits it holds none of its keys.
		third, err := turns.take(t.Context(), turnMessages("C"))
		if err != nil {
			t.Fatal(err)
		}
		third()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := turns.take(ended, turnMessages("A")); !errors.Is(err, context.Canceled) {
			t.Errorf("a page that is told to end: %v", err)
		}
		select {
		case <-second:
			t.Fatal("two pages are at key B")
		default:
		}
		other()
		first()
		(<-second)()
	})
}
