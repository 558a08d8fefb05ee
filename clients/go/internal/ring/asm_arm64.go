package ring

import "unsafe"

//go:noescape
func counter() uint64

//go:noescape
func publish(header unsafe.Pointer, position, records uint64)

//go:noescape
func seal(p *Producer, record unsafe.Pointer, length uint64, id uint32)

func detectClock() ClockSource { return ClockVirtual }
