package ring

import (
	"errors"
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
	sessionDone        = 24
	sessionApp         = 32
	sessionProcess     = 96
	sessionChecksum    = 120
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
	sessionStartKills  = 416

	sessionBytes = 4096
	// sessionMagicWord is `LDSESS` and the format's version.
	sessionMagicWord = 0x0002_5353_4553_444c
)

// Shards is the number of Ps that have a ring of their own; further ones share one.
const Shards = 1024

// Options configure a new session.
type Options struct {
	// App is the application's name.
	App string
	// RunDirs are tried in order: the first that is safe and has room is taken.
	RunDirs []string
	// RingBytes is the capacity of the largest ring of a P, rounded up to a power of two. It gets smaller ones first.
	RingBytes int
	// Config describes the sinks, for the drain and for recovery.
	Config string
	// Sinks is the number of sinks that Config describes.
	Sinks int
	// RunAs is the user that the program becomes; nil for none.
	RunAs *User
}

// User is a user and a group, by their numbers.
type User struct{ UID, GID int }

// Session is the shared memory of this process. Callsites point into its mappings, which Release gives back.
type Session struct {
	header  unsafe.Pointer
	control growing
	counts  growing
	table   growing
	rules   *rulesFile
	home    home
	// capacity is that of the largest ring of a shard, first that of its first one.
	capacity, first int
	bell            *Bell

	registering sync.Mutex
	registered  uint32
	tableBytes  uintptr

	ringsLock sync.Mutex
	rings     []*Ring
	// smallest is the capacity of the smallest ring in use, if that is not the usual one.
	smallest atomic.Int64
	// noRoomUntil is the time, in nanoseconds since 1970, before which no other ring is tried: there was no room for one.
	noRoomUntil atomic.Int64
	// noLargerUntil is the same for rings that replace smaller ones.
	noLargerUntil atomic.Int64
	// ended is set when no shard gets a ring any more.
	ended bool
	// final holds the numbers of a session that was released.
	final *Stats

	shards [Shards + 1]atomic.Pointer[Producer]
	// larger has the producers of rings that are to replace those of the shards.
	larger [Shards + 1]atomic.Pointer[Producer]
}

// home is where the memory of a session comes from.
type home interface {
	// makeRing makes or gets a ring of at most that capacity. Called with the lock of the rings.
	makeRing(s *Session, index, capacity int) (*Ring, error)
	// makeLarger makes a ring without a number. number gives it one, or takes its file away for one below 0.
	makeLarger(capacity int) (ring *Ring, number func(index int) error, err error)
	// path is the session's directory, or the agent's socket.
	path() string
	// remove deletes the session after all records have reached the log.
	remove() error
	// sinkStats are the numbers of its sinks, where the drain stores them for this process.
	sinkStats() []SinkStats
	// release closes its descriptors, behind which another process may take the session.
	release()
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
	if options.Sinks > SinksMax || len(options.Config) > ConfigBytesMax-checksumBytes {
		return nil, fmt.Errorf("%d sinks in %d bytes of text; at most %d in %d",
			options.Sinks, len(options.Config), SinksMax, ConfigBytesMax-checksumBytes)
	}
	if options.RunAs == nil || options.RunAs.UID == os.Geteuid() {
		return createHere(runDir, options)
	}
	prepareRunDir(runDir, options.RunAs)
	var session *Session
	var failed error
	if err := workAs(options.RunAs, func() { session, failed = createHere(runDir, options) }); err != nil {
		return nil, err
	}
	return session, failed
}

// createHere creates the session with the rights of the calling thread.
func createHere(runDir string, options Options) (*Session, error) {
	dir, err := newDirectory(runDir, options.App, options.RunAs)
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
	file     *ownFile
	memory   mapping
	reserved int64
}

func newGrowing(file *os.File, most int64) (growing, error) {
	memory, err := mapPlain(file, uintptr(most))
	if err != nil {
		return growing{}, err
	}
	owned, err := own(file)
	return growing{file: owned, memory: memory, reserved: ReserveStepBytes}, err
}

// atLeast makes sure that the first bytes may be touched. Called with the lock of the registration.
func (g *growing) atLeast(bytes int64) error {
	if bytes <= g.reserved {
		return nil
	}
	wanted := (bytes + ReserveStepBytes - 1) / ReserveStepBytes * ReserveStepBytes
	if err := g.file.use(func(file *os.File) error { return reserve(file, g.reserved, wanted) }); err != nil {
		return err
	}
	g.reserved = wanted
	return nil
}

