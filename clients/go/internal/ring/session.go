package ring

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// Offsets of the session header, which spec/session.md draws.
const (
	sessionMagic       = 0
	sessionPid         = 8
	sessionClock       = 12
	sessionStart       = 16
	sessionFlags       = 24
	sessionApp         = 32
	sessionCalibration = 128
	sessionCoarse      = 192
	sessionAsleep      = 200
	sessionRings       = 256
	sessionCallsites   = 260
	sessionTableBytes  = 264
	sessionDisabled    = 272
	sessionDropped     = 320
	sessionSignal      = 384
	sessionPanics      = 388

	sessionBytes = 4096
	// sessionMagicWord is `LDSESS` and the format's version.
	sessionMagicWord = 0x0001_5353_4553_444c
	flagDone         = 1
)

// Shards is the number of Ps that have a ring of their own; further ones share one.
const Shards = 1024

// Options configure a new session.
type Options struct {
	// App is the application's name.
	App string
	// RunDirs are tried in order: the first that is safe and has room is taken.
	RunDirs []string
	// RingBytes is the capacity of each ring, rounded up to a power of two.
	RingBytes int
	// Config describes the sinks, for the drain and for recovery.
	Config string
	// Sinks is the number of sinks that Config describes.
	Sinks int
}

// Session is the shared memory of this process. Its mappings stay until the process ends, because callsites point into
// them.
type Session struct {
	header   unsafe.Pointer
	control  growing
	counts   growing
	table    growing
	rules    *rulesFile
	home     home
	capacity int
	bell     *Bell

	registering sync.Mutex
	registered  uint32
	tableBytes  uintptr

	ringsLock sync.Mutex
	rings     []*Ring

	shards [Shards + 1]atomic.Pointer[Producer]
}

// home is where the memory of a session comes from.
type home interface {
	// makeRing makes or gets a ring. Called with the lock of the rings.
	makeRing(s *Session, index int) (*Ring, error)
	// path is the session's directory, or the agent's socket.
	path() string
	// remove deletes the session after all records have reached the log.
	remove() error
}

// Create creates a session in the first usable run directory, and returns the errors of those before it.
func Create(options Options) (*Session, []error, error) {
	var failed []error
	for _, runDir := range options.RunDirs {
		session, err := createIn(runDir, options)
		if err == nil {
			return session, failed, nil
		}
		failed = append(failed, err)
	}
	if len(failed) == 0 {
		return nil, nil, fmt.Errorf("no run directory was given")
	}
	return nil, failed[:len(failed)-1], failed[len(failed)-1]
}

func createIn(runDir string, options Options) (*Session, error) {
	if options.Sinks > SinksMax || len(options.Config) > ConfigBytesMax {
		return nil, fmt.Errorf("%d sinks in %d bytes of text; at most %d in %d",
			options.Sinks, len(options.Config), SinksMax, ConfigBytesMax)
	}
	dir, err := newDirectory(runDir, options.App)
	if err != nil {
		return nil, err
	}
	session, err := dir.fill(options)
	if err != nil {
		_ = dir.remove() // The session is incomplete; the first error is the one to return.
		return nil, err
	}
	return session, nil
}

// growing is a file that is mapped in its full size, and whose blocks are reserved step by step.
type growing struct {
	file     *os.File
	memory   mapping
	reserved int64
}

func newGrowing(file *os.File, most int64) (growing, error) {
	memory, err := mapPlain(file, uintptr(most))
	return growing{file: file, memory: memory, reserved: ReserveStepBytes}, err
}

// atLeast makes sure that the first bytes may be touched. Called with the lock of the registration.
func (g *growing) atLeast(bytes int64) error {
	if bytes <= g.reserved {
		return nil
	}
	wanted := (bytes + ReserveStepBytes - 1) / ReserveStepBytes * ReserveStepBytes
	if err := reserve(g.file, g.reserved, wanted); err != nil {
		return err
	}
	g.reserved = wanted
	return nil
}

