//go:build linux

package ring

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// directory is a session in a run directory: files, of which `session` bears the lock of this process.
type directory struct {
	name string
	// session stays open as long as the process lives: closing any descriptor of it gives up the lock.
	session *ownFile
	// drain is the head of the file `drain`, where the drain stores the numbers of its sinks.
	drain mapping
	sinks int
	// owner is the user that all files belong to, if the program becomes it; else nil.
	owner *User
}

// nextNumber makes the names of the sessions of this process differ.
var nextNumber atomic.Uint32

// newDirectory makes a locked session directory APP-PID-N.
func newDirectory(runDir, app string, owner *User) (*directory, error) {
	if err := makePrivate(runDir, owner); err != nil {
		return nil, err
	}
	for range sessionNamesMax {
		name := filepath.Join(runDir, fmt.Sprintf("%s-%d-%d", FilePart(app), os.Getpid(), nextNumber.Add(1)-1))
		err := os.Mkdir(name, 0o700)
		if errors.Is(err, os.ErrExist) {
			// Left by an earlier process of the same number.
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("make the directory of the session: %w", err)
		}
		dir := &directory{name: name, owner: owner}
		if err := dir.lock(); err != nil {
			_ = dir.remove() // The session is empty; the first error is the one to return.
			return nil, err
		}
		return dir, nil
	}
	return nil, fmt.Errorf("%s is full of sessions that earlier processes left; `logdrive recover --all` drains them", runDir)
}

func (d *directory) lock() error {
	// It gets its name once it is locked: a start of another process would take one without a lock for a dead one's.
	const unnamed = "session.new"
	file, err := d.makeFile(unnamed, sessionBytes, sessionBytes)
	if err != nil {
		return err
	}
	if d.session, err = own(file); err != nil {
		return err
	}
	if err := lockForProcess(file); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(d.name, unnamed), filepath.Join(d.name, "session")); err != nil {
		return fmt.Errorf("name the file of the session: %w", err)
	}
	return nil
}

// makePrivate makes a directory of mode 0700, or checks that an existing one is ours alone.
func makePrivate(path string, owner *User) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("make the run directory: %w", err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("look at the run directory: %w", err)
	}
	refuse := func(why string) error { return fmt.Errorf("the run directory %s is not used: %s", path, why) }
	if !info.IsDir() {
		return refuse("it is a link or not a directory")
	}
	uid := os.Geteuid()
	if owner != nil {
		uid = owner.UID
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || stat.Uid != uint32(uid) {
		return refuse("it belongs to another user")
	}
	if info.Mode().Perm()&0o022 != 0 {
		return refuse("others may write to it")
	}
	return nil
}

// makeFile makes a file of a size, of which the first bytes have their blocks.
func (d *directory) makeFile(name string, bytes, reserved int64) (*os.File, error) {
	path := filepath.Join(d.name, name)
	flags := os.O_RDWR | os.O_CREATE | os.O_EXCL | syscall.O_NOFOLLOW
	file, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make a file of the session: %w", err)
	}
	// A goroutine of the program makes it as root before the change.
	if d.owner != nil && os.Geteuid() != d.owner.UID {
		err = file.Chown(d.owner.UID, d.owner.GID)
	}
	if err == nil {
		err = file.Truncate(bytes)
	}
	if err == nil {
		err = reserve(file, 0, reserved)
	}
	if err != nil {
		// A later write to a file without blocks would be a SIGBUS. The error above is the one to return.
		_ = file.Close()
		_ = os.Remove(path)
		return nil, err
	}
	return file, nil
}

// fill makes the files of the session, in the order of spec/session.md.
func (d *directory) fill(options Options) (*Session, error) {
	if err := d.makeDrain(options); err != nil {
		return nil, err
	}
	session := &Session{home: d, capacity: CapacityFor(options.RingBytes), first: firstBytes}
	parts := []struct {
		name string
		most int64
		to   *growing
	}{
		{"control", CallsitesMax * controlBytes, &session.control},
		{"counts", CallsitesMax * countsBytes, &session.counts},
		{"rules", RulesFileBytes, nil},
		{"callsites", TableBytesMax, &session.table},
	}
	for _, part := range parts {
		file, err := d.makeFile(part.name, part.most, ReserveStepBytes)
		if err != nil {
			return nil, err
		}
		if part.to == nil {
			session.rules, err = formatRules(file)
		} else {
			*part.to, err = newGrowing(file, part.most)
		}
		if err != nil {
			return nil, err
		}
	}
	memory, err := mapPlain(d.session.file, sessionBytes)
	if err != nil {
		return nil, err
	}
	session.header = memory.base
	session.bell = newBell(memory.base)
	formatHeader(memory.base, options.App)
	return session, session.attachShared()
}

func (d *directory) makeRing(_ *Session, index, capacity int) (*Ring, error) {
	bytes := FileBytes(capacity)
	file, err := d.makeFile(ringName(index), bytes, bytes)
	if err != nil {
		return nil, err
	}
	defer file.Close() // It is mapped.
	return create(file, capacity, true)
}

