package wire

import (
	"encoding/binary"
	"unicode/utf8"
)

// Cursor reads from a slice and never beyond it.
type Cursor struct {
	rest []byte
}

// NewCursor begins at the front of the bytes.
func NewCursor(bytes []byte) *Cursor { return &Cursor{rest: bytes} }

// Left is the number of bytes that have not been read.
func (c *Cursor) Left() int { return len(c.rest) }

// Take reads so many bytes.
func (c *Cursor) Take(count int) ([]byte, error) {
	if count < 0 || count > len(c.rest) {
		return nil, fail(ErrTruncated, "%d bytes are missing", count-len(c.rest))
	}
	taken := c.rest[:count]
	c.rest = c.rest[count:]
	return taken, nil
}

// U8 reads a byte.
func (c *Cursor) U8() (uint8, error) {
	taken, err := c.Take(1)
	if err != nil {
		return 0, err
	}
	return taken[0], nil
}

// U16 reads two bytes.
func (c *Cursor) U16() (uint16, error) {
	taken, err := c.Take(2)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint16(taken), nil
}

// U32 reads four bytes.
func (c *Cursor) U32() (uint32, error) {
	taken, err := c.Take(4)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(taken), nil
}

// U64 reads eight bytes.
func (c *Cursor) U64() (uint64, error) {
	taken, err := c.Take(8)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(taken), nil
}

// Text reads a u16 length and UTF-8 of at most so many bytes.
func (c *Cursor) Text(most int) (string, error) {
	length, err := c.U16()
	if err != nil {
		return "", err
	}
	if int(length) > most {
		return "", fail(ErrLimit, "a text of %d bytes, at most %d", length, most)
	}
	taken, err := c.Take(int(length))
	if err != nil {
		return "", err
	}
	if !utf8.Valid(taken) {
		return "", fail(ErrNotUTF8, "a text of %d bytes", length)
	}
	return string(taken), nil
}

// Counted reads a u32 length and that many bytes.
func (c *Cursor) Counted() ([]byte, error) {
	length, err := c.U32()
	if err != nil {
		return nil, err
	}
	if uint64(length) > uint64(len(c.rest)) {
		return nil, fail(ErrTruncated, "a value of %d bytes, %d are left", length, len(c.rest))
	}
	return c.Take(int(length))
}
