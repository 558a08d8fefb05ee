//go:build race || logdrive_portable

package ring

import (
	"runtime"
	"sync"
)

// With the race detector, which does not know what pinning means, a shard is behind a lock. A hint that stays with the
// P makes it free in the common case; the hint is a number, so that a pool that forgets it loses nothing.
var (
	shardLocks [Shards + 1]struct {
		sync.Mutex
		_ [56]byte
	}
	hints    = sync.Pool{New: func() any { return newHint() }}
	nextHint struct {
		sync.Mutex
		next int
	}
)

func newHint() *int {
	nextHint.Lock()
	defer nextHint.Unlock()
	hint := nextHint.next % runtime.GOMAXPROCS(0) % Shards
	nextHint.next++
	return &hint
}

// Pin gives the calling goroutine a shard until Unpin. In between it must not block, and not run foreign code.
func Pin() int {
	hint := hints.Get().(*int)
	shard := *hint
	hints.Put(hint)
	shardLocks[shard].Lock()
	return shard
}

// Unpin gives the shard back.
func Unpin(shard int) { shardLocks[shard].Unlock() }

// Hold is as Pin.
func Hold() int { return Pin() }

// HoldShared gives the shard of those that have no ring of their own.
func HoldShared() int {
	shardLocks[Shards].Lock()
	return Shards
}

// Release is as Unpin.
func Release(shard int) { Unpin(shard) }

// awaitPinned waits until every shard that was held has been given back.
func awaitPinned() {
	for shard := range shardLocks {
		shardLocks[shard].Lock()
		shardLocks[shard].Unlock()
	}
}
