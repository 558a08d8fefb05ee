package ring

import (
	"sync"
	"time"
)

// gate holds goroutines back until it is opened once, or their time is over.
type gate struct {
	lock    sync.Mutex
	waiting chan struct{}
}

func (g *gate) wait(most time.Duration) {
	g.lock.Lock()
	if g.waiting == nil {
		g.waiting = make(chan struct{})
	}
	waiting := g.waiting
	g.lock.Unlock()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-waiting:
	case <-timer.C:
	}
}

func (g *gate) open() {
	g.lock.Lock()
	if g.waiting != nil {
		close(g.waiting)
		g.waiting = nil
	}
	g.lock.Unlock()
}
