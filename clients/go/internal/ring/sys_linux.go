package ring

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// mapping is a piece of shared memory. Callsites and rings point into it: it is unmapped where no goroutine can log.
type mapping struct {
	base  unsafe.Pointer
	bytes uintptr
}

// pointerAt makes a pointer of an address that the kernel gave. The memory is not Go's, so the collector ignores it.
func pointerAt(address uintptr) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}

func mmap(address, length uintptr, flags int, fd int, offset int64) (uintptr, error) {
	got, _, errno := syscall.Syscall6(syscall.SYS_MMAP, address, length,
		syscall.PROT_READ|syscall.PROT_WRITE, uintptr(flags), uintptr(fd), uintptr(offset))
	if errno != 0 {
		return 0, errno
	}
	return got, nil
}

// mapPlain maps the front of a file.
func mapPlain(file *os.File, bytes uintptr) (mapping, error) {
	address, err := mmap(0, bytes, syscall.MAP_SHARED, int(file.Fd()), 0)
	if err != nil {
		return mapping{}, fmt.Errorf("map %s: %w", file.Name(), err)
	}
	return mapping{base: pointerAt(address), bytes: bytes}, nil
}

// mapRing maps a ring's data area, the same once more directly behind it, and the header behind both.
func mapRing(file *os.File, capacity uintptr, populate bool) (mapping, error) {
	total := 2*capacity + HeaderBytes
	fd := int(file.Fd())
	base, err := mmap(0, total, syscall.MAP_PRIVATE|syscall.MAP_ANON|syscall.MAP_NORESERVE, -1, 0)
	if err != nil {
		return mapping{}, fmt.Errorf("reserve addresses for %s: %w", file.Name(), err)
	}
	flags := syscall.MAP_SHARED | syscall.MAP_FIXED
	if populate {
		flags |= syscall.MAP_POPULATE
	}
	parts := []struct {
		at, length uintptr
		offset     int64
	}{{base, capacity, 0}, {base + capacity, capacity, 0}, {base + 2*capacity, HeaderBytes, int64(capacity)}}
	for _, part := range parts {
		if _, err = mmap(part.at, part.length, flags, fd, part.offset); err != nil {
			_ = (mapping{pointerAt(base), total}).unmap() // The first error is the one to return.
			return mapping{}, fmt.Errorf("map %s: %w", file.Name(), err)
		}
	}
	return mapping{base: pointerAt(base), bytes: total}, nil
}

func (m mapping) unmap() error {
	_, _, errno := syscall.Syscall(syscall.SYS_MUNMAP, uintptr(m.base), m.bytes, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// replace puts private memory of zeros in the place of a mapping, at once; fill writes into it before that.
func (m mapping) replace(fill func(fresh unsafe.Pointer)) error {
	fresh, err := mmap(0, m.bytes, syscall.MAP_PRIVATE|syscall.MAP_ANON|syscall.MAP_NORESERVE, -1, 0)
	if err != nil {
		return fmt.Errorf("replace a mapping: %w", err)
	}
	if fill != nil {
		fill(pointerAt(fresh))
	}
	const mayMove, fixed = 1, 2
	if _, _, errno := syscall.Syscall6(syscall.SYS_MREMAP, fresh, m.bytes, m.bytes, mayMove|fixed, uintptr(m.base), 0); errno != 0 {
		_ = (mapping{pointerAt(fresh), m.bytes}).unmap() // The first error is the one to return.
		return fmt.Errorf("replace a mapping: %w", errno)
	}
	return nil
}

// reserve gives a file its blocks, so that no later touch can fail for want of room.
func reserve(file *os.File, from, to int64) error {
	for {
		err := syscall.Fallocate(int(file.Fd()), 0, from, to-from)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, syscall.EINTR):
			continue
		default:
			return fmt.Errorf("reserve %d bytes for %s: %w", to-from, file.Name(), err)
		}
	}
}

const (
	futexWait = 0
	futexWake = 1
)

// futexSleep waits until the word is woken, while it has the value, at most so long. Any return counts as a wake. The word is shared with another process.
func futexSleep(word *uint32, value uint32, most time.Duration) {
	timeout := syscall.NsecToTimespec(int64(most))
	_, _, _ = syscall.Syscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWait,
		uintptr(value), uintptr(unsafe.Pointer(&timeout)), 0, 0)
}

// futexRouse wakes all threads that sleep on the word.
func futexRouse(word *uint32) {
	_, _, _ = syscall.RawSyscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWake, 1<<30, 0, 0, 0)
}

// lockForProcess takes a record lock of the whole file, without waiting. The kernel gives it up when the process ends,
// and when the process closes any descriptor of the file.
func lockForProcess(file *os.File) error {
	lock := syscall.Flock_t{Type: syscall.F_WRLCK}
	if err := syscall.FcntlFlock(file.Fd(), syscall.F_SETLK, &lock); err != nil {
		return fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	return nil
}

// threadID is the kernel's number of the calling thread.
func threadID() uint64 { return uint64(syscall.Gettid()) }
