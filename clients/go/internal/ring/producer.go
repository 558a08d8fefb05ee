package ring

import (
	"sync/atomic"
	"time"
	"unsafe"
)

// Producer is the writing end of a ring. One goroutine at a time has it, between Pin and Unpin of its shard. Its words
// lie on cache lines of their own.
type Producer struct {
	position uint64
	limit    uint64
	mask     uint64
	data     unsafe.Pointer
	header   unsafe.Pointer
	records  uint64
	episode  bool
	ring     *Ring
	bell     *Bell
	// most is the capacity of the largest ring of the session.
	most uint64
	_    [48]byte
}

// Admission is what the slow path decided.
type Admission int

// The decisions.
const (
	// Granted: write.
	Granted Admission = iota
	// GapDue: there are unreported drops; write gap records first, then ask again.
	GapDue
	// Dropped: no room; the drop is counted.
	Dropped
	// Park: no room yet; give the shard back, call Ring.Park, and begin anew.
	Park
)

// newProducer attaches to a free ring.
func newProducer(ring *Ring, bell *Bell, most int, name string) *Producer {
	header := ring.header()
	putText(header, headerThreadName, name, 32)
	store64(header, headerThreadID, threadID())
	ring.storeState(StateAttached)
	position := ring.Committed()
	return &Producer{
		position: position, limit: position, mask: ring.capacity - 1,
		data: ring.memory.base, header: header, records: ring.Records(), ring: ring, bell: bell,
		most: uint64(most),
	}
}

// Ring is what the producer writes.
func (p *Producer) Ring() *Ring { return p.ring }

// Fits reports whether a record can be written without reading shared words. A longer one may be too long for the ring.
func (p *Producer) Fits(length uint64) bool {
	return length <= RecordBytesSure && p.position+length <= p.limit
}

// Room returns the address of the next record, and the bytes up to the private limit. Behind a limit above 0 an eighth
// of the ring is always free.
func (p *Producer) Room() (unsafe.Pointer, uint64) {
	if p.limit < p.position {
		return nil, 0
	}
	return p.Space(), min(p.limit-p.position, RecordBytesSure)
}

// Space is where the next record goes; its bytes must have been admitted. A record never wraps, because the data area
// is mapped twice in a row.
func (p *Producer) Space() unsafe.Pointer {
	return unsafe.Add(p.data, p.position&p.mask)
}

// prefetchBytes is how far ahead of a record its successors' cache lines are asked for.
const prefetchBytes = 1024

// Seal writes the header of the record that has been put into Space, with the time of the processor's counter, and makes
// it visible. Only if HasCounter is true.
func (p *Producer) Seal(record unsafe.Pointer, length uint64, id uint32) { seal(p, record, length, id) }

// SealAt is Seal with a time that the caller has.
func (p *Producer) SealAt(record unsafe.Pointer, length uint64, id uint32, ticks uint64) {
	*(*uint32)(record) = uint32(length)
	*(*uint32)(unsafe.Add(record, 4)) = id
	*(*uint64)(unsafe.Add(record, 8)) = ticks
	p.Commit(length)
}

// Commit makes a record visible. From here on it survives SIGKILL.
func (p *Producer) Commit(length uint64) {
	p.position += length
	p.records++
	// SYNC(commit): the record's bytes are stored before the position that covers them.
	publish(p.header, p.position, p.records)
}

// CommitGap makes a gap record visible, which is not counted.
func (p *Producer) CommitGap(length uint64) {
	p.position += length
	// SYNC(commit)
	publish(p.header, p.position, p.records)
}

// Admit is the slow path of a reservation, in the steps of spec/ring.md. parked is set when the call has waited before.
func (p *Producer) Admit(length uint64, urgent bool, policy Policy, parked bool) Admission {
	ring := p.ring
	if ring.State() == StateQuarantined {
		// Without a consumer no room is ever made.
		ring.CountDrop(DropOther)
		return Dropped
	}
	if length > uint64(RecordBytesFor(int(ring.capacity))) {
		ring.CountDrop(DropTooLarge)
		p.limit = 0
		return Dropped
	}
	free := ring.free(p.position)
	room := hasRoom(free, ring.capacity, length, urgent)
	if p.episode {
		if free >= ring.capacity/2 {
			p.episode = false
		} else if !urgent {
			room = false
		}
	}
	if !room {
		if policy == PolicyBlock || policy == PolicyWait && !p.episode && !parked {
			return Park
		}
		p.episode = p.episode || policy == PolicyWait
		p.Refuse()
		return Dropped
	}
	allowed := uint64(0)
	if free > ring.capacity/8 {
		allowed = min(free-ring.capacity/8, ring.capacity/2)
	}
	p.limit = p.position + allowed
	if free < ring.capacity/2 {
		p.bell.Ring()
	}
	if ring.hasUnreported() {
		return GapDue
	}
	return Granted
}