// Path is the session's directory, or the socket of its agent.
func (s *Session) Path() string { return s.home.path() }

// Bell wakes the session's drain.
func (s *Session) Bell() *Bell { return s.bell }

// RecordBytesMax is the longest record of the session's rings, the smallest of which may have been made where there was no
// room for a larger one.
func (s *Session) RecordBytesMax() int {
	if smallest := s.smallest.Load(); smallest != 0 {
		return RecordBytesFor(int(smallest))
	}
	return RecordBytesFor(s.capacity)
}

// UseShared says that some shard has no ring of its own.
func (s *Session) UseShared() { s.smallest.Store(BytesMin) }

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
	*(*uint32)(unsafe.Add(at, 4)) = id | uint32(entryCheck(id, callsite))<<16
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

// ErrNoRoom is returned by Attach for a while after a ring could not be made.
var ErrNoRoom = errors.New("there is no room for a ring")

// Attach gives a shard its ring. The caller does not have the shard: a ring takes some milliseconds to make, because
// all of its pages are touched now rather than later. Where there is no room for one, a smaller one is made. A shard that
// gets none may use the one that HoldShared gives; a further try comes a second later.
func (s *Session) Attach(shard int) error {
	if time.Now().UnixNano() < s.noRoomUntil.Load() {
		return ErrNoRoom
	}
	s.ringsLock.Lock()
	defer s.ringsLock.Unlock()
	if s.ended {
		return ErrEnded
	}
	if s.shards[shard].Load() != nil {
		return nil
	}
	if len(s.rings) >= RingsMax {
		return fmt.Errorf("the session has its most rings, %d", RingsMax)
	}
	ring, err := s.freeRing()
	if err != nil {
		s.noRoomUntil.Store(time.Now().Add(RingRetry).UnixNano())
		return err
	}
	s.shards[shard].Store(newProducer(ring, s.bell, s.capacity, shardName(shard)))
	return nil
}

func shardName(shard int) string {
	if shard == Shards {
		return "shared"
	}
	return fmt.Sprintf("P%d", shard)
}

// Replace puts the larger ring in the place of that of a shard, if MakeLarger has made one. The caller has the shard, and
// before is its producer.
func (s *Session) Replace(shard int, before *Producer) bool {
	larger := s.larger[shard].Swap(nil)
	if larger == nil {
		return false
	}
	if !s.shards[shard].CompareAndSwap(before, larger) {
		// EndRings has it.
		larger.End()
		return false
	}
	// All records of the smaller ring are committed before the first one of the larger.
	before.End()
	return true
}

// MakeLarger makes a ring for a shard to go on in, with a higher number, so that of records of the same time those of the
// smaller ring come first. The caller does not have the shard. It returns false where there is no room, and then tries no
// other one for a while.
func (s *Session) MakeLarger(shard int, before *Producer) bool {
	if time.Now().UnixNano() < s.noLargerUntil.Load() {
		return false
	}
	capacity := min(int(before.ring.capacity)*growth, s.capacity)
	if ring := s.takeLarger(before); ring != nil {
		return s.offer(shard, before, ring, nil)
	}
	ring, number, err := s.home.makeLarger(capacity)
	if err != nil {
		s.noLargerUntil.Store(time.Now().Add(RingRetry).UnixNano())
		return false
	}
	return s.offer(shard, before, ring, number)
}

// takeLarger finds a ring that no shard has.
func (s *Session) takeLarger(before *Producer) *Ring {
	s.ringsLock.Lock()
	defer s.ringsLock.Unlock()
	for _, ring := range s.rings {
		if ring.index > before.ring.index && ring.capacity > before.ring.capacity && ring.State() == StateFree && !s.isHeld(ring) {
			return ring
		}
	}
	return nil
}

// offer gives a shard a ring to go on in, and a new one its number.
func (s *Session) offer(shard int, before *Producer, ring *Ring, number func(int) error) bool {
	s.ringsLock.Lock()
	defer s.ringsLock.Unlock()
	isWanted := !s.ended && s.shards[shard].Load() == before && s.larger[shard].Load() == nil
	switch {
	case number == nil && (!isWanted || s.isHeld(ring)):
		// Another goroutine was faster. The ring stays free.
		return !s.ended
	case number == nil:
	case !isWanted || len(s.rings) >= RingsMax:
		_ = number(-1)          // The error says that there is no number.
		_ = ring.memory.unmap() // A mapping that stays costs addresses only.
		return !s.ended && !isWanted
	default:
		if number(len(s.rings)) != nil {
			_ = ring.memory.unmap() // As above.
			s.noLargerUntil.Store(time.Now().Add(RingRetry).UnixNano())
			return false
		}
		s.enter(ring)
	}
	s.larger[shard].Store(newProducer(ring, s.bell, s.capacity, shardName(shard)))
	return true
}

