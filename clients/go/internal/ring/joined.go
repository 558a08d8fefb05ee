//go:build linux

package ring

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"unsafe"
)

// Sealed memory files, which an agent and a process share. The receiver of one checks it before it is mapped, so that no
// touch of its pages can fail later.
const (
	fcntlAddSeals = 1033
	fcntlGetSeals = 1034
	// sealsWanted are F_SEAL_SEAL, F_SEAL_SHRINK and F_SEAL_GROW.
	sealsWanted   = 1 | 2 | 4
	tmpfsMagic    = 0x0102_1994
	memfdCloexec  = 1
	memfdSealing  = 2
	memfdNoexec   = 8
	partSession   = 0
	partControl   = 1
	partCounts    = 2
	partCallsites = 3
	partRules     = 4
	parts         = 5
)

var partBytes = [parts]int64{sessionBytes, CallsitesMax * controlBytes, CallsitesMax * countsBytes, TableBytesMax, RulesFileBytes}

// joined is a session whose memory came from an agent. All descriptors are kept, to be sent to the next agent.
type joined struct {
	socket string
	lock   sync.Mutex
	parts  []*ownFile
	rings  []*ownFile
	known  map[fileID]bool
	// made is called when a ring was made here, which the agent has to be sent. It does not block.
	made func()
}

// Join takes a session that an agent made: its five files and first rings. made is called when a ring was made here.
func Join(socket string, files []*os.File, ringBytes uint64, ring func(), made func()) (*Session, error) {
	if len(files) < parts || ringBytes < BytesMin || ringBytes > BytesMax || ringBytes&(ringBytes-1) != 0 {
		return nil, fmt.Errorf("the agent has sent %d descriptors, and rings of %d bytes", len(files), ringBytes)
	}
	home := &joined{socket: socket, known: map[fileID]bool{}, made: made}
	for part, file := range files[:parts] {
		if err := home.check(file, partBytes[part]); err != nil {
			return nil, err
		}
		owned, err := own(file)
		if err != nil {
			return nil, err
		}
		home.parts = append(home.parts, owned)
	}
	session := &Session{home: home, capacity: int(ringBytes), first: int(ringBytes)}
	header, err := mapPlain(files[partSession], sessionBytes)
	if err != nil {
		return nil, err
	}
	if err := checkHeader(header.base); err != nil {
		return nil, err
	}
	if found := load32(header.base, sessionClock); found != uint32(MachineClock()) {
		return nil, &DamageError{"session header", "clock source", uint64(found), "the clock that this process would take"}
	}
	session.header = header.base
	noteStartKills(header.base)
	session.bell = newBell(header.base)
	session.bell.agent = ring
	for part, to := range map[int]*growing{partControl: &session.control, partCounts: &session.counts, partCallsites: &session.table} {
		if *to, err = newGrowing(files[part], partBytes[part]); err != nil {
			return nil, err
		}
	}
	if session.rules, err = openRules(files[partRules]); err != nil {
		return nil, err
	}
	return session, session.TakeRings(files[parts:])
}

// check refuses a descriptor that is no sealed memory file of this size, or that is here already.
func (j *joined) check(file *os.File, bytes int64) error {
	refuse := func(why string) error { return fmt.Errorf("a descriptor of the agent is refused: %s", why) }
	fd := file.Fd()
	seals, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, fcntlGetSeals, 0)
	if errno != 0 || seals&sealsWanted != sealsWanted {
		return refuse("it is no memory file that is sealed in size")
	}
	var system syscall.Statfs_t
	if err := syscall.Fstatfs(int(fd), &system); err != nil || system.Type != tmpfsMagic {
		return refuse("it is no memory with pages of the usual size")
	}
	flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_GETFL, 0)
	if errno != 0 || flags&syscall.O_ACCMODE != syscall.O_RDWR {
		return refuse("it is not open for reading and writing")
	}
	var stat syscall.Stat_t
	if err := syscall.Fstat(int(fd), &stat); err != nil || stat.Size != bytes {
		return refuse(fmt.Sprintf("it has %d bytes, and not %d", stat.Size, bytes))
	}
	id := fileID{stat.Dev, stat.Ino}
	j.lock.Lock()
	defer j.lock.Unlock()
	if j.known[id] {
		return refuse("it is here already")
	}
	j.known[id] = true
	return nil
}

