//go:build !race && !logdrive_portable

package ring

import _ "unsafe" // for go:linkname

// Pinned goroutines are not preempted and stay on their P, so that what belongs to the P is theirs alone: the rings of
// this package, as the caches of sync.Pool. The runtime keeps these two names for packages that link to them (see
// runtime/proc.go, go.dev/issue/67401); the build tag logdrive_portable does without.

//go:linkname procPin runtime.procPin
func procPin() int

//go:linkname procUnpin runtime.procUnpin
func procUnpin()

// Pin gives the calling goroutine a shard until Unpin. In between it must not block, and not run foreign code.
func Pin() int { return procPin() & (Shards - 1) }

// Unpin gives the shard back.
func Unpin(int) { procUnpin() }
