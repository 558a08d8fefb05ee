//go:build !amd64 && !arm64

package ring

import (
	"sync/atomic"
	"unsafe"
)

func counter() uint64 { return uint64(nanotime()) }

func publish(header unsafe.Pointer, position, records uint64) {
	// SYNC(commit)
	atomic.StoreUint64(word64(header, headerCommitted), position)
	atomic.StoreUint64(word64(header, headerRecords), records)
}

func seal(p *Producer, record unsafe.Pointer, length uint64, id uint32) {
	p.SealAt(record, length, id, counter())
}

func detectClock() ClockSource { return ClockMonotonic }