// WantsLarger reports whether the ring has little room for a record, and a larger one may be had.
func (p *Producer) WantsLarger(length uint64, urgent bool) bool {
	ring := p.ring
	if ring.capacity >= p.most || ring.State() == StateQuarantined {
		return false
	}
	free := ring.free(p.position)
	// Less than half of it is free: the drain would be woken, which costs a system call each time.
	return length > uint64(RecordBytesFor(int(ring.capacity))) || free < ring.capacity/2 ||
		!hasRoom(free, ring.capacity, length, urgent)
}

// Refuse drops a call for want of room. The next call of any length takes the slow path and reports the gap.
func (p *Producer) Refuse() {
	p.ring.CountDrop(DropFull)
	p.limit = 0
}

// free is the number of bytes that may be written from a position on. SYNC(release)
func (r *Ring) free(position uint64) uint64 {
	used := position - r.Consumed()
	if used > r.capacity {
		// A consumer that runs ahead of us is broken; it frees nothing.
		return 0
	}
	return r.capacity - used
}

func hasRoom(free, capacity, length uint64, urgent bool) bool {
	if urgent {
		return free >= length
	}
	return free >= length+capacity/8
}

// parker lets one goroutine of a ring sleep in the kernel, and the others behind it: each sleep costs a thread.
type parker struct {
	// inside counts those that are in Park, or on their way to it.
	inside   atomic.Int32
	sleeping atomic.Bool
	gate     gate
}

// Enter announces a call of Park. The caller still has the shard, so that nobody ends the ring meanwhile.
func (r *Ring) Enter() { r.parker.inside.Add(1) }

// expel wakes those in Park, and waits until they have left the ring's memory, of which this is the header.
func (p *parker) expel(header unsafe.Pointer) {
	for p.inside.Load() > 0 {
		futexRouse(word32(header, headerSpace))
		p.gate.open()
		time.Sleep(100 * time.Microsecond)
	}
}

// Park sleeps until the drain has made room, at most so long; without the shard, which others may use meanwhile. It
// follows Enter.
func (r *Ring) Park(length uint64, urgent bool, most time.Duration, bell *Bell) {
	defer r.parker.inside.Add(-1)
	if !r.parker.sleeping.CompareAndSwap(false, true) {
		r.parker.gate.wait(most)
		return
	}
	header := r.header()
	// SYNC(space): a sequence read before the look at `consumed` cannot miss the wake that follows it.
	sequence := load32(header, headerSpace)
	// SYNC(park): the store is an exchange, and so a fence: the drain sees `waiting`, or we see what it released.
	store32(header, headerWaiting, 1)
	if !hasRoom(r.free(r.Committed()), r.capacity, length, urgent) {
		bell.Ring()
		futexSleep(word32(header, headerSpace), sequence, most)
	}
	r.parker.sleeping.Store(false)
	r.parker.gate.open()
}

// WriteGaps reports the unreported drops of the ring: a gap record for each reason. Counts that find no room are put
// back.
func (p *Producer) WriteGaps(encode func(to []byte, count uint64, reason string) []byte, ticks func() uint64) {
	counts := p.ring.TakeUnreported()
	var scratch [128]byte
	for reason, count := range counts {
		if count == 0 {
			continue
		}
		values := encode(scratch[:0], count, DropReason(reason).Text())
		length := uint64(16+len(values)+7) &^ 7
		if !hasRoom(p.ring.free(p.position), p.ring.capacity, length, true) {
			continue
		}
		at := p.Space()
		*(*uint64)(unsafe.Add(at, length-8)) = 0
		*(*uint32)(at) = uint32(length)
		*(*uint32)(unsafe.Add(at, 4)) = 0
		*(*uint64)(unsafe.Add(at, 8)) = ticks()
		copy(unsafe.Slice((*byte)(unsafe.Add(at, 16)), len(values)), values)
		p.CommitGap(length)
		counts[reason] = 0
	}
	p.ring.returnUnreported(counts)
}

// End gives the ring up: its owner writes no further records.
func (p *Producer) End() { p.ring.storeState(StateEnded) }
