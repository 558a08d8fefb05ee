package ring

import (
	"sync/atomic"
	"unsafe"
)

// Bell wakes the drain of a session, which is in another process: a sidecar sleeps on the word `drain_asleep` itself, an
// agent wants a message.
type Bell struct {
	asleep *uint32
	// agent sends the message; nil for a sidecar. It never waits.
	agent func()
}

func newBell(header unsafe.Pointer) *Bell { return &Bell{asleep: word32(header, sessionAsleep)} }

// Ring wakes the drain if it sleeps; a load otherwise. SYNC(bell)
func (b *Bell) Ring() {
	if atomic.LoadUint32(b.asleep) != 1 || atomic.SwapUint32(b.asleep, 0) != 1 {
		return
	}
	if b.agent != nil {
		b.agent()
		return
	}
	futexRouse(b.asleep)
}
