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
	session *os.File
}

// nextNumber makes the names of the sessions of this process differ.
var nextNumber atomic.Uint32

// newDirectory makes a locked session directory APP-PID-N.
func newDirectory(runDir, app string) (*directory, error) {
	if err := makePrivate(runDir); err != nil {
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
		dir := &directory{name: name}
		if err := dir.lock(); err != nil {
			_ = dir.remove() // The session is empty; the first error is the one to return.
			return nil, err
		}
		return dir, nil
	}
	return nil, fmt.Errorf("%s is full of sessions that earlier processes left; `logdrive recover --all` drains them", runDir)
}

func (d *directory) lock() error {
	file, err := d.makeFile("session", sessionBytes, sessionBytes)
	if err != nil {
		return err
	}
	d.session = file
	return lockForProcess(file)
}

// makePrivate makes a directory of mode 0700, or checks that an existing one is ours alone.
func makePrivate(path string) error {
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
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || stat.Uid != uint32(os.Geteuid()) {
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
	if err = file.Truncate(bytes); err == nil {
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
	session := &Session{home: d, capacity: CapacityFor(options.RingBytes)}
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
	memory, err := mapPlain(d.session, sessionBytes)
	if err != nil {
		return nil, err
	}
	session.header = memory.base
	session.bell = newBell(memory.base)
	formatHeader(memory.base, options.App)
	return session, nil
}

func (d *directory) makeRing(s *Session, index int) (*Ring, error) {
	bytes := FileBytes(s.capacity)
	file, err := d.makeFile(fmt.Sprintf("ring-%05d", index), bytes, bytes)
	if err != nil {
		return nil, err
	}
	defer file.Close() // It is mapped.
	return create(file, s.capacity)
}

func (d *directory) path() string { return d.name }

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

// Offsets of the file `drain`.
const (
	drainSinks       = 8
	drainBuffers     = 12
	drainBufferBytes = 16
	drainConfigBytes = 24
	drainDescriptors = 8192
	drainConfig      = 24576
	drainOutput      = 57344
	// drainMagic is `LDDRAIN` and the format's version.
	drainMagic = 0x014e_4941_5244_444c
)

// makeDrain makes the output buffers, empty. Only the drain, in another process, touches them afterwards.
func (d *directory) makeDrain(options Options) error {
	buffers := options.Sinks * BuffersPerSink
	bytes := int64(drainOutput + buffers*BufferBytes)
	file, err := d.makeFile("drain", bytes, bytes)
	if err != nil {
		return err
	}
	defer file.Close() // Written data stays.
	memory, err := mapPlain(file, drainOutput)
	if err != nil {
		return err
	}
	defer memory.unmap() //nolint:errcheck // A mapping that stays costs addresses only.
	base := memory.base
	store32(base, drainSinks, uint32(options.Sinks))
	store32(base, drainBuffers, uint32(buffers))
	store64(base, drainBufferBytes, BufferBytes)
	copy(unsafe.Slice((*byte)(unsafe.Add(base, drainConfig)), ConfigBytesMax), options.Config)
	store64(base, drainConfigBytes, uint64(len(options.Config)))
	for buffer := range buffers {
		store32(base, drainDescriptors+64*uintptr(buffer)+4, uint32(buffer/BuffersPerSink))
	}
	// SYNC(drain file): stored last.
	store64(base, 0, drainMagic)
	return nil
}