// Path is the session's directory, or the socket of its agent.
func (s *Session) Path() string { return s.home.path() }

// Bell wakes the session's drain.
func (s *Session) Bell() *Bell { return s.bell }

// RecordBytesMax is the longest record of the session's rings.
func (s *Session) RecordBytesMax() int { return RecordBytesFor(s.capacity) }

// CoarseTicks is the word of the coarse clock, which the drain renews.
func (s *Session) CoarseTicks() *uint64 { return word64(s.header, sessionCoarse) }

// Control is the entry of a callsite in shared memory.
type Control struct{ at unsafe.Pointer }

// Control words.
const (
	Off        = 0
	On         = 1
	OffCounted = 2
	Every      = 3
	PerSecond  = 4
	PerKey     = 5
)

const (
	controlBytes     = 32
	controlID        = 4
	controlParameter = 8
	controlBase      = 16
	controlBudget    = 20
	controlTwin      = 24
	countsBytes      = 32
	countsDropped    = 16
	countsSampled    = 24
)

// Word is the control word, which every call loads.
func (c Control) Word() uint32 { return atomic.LoadUint32((*uint32)(c.at)) }

// Parameter is the argument of the control word, such as a sampling rate.
func (c Control) Parameter() uint64 { return load64(c.at, controlParameter) }

// TakeBudget takes one of the calls that may pass.
func (c Control) TakeBudget() bool {
	word := word32(c.at, controlBudget)
	for {
		left := atomic.LoadUint32(word)
		if left == 0 {
			return false
		}
		if atomic.CompareAndSwapUint32(word, left, left-1) {
			return true
		}
	}
}

// SampledVariant is the callsite of kept records of a sample, 0 while there is none.
func (c Control) SampledVariant() uint32 { return load32(c.at, controlTwin) }

// SetSampledVariant stores it.
func (c Control) SetSampledVariant(id uint32) { store32(c.at, controlTwin, id) }

// Counts holds the counters of a callsite.
type Counts struct{ at unsafe.Pointer }

// AddDropped counts calls whose record was dropped.
func (c Counts) AddDropped(calls uint64) { atomic.AddUint64(word64(c.at, countsDropped), calls) }

// AddSampledOut counts calls that sampling left out.
func (c Counts) AddSampledOut(calls uint64) { atomic.AddUint64(word64(c.at, countsSampled), calls) }

// SampledOut is their number.
func (c Counts) SampledOut() uint64 { return load64(c.at, countsSampled) }

// Entry is a registered callsite.
type Entry struct {
	ID      uint32
	Control Control
	Counts  Counts
}

// Register appends a callsite to the table, with the control word of the process's own filter; rules are applied by
// Settle. It takes a lock: for the first call of a callsite only.
func (s *Session) Register(callsite []byte, base uint32) (Entry, error) {
	s.registering.Lock()
	defer s.registering.Unlock()
	id := s.registered
	end := (s.tableBytes + 8 + uintptr(len(callsite)) + 7) &^ 7
	if id >= CallsitesMax || end > TableBytesMax {
		return Entry{}, fmt.Errorf("the callsite table is full: %d callsites, %d bytes", id, s.tableBytes)
	}
	if err := s.table.atLeast(int64(end)); err != nil {
		return Entry{}, err
	}
	if err := s.control.atLeast((int64(id) + 1) * controlBytes); err != nil {
		return Entry{}, err
	}
	if err := s.counts.atLeast((int64(id) + 1) * countsBytes); err != nil {
		return Entry{}, err
	}
	at := unsafe.Add(s.table.memory.base, s.tableBytes)
	*(*uint32)(at) = uint32(len(callsite))
	*(*uint32)(unsafe.Add(at, 4)) = id
	copy(unsafe.Slice((*byte)(unsafe.Add(at, 8)), len(callsite)), callsite)
	entry := Entry{
		ID:      id,
		Control: Control{unsafe.Add(s.control.memory.base, uintptr(id)*controlBytes)},
		Counts:  Counts{unsafe.Add(s.counts.memory.base, uintptr(id)*countsBytes)},
	}
	store32(entry.Control.at, controlID, id)
	store32(entry.Control.at, controlBase, base)
	store32(entry.Control.at, 0, base)
	s.registered++
	s.tableBytes = end
	// SYNC(callsite), and SYNC(settle): these stores are exchanges, and so fences.
	store64(s.header, sessionTableBytes, uint64(end))
	store32(s.header, sessionCallsites, s.registered)
	return entry, nil
}

