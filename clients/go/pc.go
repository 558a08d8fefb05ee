package logdrive

import "runtime"

// A callsite is told from others by the program counter behind its call. runtime.Callers finds it in some 100 ns, the
// chain of frame pointers in two loads, as the runtime's own tracer does it.

// pcIsKnown says whether callerPC tells what runtime.Callers tells. It is tried once, so that a compiler that lays
// frames out in another way costs time and not truth.
var pcIsKnown = tryCallerPC()

// placed is a program counter that callerPC has told to the function that calls this, or what is true where that cannot be
// believed.
func placed(pc uintptr) uintptr {
	if pcIsKnown {
		return pc
	}
	return walkPC(4)
}

//go:noinline
func tryCallerPC() bool {
	var fast, slow uintptr
	probePC(&fast, &slow)
	return fast != 0 && fast == slow
}

//go:noinline
func probePC(fast, slow *uintptr) {
	*fast = callerPC()
	*slow = walkPC(3)
}

// walkPC is the slow way; skip as in runtime.Callers.
//
//go:noinline
func walkPC(skip int) uintptr {
	var pcs [1]uintptr
	runtime.Callers(skip, pcs[:])
	return pcs[0]
}