// NoLarger says that there is no room for the larger ring that a record needs: the next long ones are cut.
func (s *Session) NoLarger(producer *Producer, length uint64) {
	if length <= uint64(RecordBytesFor(int(producer.ring.capacity))) {
		return
	}
	if known, capacity := s.smallest.Load(), int64(producer.ring.capacity); known == 0 || capacity < known {
		s.smallest.Store(capacity)
	}
}

// freeRing finds a ring that no shard has, or makes one. Called with the lock of the rings.
func (s *Session) freeRing() (*Ring, error) {
	for _, ring := range s.rings {
		if ring.State() == StateFree && !s.isHeld(ring) {
			return ring, nil
		}
	}
	var problem error
	for capacity := s.first; capacity >= BytesMin; capacity /= growth {
		ring, err := s.home.makeRing(s, len(s.rings), capacity)
		if err == nil {
			s.enter(ring)
			if known := s.smallest.Load(); capacity < s.first && (known == 0 || int64(capacity) < known) {
				s.smallest.Store(int64(capacity))
			}
			return ring, nil
		}
		problem = err
	}
	return nil, problem
}

// attachShared makes the small ring of all shards that get none of their own. It is made at the start, while there is room.
func (s *Session) attachShared() error {
	ring, err := s.home.makeRing(s, len(s.rings), BytesMin)
	if err != nil {
		return err
	}
	s.enter(ring)
	s.shards[Shards].Store(newProducer(ring, s.bell, s.capacity, shardName(Shards)))
	return nil
}

func (s *Session) isHeld(ring *Ring) bool {
	for shard := range s.shards {
		for _, place := range []*atomic.Pointer[Producer]{&s.shards[shard], &s.larger[shard]} {
			if producer := place.Load(); producer != nil && producer.ring == ring {
				return true
			}
		}
	}
	return false
}

// enter adds a ring to the session. SYNC(ring count)
func (s *Session) enter(ring *Ring) {
	ring.index = len(s.rings)
	s.rings = append(s.rings, ring)
	store32(s.header, sessionRings, uint32(len(s.rings)))
}

// Stats are the numbers of a session.
type Stats struct {
	Records, Cut uint64
	Pending      uint64
	Disabled     uint64
	Dropped      [DropReasons]uint64
	Rings        int
	Callsites    int
	Sinks        []SinkStats
}

// Stats adds up the counts of the ring headers.
func (s *Session) Stats() Stats {
	s.ringsLock.Lock()
	defer s.ringsLock.Unlock()
	if s.final != nil {
		return *s.final
	}
	stats := Stats{Callsites: int(load32(s.header, sessionCallsites)), Disabled: load64(s.header, sessionDisabled)}
	for _, ring := range s.rings {
		stats.Rings++
		stats.Records += ring.Records()
		stats.Cut += ring.Cut()
		stats.Pending += ring.Committed() - ring.Consumed()
		for reason, count := range ring.Dropped() {
			stats.Dropped[reason] += count
		}
	}
	stats.Sinks = s.home.sinkStats()
	for reason := range stats.Dropped {
		stats.Dropped[reason] += load64(s.header, sessionDropped+8*uintptr(reason))
	}
	return stats
}

// MarkDone marks the session as complete: all records have reached the log. SYNC(done)
func (s *Session) markDone() {
	store64(s.header, sessionDone, ^load64(s.header, sessionChecksum))
}

// Remove deletes the session after all records have reached the log.
func (s *Session) Remove() error {
	s.markDone()
	return s.home.remove()
}

// ErrEnded is returned by Attach behind EndRings: the session takes no further records.
var ErrEnded = errors.New("the session has ended")

