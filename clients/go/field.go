package logdrive

import (
	"fmt"
	"math"
	"time"
	"unsafe"

	"github.com/logdrive/logdrive/clients/go/internal/wire"
)

// Field is a named value of a record. It is made by the functions below, lies on the caller's stack, and is written
// into the ring as it is: numbers stay numbers.
type Field struct {
	name unsafe.Pointer // of the key's bytes
	tag  uint64         // the key's length, and above it the kind: one compare checks both against a callsite
	ptr  unsafe.Pointer // of a text, of bytes, or the second word of an interface
	num  uint64         // the number, the length of a text, or the first word of an interface
}

// tagKind is where the kind begins in a tag; no key is so long that it comes near.
const tagKind = 56

func number(key string, kind wire.Kind, num uint64) Field {
	return Field{name: unsafe.Pointer(unsafe.StringData(key)), tag: uint64(len(key)) | uint64(kind)<<tagKind, num: num}
}

func pointer(key string, kind wire.Kind, ptr unsafe.Pointer, num uint64) Field {
	return Field{name: unsafe.Pointer(unsafe.StringData(key)), tag: uint64(len(key)) | uint64(kind)<<tagKind, ptr: ptr, num: num}
}

func (f *Field) kind() wire.Kind { return wire.Kind(f.tag >> tagKind) }

func (f *Field) key() string { return unsafe.String((*byte)(f.name), int(f.tag&(1<<tagKind-1))) }

// Kinds of fields that become one of the format when the record is written.
const (
	kindDuration wire.Kind = 0x40 + iota
	kindTime
	kindError
	kindStringer
	kindAny
	kindJSON
	kindGroup
	kindOpen
	kindClose
)

// Bool is a field with a truth value.
func Bool(key string, value bool) Field {
	var num uint64
	if value {
		num = 1
	}
	return number(key, wire.Bool, num)
}

// Int is a field with a signed number.
func Int(key string, value int) Field { return number(key, wire.I64, uint64(value)) }

// Int8 is a field with a signed number of 8 bits.
func Int8(key string, value int8) Field { return number(key, wire.I8, uint64(value)) }

// Int16 is a field with a signed number of 16 bits.
func Int16(key string, value int16) Field { return number(key, wire.I16, uint64(value)) }

// Int32 is a field with a signed number of 32 bits.
func Int32(key string, value int32) Field { return number(key, wire.I32, uint64(value)) }

// Int64 is a field with a signed number of 64 bits.
func Int64(key string, value int64) Field { return number(key, wire.I64, uint64(value)) }

// Uint is a field with a number that is not negative.
func Uint(key string, value uint) Field { return number(key, wire.U64, uint64(value)) }

// Uint8 is a field with a number of 8 bits that is not negative.
func Uint8(key string, value uint8) Field { return number(key, wire.U8, uint64(value)) }

// Uint16 is a field with a number of 16 bits that is not negative.
func Uint16(key string, value uint16) Field {
	return number(key, wire.U16, uint64(value))
}

// Uint32 is a field with a number of 32 bits that is not negative.
func Uint32(key string, value uint32) Field {
	return number(key, wire.U32, uint64(value))
}

// Uint64 is a field with a number of 64 bits that is not negative.
func Uint64(key string, value uint64) Field { return number(key, wire.U64, value) }

// Uintptr is a field with an address, shown in hexadecimal.
func Uintptr(key string, value uintptr) Field {
	return number(key, wire.Pointer, uint64(value))
}

// Float32 is a field with a floating-point number of 32 bits.
func Float32(key string, value float32) Field {
	return number(key, wire.F32, uint64(math.Float32bits(value)))
}

// Float64 is a field with a floating-point number.
func Float64(key string, value float64) Field {
	return number(key, wire.F64, math.Float64bits(value))
}

// Rune is a field with a character. Invalid code points become U+FFFD.
func Rune(key string, value rune) Field {
	if value < 0 || value > 0x10ffff || value >= 0xd800 && value < 0xe000 {
		value = 0xfffd
	}
	return number(key, wire.Char, uint64(value))
}

// String is a field with a text. A text that does not fit the record is cut, and counted in [Stats].Cut.
func String(key, value string) Field {
	return pointer(key, wire.Str, unsafe.Pointer(unsafe.StringData(value)), uint64(len(value)))
}

// Bytes is a field with bytes, which are copied by the call.
func Bytes(key string, value []byte) Field {
	return pointer(key, wire.Bytes, unsafe.Pointer(unsafe.SliceData(value)), uint64(len(value)))
}

// Duration is a field with a time span, shown as Go shows it.
func Duration(key string, value time.Duration) Field {
	return number(key, kindDuration, uint64(value))
}

// Time is a field with a time, shown in UTC.
func Time(key string, value time.Time) Field {
	if seconds := value.Unix(); seconds <= -timeSecondsMax || seconds >= timeSecondsMax {
		return distant(key, value)
	}
	return number(key, kindTime, uint64(value.UnixNano()))
}

