package ring

import "unsafe"

//go:noescape
func counter() uint64

//go:noescape
func publish(header unsafe.Pointer, position, records uint64)

//go:noescape
func seal(p *Producer, record unsafe.Pointer, length uint64, id uint32)

//go:noescape
func cpuid(leaf uint32) (eax, edx uint32)

// detectClock chooses the session's clock: the time-stamp counter, where it runs at a constant rate in all
// states.
func detectClock() ClockSource {
	if largest, _ := cpuid(0x8000_0000); largest >= 0x8000_0007 {
		if _, edx := cpuid(0x8000_0007); edx&(1<<8) != 0 {
			return ClockCounter
		}
	}
	return ClockMonotonic
}
