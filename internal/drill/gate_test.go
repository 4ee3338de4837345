package drill

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// A gate that shuts waits for those inside, but not for the dead, and keeps the others out until it opens.
func TestGate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, alive, dying := newGate(), newProcess(nil, 1), newProcess(nil, 1)
		g.enter(alive)
		g.enter(dying)
		shut := false
		go func() {
			g.close()
			shut = true
		}()
		synctest.Wait()
		if shut {
			t.Fatal("it shut while two were inside")
		}
		g.leave(alive)
		synctest.Wait()
		if shut {
			t.Fatal("it shut while one was inside")
		}
		dying.kill()
		g.wake()
		synctest.Wait()
		if !shut {
			t.Fatal("it waits for the dead")
		}
		entered := false
		go func() {
			g.enter(alive)
			entered = true
		}()
		synctest.Wait()
		if entered {
			t.Fatal("it let somebody in while it was shut")
		}
		g.open()
		synctest.Wait()
		if !entered {
			t.Fatal("it is open and lets nobody in")
		}
	})
}

// Injections strike in the order of the schedule, whoever comes first to do them.
func TestInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &run{}
		r.turns = sync.NewCond(&r.mu)
		var order []int
		for turn := range 20 {
			go r.inTurn(19-turn, func() { order = append(order, 19-turn) })
			if turn < 19 {
				synctest.Wait()
				if len(order) > 0 {
					t.Fatalf("%v struck before the first", order)
				}
			}
		}
		synctest.Wait()
		if len(order) != 20 || !slices.IsSorted(order) {
			t.Errorf("they struck in the order %v", order)
		}
	})
}