// makeLarger makes a ring whose number is known later: number gives its file the name, or removes it.
func (d *directory) makeLarger(capacity int) (_ *Ring, number func(index int) error, _ error) {
	name := fmt.Sprintf("new-ring-%d", nextNumber.Add(1)-1)
	bytes := FileBytes(capacity)
	file, err := d.makeFile(name, bytes, bytes)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close() // It is mapped.
	path := filepath.Join(d.name, name)
	ring, err := create(file, capacity, false)
	if err != nil {
		_ = os.Remove(path) // The error above is the one to return.
		return nil, nil, err
	}
	return ring, func(index int) error {
		// A link, and not a new name: that would replace another file.
		err := errNoNumber
		if index >= 0 {
			err = os.Link(path, filepath.Join(d.name, ringName(index)))
		}
		return errors.Join(err, os.Remove(path))
	}, nil
}

// errNoNumber is returned for a ring that is not needed.
var errNoNumber = errors.New("a ring without a number")

func ringName(index int) string { return fmt.Sprintf("ring-%05d", index) }

func (d *directory) path() string { return d.name }

func (d *directory) sinkStats() []SinkStats {
	if d.drain.base == nil {
		return nil
	}
	return sinkStats(d.drain.base, d.sinks)
}

// remove takes the files away; `session` goes last: until then the session can be found.
func (d *directory) remove() error {
	list, err := os.ReadDir(d.name)
	if err != nil {
		return fmt.Errorf("list the session: %w", err)
	}
	for _, entry := range list {
		if entry.Name() == "session" {
			continue
		}
		if err := os.Remove(filepath.Join(d.name, entry.Name())); err != nil {
			return fmt.Errorf("remove the session: %w", err)
		}
	}
	if err := os.Remove(filepath.Join(d.name, "session")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the session: %w", err)
	}
	return os.Remove(d.name)
}

// release gives up the lock of the session.
func (d *directory) release() {
	_ = d.drain.unmap() // A mapping that stays costs addresses only.
	d.drain = mapping{}
	d.session.close()
}

// Offsets of the file `drain`.
const (
	drainSinks       = 8
	drainEpoch       = 32
	drainBuffers     = 12
	drainBufferBytes = 16
	drainConfigBytes = 24
	drainDescriptors = 12288
	drainChecksum    = 3248
	drainSinkWords   = 4096
	drainSinkMark    = 504
	drainConfig      = 28672
	drainCopy        = 61440
	drainCopySum     = 40
	drainOutput      = 65536
	// drainMagic is `LDDRAIN` and the format's version.
	drainMagic = 0x034e_4941_5244_444c
)

// makeDrain makes the output buffers, empty. Only the drain, in another process, touches them afterwards.
func (d *directory) makeDrain(options Options) error {
	buffers := options.Sinks * BuffersPerSink
	bytes := int64(drainOutput + buffers*BufferBytes)
	file, err := d.makeFile("drain", bytes, drainOutput)
	if err != nil {
		return err
	}
	defer file.Close() // Written data stays.
	// The drain makes sure of the others when it first fills them.
	for sink := range options.Sinks {
		first := int64(drainOutput + sink*BuffersPerSink*BufferBytes)
		if err := reserve(file, first, first+ReadyBuffers*BufferBytes); err != nil {
			return err
		}
	}
	memory, err := mapPlain(file, drainOutput)
	if err != nil {
		return err
	}
	d.drain, d.sinks = memory, options.Sinks
	base := memory.base
	config := unsafe.Slice((*byte)(unsafe.Add(base, drainConfig)), ConfigBytesMax)
	length := copy(config[:ConfigBytesMax-checksumBytes], options.Config)
	sum := checksum(checksumStart, config[:length])
	for at := range checksumBytes {
		config[length+at] = byte(sum >> (8 * at))
	}
	for buffer := range buffers {
		descriptor := drainDescriptors + 64*uintptr(buffer)
		store32(base, descriptor+4, uint32(buffer/BuffersPerSink))
		// That of a free buffer.
		store64(base, descriptor+56, checksumWords(checksumStart, 0))
	}
	for sink := range uintptr(16) {
		mark := checksumWords(checksumStart, uint64(sink))
		store64(base, drainSinkWords+512*sink+drainSinkMark, mark)
	}
	sizes := []uint64{uint64(options.Sinks) | uint64(buffers)<<32, BufferBytes}
	for _, part := range []struct{ at, sum uintptr }{{drainCopy, drainCopySum}, {0, drainChecksum}} {
		head := unsafe.Add(base, part.at)
		store32(head, drainSinks, uint32(options.Sinks))
		store32(head, drainBuffers, uint32(buffers))
		store64(head, drainBufferBytes, BufferBytes)
		store64(head, drainConfigBytes, uint64(length))
		store64(head, part.sum, checksumWords(checksumStart, append([]uint64{drainMagic}, sizes...)...))
	}
	// SYNC(drain file): stored last.
	store64(base, drainCopy, drainMagic)
	store64(base, 0, drainMagic)
	return nil
}