// Dropped counts calls that found no ring, or no place in the table.
func (s *Session) CountDrop(reason DropReason) {
	atomic.AddUint64(word64(s.header, sessionDropped+8*uintptr(reason)), 1)
}

// AddDisabled counts calls that their level switched off.
func (s *Session) AddDisabled(calls uint64) {
	atomic.AddUint64(word64(s.header, sessionDisabled), calls)
}

// NotePanic counts a panic.
func (s *Session) NotePanic() { atomic.AddUint32(word32(s.header, sessionPanics), 1) }

// Shard is the producer of a shard; nil before its first call. The caller has the shard.
func (s *Session) Shard(shard int) *Producer {
	if uint(shard) > Shards {
		return nil
	}
	return s.shards[shard].Load()
}

// Attach gives a shard its ring. The caller does not have the shard: a ring takes some milliseconds to make, because
// all of its pages are touched now rather than later.
func (s *Session) Attach(shard int) error {
	s.ringsLock.Lock()
	defer s.ringsLock.Unlock()
	if s.shards[shard].Load() != nil {
		return nil
	}
	if len(s.rings) >= RingsMax {
		return fmt.Errorf("the session has its most rings, %d", RingsMax)
	}
	ring, err := s.freeRing()
	if err != nil {
		return err
	}
	s.shards[shard].Store(newProducer(ring, s.bell, fmt.Sprintf("P%d", shard)))
	return nil
}

// freeRing finds a ring that no shard has, or makes one. Called with the lock of the rings.
func (s *Session) freeRing() (*Ring, error) {
	for _, ring := range s.rings {
		if ring.State() == StateFree && !s.isHeld(ring) {
			return ring, nil
		}
	}
	ring, err := s.home.makeRing(s, len(s.rings))
	if err != nil {
		return nil, err
	}
	s.enter(ring)
	return ring, nil
}

func (s *Session) isHeld(ring *Ring) bool {
	for shard := range s.shards {
		if producer := s.shards[shard].Load(); producer != nil && producer.ring == ring {
			return true
		}
	}
	return false
}

// enter adds a ring to the session. SYNC(ring count)
func (s *Session) enter(ring *Ring) {
	s.rings = append(s.rings, ring)
	store32(s.header, sessionRings, uint32(len(s.rings)))
}

// Rings are the rings made so far.
func (s *Session) Rings() []*Ring {
	s.ringsLock.Lock()
	defer s.ringsLock.Unlock()
	return append([]*Ring(nil), s.rings...)
}

// Stats are the numbers of a session.
type Stats struct {
	Records, Cut uint64
	Pending      uint64
	Disabled     uint64
	Dropped      [DropReasons]uint64
	Rings        int
	Callsites    int
}

// Stats adds up the counts of the ring headers.
func (s *Session) Stats() Stats {
	stats := Stats{Callsites: int(load32(s.header, sessionCallsites)), Disabled: load64(s.header, sessionDisabled)}
	for _, ring := range s.Rings() {
		stats.Rings++
		stats.Records += ring.Records()
		stats.Cut += ring.Cut()
		stats.Pending += ring.Committed() - ring.Consumed()
		for reason, count := range ring.Dropped() {
			stats.Dropped[reason] += count
		}
	}
	for reason := range stats.Dropped {
		stats.Dropped[reason] += load64(s.header, sessionDropped+8*uintptr(reason))
	}
	return stats
}

