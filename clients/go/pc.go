package logdrive

import "runtime"

// A callsite is told from others by the program counter behind its call. runtime.Callers finds it in some 100 ns, the
// chain of frame pointers in two loads, as the runtime's own tracer does it.

// pcIsKnown says whether callerPC tells what runtime.Callers tells. It is tried once, so that a compiler that lays
// frames out in another way costs time and not truth.
var pcIsKnown = tryCallerPC()

// placed is a program counter that callerPC or calledFrom has told to the function that calls this, or what is true where
// that cannot be believed; skip as in runtime.Callers.
func placed(pc uintptr, skip int) uintptr {
	if pcIsKnown {
		return pc
	}
	return walkPC(skip)
}

//go:noinline
func tryCallerPC() bool {
	var near, far, slow uintptr
	probePC(&near, &far, &slow)
	return near != 0 && near == slow && far != 0 && far == walkPC(3)
}

//go:noinline
func probePC(near, far, slow *uintptr) {
	*near, *far = callerPC(), calledFrom()
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