// timeSecondsMax is how far from 1970 a time is whose nanoseconds have no room in 64 bits: 292 years.
const timeSecondsMax = math.MaxInt64 / 1_000_000_000

// distant is Time for what lies centuries ahead or behind, such as the zero of time.Time. It is made by the call.
//
//go:noinline
func distant(key string, value time.Time) Field {
	text := "0001-01-01T00:00:00Z"
	if !value.IsZero() {
		text = value.UTC().Format(time.RFC3339Nano)
	}
	return pointer(key, wire.Display, unsafe.Pointer(unsafe.StringData(text)), uint64(len(text)))
}

// Err is a field named "error" with the error's text. The call renders it, and only if the record is kept.
func Err(err error) Field { return NamedErr("error", err) }

// NamedErr is [Err] with a key.
func NamedErr(key string, err error) Field {
	if err == nil {
		return number(key, wire.None, 0)
	}
	words := (*[2]unsafe.Pointer)(unsafe.Pointer(&err))
	return pointer(key, kindError, words[1], uint64(uintptr(words[0])))
}

// Stringer is a field with the result of the value's String method. The call renders it, and only if the record is kept.
func Stringer(key string, value fmt.Stringer) Field {
	if value == nil {
		return number(key, wire.None, 0)
	}
	words := (*[2]unsafe.Pointer)(unsafe.Pointer(&value))
	return pointer(key, kindStringer, words[1], uint64(uintptr(words[0])))
}

// Group is fields under a common name: their keys become "key.name". Its fields move to the heap; where that counts,
// write the keys out.
func Group(key string, fields ...Field) Field {
	kept := append([]Field(nil), fields...)
	return pointer(key, kindGroup, unsafe.Pointer(unsafe.SliceData(kept)), uint64(len(kept)))
}

// Any is a field with a value of any type. Numbers, texts, times and errors are kept as such; other values are shown as
// fmt.Sprint shows them, by the call, and only where the record is kept.
func Any(key string, value any) Field {
	switch value := value.(type) {
	case nil:
		return number(key, wire.None, 0)
	case string:
		return String(key, value)
	case int:
		return Int(key, value)
	case int64:
		return Int64(key, value)
	case int32:
		return Int32(key, value)
	case int16:
		return Int16(key, value)
	case int8:
		return Int8(key, value)
	case uint:
		return Uint(key, value)
	case uint64:
		return Uint64(key, value)
	case uint32:
		return Uint32(key, value)
	case uint16:
		return Uint16(key, value)
	case uint8:
		return Uint8(key, value)
	case uintptr:
		return Uintptr(key, value)
	case bool:
		return Bool(key, value)
	case float64:
		return Float64(key, value)
	case float32:
		return Float32(key, value)
	case []byte:
		return Bytes(key, value)
	case time.Duration:
		return Duration(key, value)
	case time.Time:
		return Time(key, value)
	case error:
		return NamedErr(key, value)
	case []Field:
		return Group(key, value...)
	}
	return anyField(key, value)
}

// Object is a field with the JSON of a value, such as a struct or a map, in every layout. The call renders it, and only if
// the record is kept.
func Object(key string, value any) Field {
	if value == nil {
		return number(key, wire.None, 0)
	}
	words := (*[2]unsafe.Pointer)(unsafe.Pointer(&value))
	return pointer(key, kindJSON, words[1], uint64(uintptr(words[0])))
}

// Slice is a field with the JSON of a slice, as [Object].
func Slice[T any](key string, values []T) Field { return Object(key, values) }

// anyField is a field whose value is rendered by the call.
func anyField(key string, value any) Field {
	words := (*[2]unsafe.Pointer)(unsafe.Pointer(&value))
	return pointer(key, kindAny, words[1], uint64(uintptr(words[0])))
}

// open and close stand around the fields of a group in a list of fields.
func open(key string) Field { return number(key, kindOpen, 0) }

var closing = number("", kindClose, 0)

// text is the text or bytes of a field that has a length.
func (f *Field) text() string { return unsafe.String((*byte)(f.ptr), int(f.num)) }

// words puts the two words of an interface together again. The first one points to a type or a table of methods, which
// the runtime never moves or frees.
func (f *Field) words() [2]unsafe.Pointer {
	first := uintptr(f.num)
	return [2]unsafe.Pointer{*(*unsafe.Pointer)(unsafe.Pointer(&first)), f.ptr}
}

func (f *Field) err() error {
	words := f.words()
	return *(*error)(unsafe.Pointer(&words))
}

func (f *Field) stringer() fmt.Stringer {
	words := f.words()
	return *(*fmt.Stringer)(unsafe.Pointer(&words))
}

func (f *Field) any() any {
	words := f.words()
	return *(*any)(unsafe.Pointer(&words))
}

func (f *Field) group() []Field { return unsafe.Slice((*Field)(f.ptr), int(f.num)) }
