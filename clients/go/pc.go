package logdrive

import "runtime"

// A callsite is identified by the program counter behind its call. runtime.Callers finds it in some 100 ns, the chain of
// frame pointers in two loads, as the runtime's own tracer does it.

// pcIsKnown reports whether callerPC agrees with runtime.Callers. It is checked once, so that a compiler with another
// frame layout costs time and not correctness.
var pcIsKnown = tryCallerPC()

// placed returns the given program counter of callerPC or calledFrom, or where those do not work that of runtime.Callers;
// skip as there.
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

// walkPC asks runtime.Callers, which is slow; skip as there.
//
//go:noinline
func walkPC(skip int) uintptr {
	var pcs [1]uintptr
	runtime.Callers(skip, pcs[:])
	return pcs[0]
}
