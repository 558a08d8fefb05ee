package ring

import (
	"sync/atomic"
	"unsafe"
)

// word64 is the word at an offset of shared memory. The place is aligned, and inside of its mapping.
func word64(base unsafe.Pointer, offset uintptr) *uint64 {
	return (*uint64)(unsafe.Add(base, offset))
}

// word32 is the half word at an offset of shared memory.
func word32(base unsafe.Pointer, offset uintptr) *uint32 {
	return (*uint32)(unsafe.Add(base, offset))
}

func load64(base unsafe.Pointer, offset uintptr) uint64 {
	return atomic.LoadUint64(word64(base, offset))
}
func load32(base unsafe.Pointer, offset uintptr) uint32 {
	return atomic.LoadUint32(word32(base, offset))
}

func store64(base unsafe.Pointer, offset uintptr, value uint64) {
	atomic.StoreUint64(word64(base, offset), value)
}

func store32(base unsafe.Pointer, offset uintptr, value uint32) {
	atomic.StoreUint32(word32(base, offset), value)
}

// putText stores a text and zeros behind it, as words of eight bytes; at most room-1 bytes, cut between characters.
func putText(base unsafe.Pointer, offset uintptr, text string, room int) {
	var bytes [64]byte
	copy(bytes[:room-1], CutText(text, room-1))
	for at := 0; at < room; at += 8 {
		var word uint64
		for i := 7; i >= 0; i-- {
			word = word<<8 | uint64(bytes[at+i])
		}
		store64(base, offset+uintptr(at), word)
	}
}

// CutText is the front of a text, of at most so many bytes and without half a character at its end.
func CutText(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && text[most]&0xc0 == 0x80 {
		most--
	}
	return text[:most]
}
