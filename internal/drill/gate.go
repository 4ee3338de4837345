package drill

import "sync"

// gate keeps the ordinary stream out while a burst is on. It does not wait for processes that have been killed.
type gate struct {
	mu      sync.Mutex
	changed *sync.Cond
	shut    bool
	inside  map[*Process]int
}

func newGate() *gate {
	g := &gate{inside: map[*Process]int{}}
	g.changed = sync.NewCond(&g.mu)
	return g
}

// enter waits while the gate is shut.
func (g *gate) enter(p *Process) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.shut {
		g.changed.Wait()
	}
	g.inside[p]++
}

func (g *gate) leave(p *Process) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside[p]--
	if g.inside[p] == 0 {
		delete(g.inside, p)
	}
	g.changed.Broadcast()
}

// wake looks again who is inside: a process has been killed.
func (g *gate) wake() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.changed.Broadcast()
}

// close shuts the gate and waits until nobody is inside who could still do anything.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
	for g.busy() {
		g.changed.Wait()
	}
}

func (g *gate) busy() bool {
	for p := range g.inside {
		if !p.killed() {
			return true
		}
	}
	return false
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = false
	g.changed.Broadcast()
}
