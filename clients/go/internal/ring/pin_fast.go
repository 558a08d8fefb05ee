//go:build !race && !logdrive_portable

package ring

import (
	"runtime"
	"sync"
	_ "unsafe" // for go:linkname
)

// Pinned goroutines are not preempted and stay on their P, so that what belongs to the P is theirs alone: the rings of
// this package, as the caches of sync.Pool. The runtime keeps these two names for packages that link to them (see
// runtime/proc.go, go.dev/issue/67401); the build tag logdrive_portable does without.

//go:linkname procPin runtime.procPin
func procPin() int

//go:linkname procUnpin runtime.procUnpin
func procUnpin()

// Pin gives the calling goroutine the shard of its P until Unpin. In between it must not block, and not run foreign code.
// Where there are more Ps than shards, the number may be none of a shard; then [Session.Shard] has nothing, and Hold has.
func Pin() int { return procPin() }

// Unpin gives the shard back.
func Unpin(int) { procUnpin() }

// last guards the shard of all Ps that have none of their own.
var last sync.Mutex

// Hold is as Pin, and always gives a shard.
func Hold() int {
	if shard := procPin(); shard < Shards {
		return shard
	}
	procUnpin()
	return HoldShared()
}

// HoldShared gives the shard of those that have no ring of their own. It may wait for another one that has it.
func HoldShared() int {
	last.Lock()
	return Shards
}

// Release gives a shard of Hold back.
func Release(shard int) {
	if shard == Shards {
		last.Unlock()
		return
	}
	procUnpin()
}

// awaitPinned waits until every goroutine that was pinned has been unpinned. ReadMemStats stops the world, which waits for
// the goroutines that may not be preempted; sync.Pool, whose caches are taken while the world stands, depends on the same.
func awaitPinned() {
	var unused runtime.MemStats
	runtime.ReadMemStats(&unused)
	last.Lock()
	defer last.Unlock()
}