// EndRings takes the rings from the shards, waits for the calls that are writing into them, and ends them. Then the drain
// finds all records that the session will ever have. Later calls find no ring.
func (s *Session) EndRings() {
	s.ringsLock.Lock()
	defer s.ringsLock.Unlock()
	s.ended = true
	var producers []*Producer
	for shard := range s.shards {
		for _, place := range []*atomic.Pointer[Producer]{&s.shards[shard], &s.larger[shard]} {
			if producer := place.Swap(nil); producer != nil {
				producers = append(producers, producer)
			}
		}
	}
	if len(producers) == 0 {
		return
	}
	awaitPinned()
	for _, producer := range producers {
		producer.End()
	}
}

// Release gives the memory and the descriptors of a session back that has ended, and takes the last look at its numbers.
// Calls that found their callsite before the end may still load its control word and add to its counts: where these lie,
// private memory takes their place, in which every callsite is on, so that such a call finds no ring and is counted as late.
func (s *Session) Release() error {
	stats := s.Stats()
	s.registering.Lock()
	defer s.registering.Unlock()
	s.ringsLock.Lock()
	defer s.ringsLock.Unlock()
	registered := uintptr(s.registered)
	s.registered = CallsitesMax
	problems := []error{
		s.control.memory.replace(func(fresh unsafe.Pointer) {
			for id := range registered {
				store32(unsafe.Add(fresh, id*controlBytes), 0, On)
			}
		}),
		s.counts.memory.replace(nil),
		mapping{s.header, sessionBytes}.replace(nil),
		s.rules.memory.replace(nil),
		s.table.memory.unmap(),
	}
	for _, ring := range s.rings {
		ring.parker.expel(ring.header())
		problems = append(problems, ring.memory.unmap())
	}
	s.rings, s.final = nil, &stats
	for _, part := range []*growing{&s.control, &s.counts, &s.table} {
		if part.file != nil {
			part.file.close()
		}
	}
	s.rules.file.close()
	s.home.release()
	return errors.Join(problems...)
}

// WaitConsumed waits until a position sum moves; for progress checks.
func (s *Session) consumedSum() (sum uint64) {
	s.ringsLock.Lock()
	defer s.ringsLock.Unlock()
	for _, ring := range s.rings {
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
	for index, number := range processIdentity() {
		store64(header, sessionProcess+8*uintptr(index), number)
	}
	noteStartKills(header)
	store64(header, sessionCoarse, Ticks())
	store64(header, sessionChecksum, headerChecksum(header))
	// SYNC(session): stored last.
	store64(header, sessionMagic, sessionMagicWord)
}

// noteStartKills stores the counts that tell a later kill for lack of memory.
func noteStartKills(header unsafe.Pointer) {
	for index, number := range memoryKills() {
		store64(header, sessionStartKills+8*uintptr(index), number)
	}
}

// headerChecksum is the checksum of what never changes in a header.
func headerChecksum(header unsafe.Pointer) uint64 {
	sum := checksumWords(checksumStart, sessionMagicWord, load64(header, sessionPid), load64(header, sessionStart))
	for at := uintptr(sessionApp); at < sessionChecksum; at += 8 {
		sum = checksumWords(sum, load64(header, at))
	}
	return sum
}

// checkHeader validates a session header. The error names the field.
func checkHeader(header unsafe.Pointer) error {
	damaged := func(field string, found uint64, expected string) error {
		return &DamageError{"session header", field, found, expected}
	}
	if magic := load64(header, sessionMagic); magic != sessionMagicWord {
		return damaged("magic", magic, "LDSESS and version 2")
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
	if sum := load64(header, sessionChecksum); sum != headerChecksum(header) {
		return damaged("checksum", sum, "that of the words before it")
	}
	return nil
}

// TableEntry is an entry of a callsite table.
type TableEntry struct {
	ID    uint32
	Bytes []byte
}

// SplitTable takes a callsite table apart: whole entries, also behind bytes that are none.
func SplitTable(bytes []byte) []TableEntry {
	var entries []TableEntry
	for at := 0; len(bytes)-at > 8; {
		head := bytes[at : at+8]
		length := uint64(head[0]) | uint64(head[1])<<8 | uint64(head[2])<<16 | uint64(head[3])<<24
		id := uint32(head[4]) | uint32(head[5])<<8
		rest := bytes[at+8:]
		if length == 0 || length > uint64(len(rest)) ||
			entryCheck(id, rest[:length]) != uint16(head[6])|uint16(head[7])<<8 {
			at += 8
			continue
		}
		entries = append(entries, TableEntry{id, rest[:length]})
		at = (at + 8 + int(length) + 7) &^ 7
	}
	return entries
}
