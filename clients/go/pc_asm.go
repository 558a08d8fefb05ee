//go:build amd64 || arm64

package logdrive

// callerPC is the return address of the function that calls it: where that was called.
//
//go:noescape
func callerPC() uintptr

// calledFrom is the same for the function that called that one.
//
//go:noescape
func calledFrom() uintptr
