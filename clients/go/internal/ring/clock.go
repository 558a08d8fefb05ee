package ring

import (
	"math/bits"
	"time"
	_ "unsafe" // for go:linkname
)

// ClockSource is the source of ticks, with its code in the session header.
type ClockSource uint32

// The sources of spec/session.md.
const (
	// ClockCounter is the time-stamp counter of x86-64.
	ClockCounter ClockSource = iota + 1
	// ClockVirtual is cntvct_el0 of aarch64.
	ClockVirtual
	// ClockMonotonic is CLOCK_MONOTONIC in nanoseconds.
	ClockMonotonic
)

// machineClock is the clock of this machine.
var machineClock = detectClock()

//go:linkname nanotime runtime.nanotime
func nanotime() int64

// Ticks reads the clock of this machine.
func Ticks() uint64 {
	if machineClock == ClockMonotonic {
		return uint64(nanotime())
	}
	return counter()
}

// HasCounter reports whether Ticks is Counter.
func HasCounter() bool { return machineClock != ClockMonotonic }

// Counter is the processor's counter, valid only if HasCounter is true.
func Counter() uint64 { return counter() }

// MachineClock is the source of Ticks.
func MachineClock() ClockSource { return machineClock }

// Calibration turns ticks into nanoseconds since 1970.
type Calibration struct {
	BaseTicks, BaseUnixNs, NsPerTickQ32 uint64
}

// UnixNs is the time of a reading of the clock, in integers as in spec/session.md.
func (c Calibration) UnixNs(ticks uint64) uint64 {
	delta := int64(ticks - c.BaseTicks)
	high, low := bits.Mul64(uint64(delta), c.NsPerTickQ32)
	if delta < 0 {
		// The product above took delta for an unsigned number, which is 2^64 more.
		high -= c.NsPerTickQ32
	}
	// Shifting the 128 bits is floor also below zero.
	return c.BaseUnixNs + (high<<32 | low>>32)
}

// unixNow is the wall clock in nanoseconds.
func unixNow() uint64 { return uint64(time.Now().UnixNano()) }
