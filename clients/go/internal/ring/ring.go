// Package ring writes rings and sessions in shared memory, as spec/ring.md and spec/session.md draw them. It carries
// opaque bytes: what a record means is not known here.
//
// All words that another process may touch are read and written with sync/atomic, or by a few lines of assembly where
// sync/atomic would cost an exchange. Shared memory lies outside of Go's heap: the collector does not move or free it,
// and the race detector does not see it; what goroutines share besides is plain Go.
package ring

import (
	"fmt"
	"math/bits"
	"os"
	"sync/atomic"
	"unsafe"
)

// Offsets of the header, which spec/ring.md draws.
const (
	headerMagic      = 0
	headerState      = 8
	headerCapacity   = 16
	headerThreadID   = 24
	headerThreadName = 32
	headerCommitted  = 64
	headerRecords    = 72
	headerDropped    = 128
	headerUnreported = 192
	headerConsumed   = 256
	headerCells      = 272
	headerWaiting    = 320
	headerSpace      = 324
	headerCut        = 328
)

// ringMagic is `LDRING` and the format's version.
const ringMagic = 0x0001_474e_4952_444c

// State is the owner of a ring.
type State uint32

// The states; any other number means quarantined.
const (
	StateFree State = iota
	StateAttached
	StateEnded
	StateQuarantined
)

// Ring is the shared memory of one ring.
type Ring struct {
	memory   mapping
	capacity uint64
	index    int      // its number in the session
	file     *os.File // kept for an agent that adopts the session; nil in a directory
	parker   parker
}

// CapacityFor rounds a number of bytes to a capacity that the format allows.
func CapacityFor(bytes int) int {
	bytes = max(BytesMin, min(bytes, BytesMax))
	return 1 << bits.Len(uint(bytes-1))
}

// RecordBytesFor is the longest record of rings of a capacity.
func RecordBytesFor(capacity int) int { return min(RecordBytesMax, capacity/8) }

// FileBytes is the size of a ring's file.
func FileBytes(capacity int) int64 { return int64(capacity) + HeaderBytes }

// create makes a ring of a new file, whose blocks are reserved. With populate its pages are touched now.
func create(file *os.File, capacity int, populate bool) (*Ring, error) {
	ring, err := mapped(file, capacity, populate)
	if err != nil {
		return nil, err
	}
	// Published by the session's ring count, or by the message that shows the ring.
	store64(ring.header(), headerCapacity, uint64(capacity))
	store64(ring.header(), headerMagic, ringMagic)
	return ring, nil
}

// DamageError names a field of shared memory that violates the format.
type DamageError struct {
	What, Field string
	Found       uint64
	Expected    string
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("%s: %s is %d, expected %s", e.What, e.Field, e.Found, e.Expected)
}

// open opens an existing ring: checks the length of its file, then its header.
func open(file *os.File, populate bool) (*Ring, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("look at %s: %w", file.Name(), err)
	}
	capacity := info.Size() - HeaderBytes
	if capacity < BytesMin || capacity > BytesMax || capacity&(capacity-1) != 0 {
		return nil, &DamageError{"ring header", "file size", uint64(info.Size()),
			"4096 bytes more than a power of two from 64 KiB to 1 GiB"}
	}
	ring, err := mapped(file, int(capacity), populate)
	if err != nil {
		return nil, err
	}
	if err := ring.check(); err != nil {
		_ = ring.memory.unmap() // No drain has seen it.
		return nil, err
	}
	return ring, nil
}

func (r *Ring) check() error {
	if magic := load64(r.header(), headerMagic); magic != ringMagic {
		return &DamageError{"ring header", "magic", magic, "LDRING and version 1"}
	}
	if capacity := load64(r.header(), headerCapacity); capacity != r.capacity {
		return &DamageError{"ring header", "capacity", capacity, "the length of the file without its header"}
	}
	return nil
}