// MarkDone marks the session as complete: all records have reached the log. SYNC(done)
func (s *Session) markDone() {
	atomic.OrUint64(word64(s.header, sessionFlags), flagDone)
}

// Remove deletes the session after all records have reached the log.
func (s *Session) Remove() error {
	s.markDone()
	return s.home.remove()
}

// Close ends the shards: no further records are written. The memory stays mapped for late calls.
func (s *Session) EndRings() {
	s.ringsLock.Lock()
	defer s.ringsLock.Unlock()
	for shard := range s.shards {
		if producer := s.shards[shard].Load(); producer != nil {
			producer.End()
		}
	}
}

// WaitConsumed waits until a position sum moves; for progress checks.
func (s *Session) consumedSum() (sum uint64) {
	for _, ring := range s.Rings() {
		sum += ring.Consumed()
	}
	return sum
}

// Progress detects a drain that has stopped taking records.
type Progress struct {
	session  *Session
	consumed uint64
	since    time.Time
}

// NewProgress starts the measurement.
func (s *Session) NewProgress() *Progress {
	return &Progress{session: s, consumed: s.consumedSum(), since: time.Now()}
}

// Stalled returns the time since the drain last took a record.
func (p *Progress) Stalled() time.Duration {
	if consumed := p.session.consumedSum(); consumed != p.consumed {
		p.consumed, p.since = consumed, time.Now()
	}
	return time.Since(p.since)
}

func formatHeader(header unsafe.Pointer, app string) {
	store32(header, sessionPid, uint32(os.Getpid()))
	store32(header, sessionClock, uint32(MachineClock()))
	store64(header, sessionStart, unixNow())
	putText(header, sessionApp, app, 64)
	store64(header, sessionCoarse, Ticks())
	// SYNC(session): stored last.
	store64(header, sessionMagic, sessionMagicWord)
}

// checkHeader validates a session header. The error names the field.
func checkHeader(header unsafe.Pointer) error {
	damaged := func(field string, found uint64, expected string) error {
		return &DamageError{"session header", field, found, expected}
	}
	if magic := load64(header, sessionMagic); magic != sessionMagicWord {
		return damaged("magic", magic, "LDSESS and version 1")
	}
	if source := load32(header, sessionClock); source < uint32(ClockCounter) || source > uint32(ClockMonotonic) {
		return damaged("clock source", uint64(source), "1, 2 or 3")
	}
	if rings := load32(header, sessionRings); rings > RingsMax {
		return damaged("ring count", uint64(rings), "at most 4096")
	}
	if callsites := load32(header, sessionCallsites); callsites > CallsitesMax {
		return damaged("callsite count", uint64(callsites), "at most 65536")
	}
	if bytes := load64(header, sessionTableBytes); bytes > TableBytesMax {
		return damaged("table bytes", bytes, "at most 16 MiB")
	}
	return nil
}

// TableEntry is an entry of a callsite table.
type TableEntry struct {
	ID    uint32
	Bytes []byte
}

// SplitTable takes a callsite table apart, up to the first entry that breaks the format.
func SplitTable(bytes []byte) []TableEntry {
	var entries []TableEntry
	for len(bytes) >= 8 {
		length := uint64(bytes[0]) | uint64(bytes[1])<<8 | uint64(bytes[2])<<16 | uint64(bytes[3])<<24
		id := uint32(bytes[4]) | uint32(bytes[5])<<8 | uint32(bytes[6])<<16 | uint32(bytes[7])<<24
		if length == 0 || id >= CallsitesMax || length > uint64(len(bytes)-8) {
			break
		}
		entries = append(entries, TableEntry{id, bytes[8 : 8+length]})
		bytes = bytes[min(uint64(len(bytes)), (8+length+7)&^7):]
	}
	return entries
}