// TakeRings takes rings that the agent has sent; those before the first one that is wrong stay.
func (s *Session) TakeRings(files []*os.File) error {
	home, ok := s.home.(*joined)
	if !ok {
		return errors.New("the session is not an agent's")
	}
	for _, file := range files {
		if err := home.check(file, FileBytes(s.capacity)); err != nil {
			return err
		}
		ring, err := open(file, true)
		if err != nil {
			return err
		}
		owned, err := own(file)
		if err != nil {
			return err
		}
		s.ringsLock.Lock()
		if s.final != nil {
			s.ringsLock.Unlock()
			return errors.Join(ErrEnded, ring.memory.unmap())
		}
		home.add(owned)
		s.enter(ring)
		s.ringsLock.Unlock()
	}
	return nil
}

func (j *joined) add(file *ownFile) {
	j.lock.Lock()
	j.rings = append(j.rings, file)
	j.lock.Unlock()
}

// Descriptors returns the descriptors of an agent's session: its parts, and its rings in order; none where the program has
// closed one, whose number may be that of another file now.
func (s *Session) Descriptors() (parts, rings []*os.File) {
	home, ok := s.home.(*joined)
	if !ok {
		return nil, nil
	}
	home.lock.Lock()
	defer home.lock.Unlock()
	for _, file := range append(append([]*ownFile(nil), home.parts...), home.rings...) {
		if file.use(func(*os.File) error { return nil }) != nil {
			return nil, nil
		}
	}
	return filesOf(home.parts), filesOf(home.rings)
}

func filesOf(owned []*ownFile) []*os.File {
	files := make([]*os.File, len(owned))
	for at := range owned {
		files[at] = owned[at].file
	}
	return files
}

// RingBytes is the capacity of the session's rings.
func (s *Session) RingBytes() uint64 { return uint64(s.capacity) }

// makeRing makes a ring that the agent does not know yet.
func (j *joined) makeRing(s *Session, _, capacity int) (*Ring, error) {
	if capacity != s.capacity {
		return nil, errors.New("all rings of an agent's session have one size")
	}
	file, err := memoryFile("logdrive-ring", FileBytes(s.capacity))
	if err != nil {
		return nil, err
	}
	if err := j.check(file, FileBytes(s.capacity)); err != nil {
		return nil, err
	}
	ring, err := create(file, s.capacity, true)
	if err != nil {
		return nil, err
	}
	owned, err := own(file)
	if err != nil {
		return nil, err
	}
	j.add(owned)
	j.made()
	return ring, nil
}

// makeLarger makes nothing: all rings of an agent's session have one size.
func (j *joined) makeLarger(int) (*Ring, func(int) error, error) { return nil, nil, ErrNoRoom }

func memoryFile(name string, bytes int64) (*os.File, error) {
	text, err := syscall.BytePtrFromString(name)
	if err != nil {
		return nil, err
	}
	fd, _, errno := syscall.Syscall(sysMemfdCreate, uintptr(unsafe.Pointer(text)), memfdCloexec|memfdSealing|memfdNoexec, 0)
	if errno == syscall.EINVAL {
		// Kernels before 6.3 do not know the flag that keeps the file from being run as a program.
		fd, _, errno = syscall.Syscall(sysMemfdCreate, uintptr(unsafe.Pointer(text)), memfdCloexec|memfdSealing, 0)
	}
	if errno != 0 {
		return nil, fmt.Errorf("make a memory file: %w", errno)
	}
	file := os.NewFile(fd, name)
	if err = file.Truncate(bytes); err == nil {
		err = reserve(file, 0, bytes)
	}
	if err == nil {
		if _, _, errno = syscall.Syscall(syscall.SYS_FCNTL, fd, fcntlAddSeals, sealsWanted); errno != 0 {
			err = fmt.Errorf("seal a memory file: %w", errno)
		}
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

func (j *joined) path() string { return j.socket }

// remove does nothing: the memory goes with the last descriptor.
func (j *joined) remove() error { return nil }

// release closes the memory files.
func (j *joined) release() {
	j.lock.Lock()
	defer j.lock.Unlock()
	for _, file := range append(j.parts, j.rings...) {
		file.close()
	}
	j.parts, j.rings = nil, nil
}

// sinkStats has nothing: the agent keeps the numbers of its sinks.
func (j *joined) sinkStats() []SinkStats { return nil }