func mapped(file *os.File, capacity int, populate bool) (*Ring, error) {
	memory, err := mapRing(file, uintptr(capacity), populate)
	if err != nil {
		return nil, err
	}
	return &Ring{memory: memory, capacity: uint64(capacity)}, nil
}

func (r *Ring) header() unsafe.Pointer {
	return unsafe.Add(r.memory.base, 2*r.capacity)
}

// State returns the owner of the ring. SYNC(state)
func (r *Ring) State() State {
	return min(State(load32(r.header(), headerState)), StateQuarantined)
}

func (r *Ring) storeState(state State) {
	// SYNC(state)
	store32(r.header(), headerState, uint32(state))
}

// Consumed is the position up to which the drain is done.
func (r *Ring) Consumed() uint64 { return load64(r.header(), headerConsumed) }

// Committed is the position behind the last record.
func (r *Ring) Committed() uint64 { return load64(r.header(), headerCommitted) }

// Records is the number of records, gap records not counted.
func (r *Ring) Records() uint64 { return load64(r.header(), headerRecords) }

// Cut is the number of records whose values were cut.
func (r *Ring) Cut() uint64 { return load64(r.header(), headerCut) }

// Dropped is the number of calls that were dropped, by reason.
func (r *Ring) Dropped() (counts [DropReasons]uint64) {
	for reason := range counts {
		counts[reason] = load64(r.header(), headerDropped+8*uintptr(reason))
	}
	return counts
}

// CountDrop counts a call that left no record.
func (r *Ring) CountDrop(reason DropReason) {
	atomic.AddUint64(word64(r.header(), headerDropped+8*uintptr(reason)), 1)
	atomic.AddUint64(word64(r.header(), headerUnreported+8*uintptr(reason)), 1)
}

// CountCut counts a record whose values were cut.
func (r *Ring) CountCut() { atomic.AddUint64(word64(r.header(), headerCut), 1) }

func (r *Ring) hasUnreported() bool {
	for reason := range DropReasons {
		if load64(r.header(), headerUnreported+8*uintptr(reason)) != 0 {
			return true
		}
	}
	return false
}

// TakeUnreported takes the drops that no gap record has reported. Each is returned once.
func (r *Ring) TakeUnreported() (counts [DropReasons]uint64) {
	for reason := range counts {
		word := word64(r.header(), headerUnreported+8*uintptr(reason))
		if atomic.LoadUint64(word) != 0 {
			counts[reason] = atomic.SwapUint64(word, 0)
		}
	}
	return counts
}

// returnUnreported adds drops back that could not be reported.
func (r *Ring) returnUnreported(counts [DropReasons]uint64) {
	for reason, count := range counts {
		if count != 0 {
			atomic.AddUint64(word64(r.header(), headerUnreported+8*uintptr(reason)), count)
		}
	}
}

// Pending is the number of bytes that a consumer finds at the ring's position, as spec/ring.md has it; for tests and
// for reading one's own ring.
func (r *Ring) pending(consumed uint64) (uint64, error) {
	committed := r.Committed()
	pending := committed - consumed
	if pending > r.capacity || pending%8 != 0 {
		return 0, &DamageError{"ring header", "committed position", committed,
			"at most one ring ahead of the consumer, in steps of 8"}
	}
	return pending, nil
}

// resumePosition is where a recoverer starts: the newest whole cell that is not above the epoch, if it is not behind
// `consumed`.
func (r *Ring) resumePosition(epoch uint64) uint64 {
	consumed := r.Consumed()
	best, position := uint64(0), consumed
	for cell := range uintptr(2) {
		drained := load64(r.header(), headerCells+16*cell+8)
		of, whole := unguarded(load64(r.header(), headerCells+16*cell), drained)
		if whole && of != 0 && of <= epoch && of > best {
			best, position = of, drained
		}
	}
	if int64(position-consumed) < 0 {
		return consumed
	}
	return position
}
